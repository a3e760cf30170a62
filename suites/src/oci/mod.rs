//! Our images: `humboldt`, the program alone, and `humboldt-s3`, the program beside the radosgw of 18.2 that the cases install.
//!
//! ```text
//!   here      what an image holds, and how it runs
//!     ├ system   programs of a Debian with their libraries and licences
//!     └ layout   blobs and the files that name them ── tree   a folder as an archive
//! ```
//! Absent: the build of the program, and where images go (`xtask`).

pub mod layout;
pub mod system;
pub mod tree;

use crate::clients::{Release, reef_radosgw};
use anyhow::{Context, Result, ensure};
use layout::Image;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use system::{Packages, System};

/// Both, by name.
pub const NAMES: [&str; 2] = ["humboldt", "humboldt-s3"];
/// The program's image holds no more than this, unpacked.
pub const SIZE_MAX: u64 = 60 << 20;
/// Certificates of the authorities that Debian trusts, one file.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Where a container's cluster lies.
const DATA: &str = "/data";
/// The health address in a container.
pub const HEALTH_PORT: u16 = 9280;
pub const S3_PORT: u16 = 7480;
/// The monitor's.
const PORT: u16 = 3300;
/// Programs of the gateway.
const GATEWAY: [&str; 2] = ["/usr/bin/radosgw", "/usr/bin/radosgw-admin"];
/// Parts that the gateway loads when it is asked for compression or encryption, and files that it reads at its start.
const PLUGINS: [&str; 2] = ["/usr/lib/x86_64-linux-gnu/ceph/compressor", "/usr/lib/x86_64-linux-gnu/ceph/crypto"];
const READ: [&str; 2] = ["/etc/mime.types", "/etc/ssl/openssl.cnf"];

/// The parts of an image.
pub struct Source<'a> {
    /// The program, of any build.
    pub program: &'a Path,
    /// The kind of machine that it is for, by Debian's name.
    pub arch: &'a str,
    pub version: &'a str,
    /// Of the commit, seconds since 1970.
    pub time: u64,
    /// A folder with licences and bills, for `/usr/share/doc/humboldt`.
    pub docs: Option<&'a Path>,
    /// An empty place to work in.
    pub work: &'a Path,
}

/// An image that was made: the folder of its layout, its size unpacked, the packages of Debian in it.
#[derive(Debug)]
pub struct Made {
    pub layout: PathBuf,
    pub bytes: u64,
    pub packages: Packages,
}

/// Makes the image of that name.
pub fn make(name: &str, source: &Source<'_>) -> Result<Made> {
    let with_gateway = name == NAMES[1];
    ensure!(with_gateway || name == NAMES[0], "there is no image {name}: {NAMES:?}");
    let root = source.work.join(format!("{name}.root"));
    let _ = fs::remove_dir_all(&root);
    bare(&root)?;
    let mut packages = if with_gateway { gateway(source.arch, &root)? } else { Packages::new() };
    packages.extend(ours(&root, source, with_gateway)?);
    let bytes = tree::bytes(&root)?;
    let layout = source.work.join(format!("{name}-{}.oci", source.version));
    let _ = fs::remove_dir_all(&layout);
    layout::write(&image(name, source, with_gateway), &root, &layout)?;
    fs::remove_dir_all(&root)?;
    Ok(Made { layout, bytes, packages })
}

/// How it runs: `humboldt up` on the volume, with what a container is started with behind it.
fn image(name: &str, source: &Source<'_>, with_gateway: bool) -> Image {
    let mut entry_point: Vec<String> = ["/usr/bin/humboldt", "up", "--dir", DATA].map(String::from).into();
    let mut ports = vec![PORT, HEALTH_PORT];
    let mut title = "A Ceph cluster in one program";
    if with_gateway {
        entry_point.extend(["--s3", "--s3-listen", "0.0.0.0"].map(String::from));
        ports.push(S3_PORT);
        title = "A Ceph cluster in one program, with S3 by radosgw 18.2";
    }
    Image {
        name: name.into(),
        arch: source.arch.into(),
        version: source.version.into(),
        time: source.time,
        entry_point,
        // Commands that are run in a container find its cluster.
        environment: vec!["PATH=/usr/bin".into(), format!("CEPH_CONF={DATA}/ceph.conf"), format!("HUMBOLDT_HEALTH=0.0.0.0:{HEALTH_PORT}")],
        ports,
        volume: DATA.into(),
        title: title.into(),
        // The program's, and that of glibc in it, which is radosgw's as well.
        licences: "(MIT OR Apache-2.0) AND LGPL-2.1-or-later".into(),
    }
}

/// A root with nothing in it but what each program expects.
fn bare(root: &Path) -> Result<()> {
    for folder in
        ["usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "etc", "tmp", "data", "run", "var/run/ceph", "var/lib/ceph", "var/log/ceph"]
    {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::set_permissions(root.join("tmp"), Permissions::from_mode(0o1777))?;
    for folder in ["bin", "lib", "lib64", "sbin"] {
        symlink(format!("usr/{folder}"), root.join(folder))?;
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/:/usr/bin/humboldt\nnobody:x:65534:65534:nobody:/:/usr/bin/humboldt\n")?;
    fs::write(root.join("etc/group"), "root:x:0:\nnogroup:x:65534:\n")?;
    Ok(fs::write(root.join("etc/nsswitch.conf"), "passwd: files\ngroup: files\nhosts: files dns\n")?)
}

/// The program with its libraries, if it has any, and certificates. Beside a gateway its libraries are the gateway's, of a newer release.
fn ours(root: &Path, source: &Source<'_>, with_gateway: bool) -> Result<Packages> {
    let here = System(None);
    let program = root.join("usr/bin/humboldt");
    fs::copy(source.program, &program).with_context(|| source.program.display().to_string())?;
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    let mut files = here.libraries(&[source.program.display().to_string()])?;
    if with_gateway {
        let lacks = |file: &&String| !root.join(system::place(file)).exists();
        let lacking: Vec<&String> = files.iter().filter(lacks).collect();
        ensure!(lacking.is_empty(), "the gateway comes without libraries that {} names: {lacking:?}", source.program.display());
        files.clear();
    }
    ensure!(here.has(AUTHORITIES), "{AUTHORITIES} is not there: apt install ca-certificates");
    files.insert(AUTHORITIES.into());
    here.copy(&files, root)?;
    // The file is made when its package is installed: no package has it.
    files.insert("/usr/sbin/update-ca-certificates".into());
    let packages = here.packages(&files)?;
    here.keep_licences(source.arch, &packages, root)?;
    if let Some(docs) = source.docs {
        tree::copy(docs, &root.join("usr/share/doc/humboldt"))?;
    }
    Ok(packages)
}

/// radosgw of 18.2 and its administrator, with all that they load.
fn gateway(arch: &str, root: &Path) -> Result<Packages> {
    reef_radosgw()?;
    let reef = System(Release::Reef.chroot());
    let mut programs: Vec<String> = GATEWAY.map(String::from).into();
    for folder in PLUGINS.into_iter().filter(|folder| reef.has(folder)) {
        programs.extend(reef.below(folder)?);
    }
    let mut files: BTreeSet<String> = reef.libraries(&programs)?;
    files.extend(programs);
    // glibc loads it itself when a thread ends.
    files.insert("/usr/lib/x86_64-linux-gnu/libgcc_s.so.1".into());
    files.extend(READ.into_iter().filter(|file| reef.has(file)).map(String::from));
    reef.copy(&files, root)?;
    let packages = reef.packages(&files)?;
    ensure!(packages.contains_key("radosgw"), "no radosgw among {packages:?}");
    reef.keep_licences(arch, &packages, root)?;
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_image_is_the_program_and_little_else_and_comes_out_the_same_twice() {
        let work = std::env::temp_dir().join(format!("humboldt-images-{}", std::process::id()));
        let _ = fs::remove_dir_all(&work);
        fs::create_dir_all(&work).unwrap();
        let index = |program: &str, work: &Path| {
            let source = Source { program: Path::new(program), arch: "amd64", version: "0.1.0", time: 1_700_000_000, docs: None, work };
            let made = make("humboldt", &source).unwrap();
            assert!(made.bytes < SIZE_MAX && made.layout.ends_with("humboldt-0.1.0.oci"), "{made:?}");
            assert!(made.packages.contains_key("ca-certificates") && made.packages.contains_key("libc6"), "{made:?}");
            fs::read_to_string(made.layout.join("index.json")).unwrap()
        };
        let again = work.join("again");
        fs::create_dir_all(&again).unwrap();
        assert_eq!(index("/bin/true", &work), index("/bin/true", &again), "two builds are equal");
        assert_ne!(index("/bin/true", &work), index("/bin/false", &work), "an index tells the programs apart");
        let source = Source { program: Path::new("/bin/true"), arch: "amd64", version: "0.1.0", time: 1, docs: None, work: &work };
        assert!(make("humboldt-nfs", &source).unwrap_err().to_string().contains("humboldt-s3"));
        let image = image("humboldt-s3", &source, true);
        assert_eq!(image.entry_point[..4], ["/usr/bin/humboldt", "up", "--dir", "/data"]);
        assert!(image.entry_point.contains(&"--s3".into()) && image.ports.contains(&S3_PORT));
        fs::remove_dir_all(&work).unwrap();
    }
}
