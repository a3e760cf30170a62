//! Stock Ceph clients of three releases: 16.2 from Debian 12 itself, 18.2 and 20.2 in chroots of later Debian releases.
//!
//! Installs by package name, as root. Says what is missing where it can't.

use crate::run::{Output, quietly, run};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// The folder that host and chroots see at the same path: clusters under test live in it.
pub const SHARED: &str = "/tmp/humboldt-test";

/// What was installed for tests and is kept: chroots, an unpacked kernel.
pub const CACHE: &str = "/var/cache/humboldt-clients";

/// Makes a chroot, or adds packages to one: the laboratory's own, so that neither harms what the other installed.
const RECIPE: &str = include_str!("../../crates/lab/stock-chroot.sh");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    Pacific,
    Reef,
    Tentacle,
}

impl Release {
    pub const ALL: [Release; 3] = [Release::Pacific, Release::Reef, Release::Tentacle];
    /// Those whose `ceph-test` package has the programs.
    pub const WITH_TESTS: [Release; 2] = [Release::Reef, Release::Tentacle];

    pub fn version(self) -> &'static str {
        match self {
            Self::Pacific => "16.2",
            Self::Reef => "18.2",
            Self::Tentacle => "20.2",
        }
    }
    /// True for the release's version or name.
    pub fn is_called(self, name: &str) -> bool {
        let own = match self {
            Self::Pacific => "pacific",
            Self::Reef => "reef",
            Self::Tentacle => "tentacle",
        };
        name == own || name == self.version()
    }
    fn suite(self) -> Option<&'static str> {
        match self {
            Self::Pacific => None,
            Self::Reef => Some("trixie"),
            Self::Tentacle => Some("sid"),
        }
    }
    pub fn chroot(self) -> Option<PathBuf> {
        Some(Path::new(CACHE).join(self.suite()?))
    }
    /// A command of this release's, with `conf` as its cluster.
    pub fn command(self, conf: &Path, program: &str) -> Command {
        let mut cmd;
        match self.chroot() {
            None => cmd = Command::new(program),
            Some(root) => {
                cmd = Command::new("chroot");
                cmd.arg(root).arg(program);
            }
        }
        cmd.env("CEPH_CONF", conf).env("LC_ALL", "C.UTF-8").env_remove("CEPH_ARGS");
        cmd
    }
    /// The same as a user without privileges.
    pub fn command_of_user(self, conf: &Path, program: &str) -> Command {
        const USER: &str = "1000:1000";
        let mut cmd = Command::new("chroot");
        cmd.arg(format!("--userspec={USER}")).arg(self.chroot().unwrap_or_else(|| "/".into())).arg(program);
        cmd.env("CEPH_CONF", conf).env("LC_ALL", "C.UTF-8").env_remove("CEPH_ARGS");
        cmd
    }
    /// Runs `program` with what `line` says behind it.
    pub fn run(self, conf: &Path, program: &str, args: &[&str], limit: Duration) -> Result<Output> {
        run(self.command(conf, program).args(args), limit)
    }
    /// True if this release has that file.
    pub fn has(self, path: &str) -> bool {
        match self.chroot() {
            None => Path::new(path).exists(),
            Some(root) => root.join(path.trim_start_matches('/')).exists(),
        }
    }
    /// True if its programs are here.
    pub fn present(self) -> bool {
        let at = |path: &str| self.has(path);
        let tools = self != Self::Reef || (at("/usr/bin/osdmaptool") && at("/usr/bin/crushtool"));
        at("/usr/bin/rados") && at("/usr/bin/rbd") && at("/usr/bin/ceph") && at("/usr/bin/fio") && tools
    }
    /// Installs it. An error says what is missing.
    pub fn install(self) -> Result<()> {
        std::fs::create_dir_all(SHARED)?;
        if !self.present() {
            println!("installing stock clients of {}", self.version());
        }
        if !is_root() {
            if self.present() {
                return Ok(());
            }
            bail!("stock clients of {} are not installed, and only root can install them", self.version());
        }
        match self.suite() {
            None => install_here(self),
            Some(_) => self.install_chroot(),
        }
    }

    /// Installs its clients and upstream's test programs.
    pub fn install_tests(self) -> Result<()> {
        self.install()?;
        if self.has("/usr/bin/ceph_test_cls_hello") {
            return Ok(());
        }
        let root = self.chroot().filter(|_| is_root());
        let root =
            root.with_context(|| format!("the test programs of {} are not installed, and only root can install them", self.version()))?;
        println!("installing upstream's test programs of {}", self.version());
        apt_inside(&root, &["ceph-test"])
    }

    fn install_chroot(self) -> Result<()> {
        let root = self.chroot().expect("has a suite");
        // 18.2's osdmaptool and crushtool are in ceph-base.
        let packages: &[&str] = match self {
            _ if self.present() => &[],
            Self::Reef => &["ceph-common", "fio", "ceph-base"],
            _ => &["ceph-common", "fio"],
        };
        apt_inside(&root, packages)
    }
}

/// The stock manager of 16.2, with its modules.
pub fn pacific_manager() -> Result<()> {
    Release::Pacific.install()?;
    if Path::new("/usr/bin/ceph-mgr").exists() && Path::new("/usr/lib/python3/dist-packages/cherrypy").exists() {
        return Ok(());
    }
    println!("installing the stock manager of 16.2");
    apt(&["install", "-y", "-q", "--no-install-recommends", "ceph-mgr", "python3-cherrypy3"])
}

/// Stock radosgw, ceph-mds and ceph-fuse of 16.2, and an S3 client, for the guide's page about them.
pub fn pacific_gateways() -> Result<()> {
    Release::Pacific.install()?;
    // Each package is called as its program.
    let all = ["radosgw", "ceph-mds", "ceph-fuse", "s3cmd"];
    let missing: Vec<&str> = all.into_iter().filter(|name| !Path::new("/usr/bin").join(name).exists()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing {} of 16.2", missing.join(", "));
    apt(&[&["install", "-y", "-q", "--no-install-recommends"], &missing[..]].concat())
}

/// Stock monitor, manager and OSD of 18.2, for the cases that start them.
pub fn reef_daemons() -> Result<()> {
    daemons(Release::Reef)
}

/// Stock monitor, manager and OSD of that release, for the cases that start them.
pub fn daemons(release: Release) -> Result<()> {
    let files = ["/usr/bin/ceph-mon", "/usr/bin/ceph-mgr", "/usr/bin/ceph-osd"];
    packages(release, &files, &["ceph-mon", "ceph-mgr", "ceph-osd"])
}

/// The stock OSD of 20.2, for the cases that start it under monitors of 18.2.
pub fn tentacle_osd() -> Result<()> {
    packages(Release::Tentacle, &["/usr/bin/ceph-osd"], &["ceph-osd"])
}

/// Stock monitor and manager of 18.2 with an OSD of that release.
pub fn stock_osds(release: Release) -> Result<()> {
    reef_daemons()?;
    pacific_manager()?;
    packages(release, &["/usr/bin/ceph-osd"], &["ceph-osd"])
}

/// Stock radosgw of 18.2, for the cases that start it.
pub fn reef_radosgw() -> Result<()> {
    radosgw(Release::Reef)
}

/// Stock radosgw of that release.
pub fn radosgw(release: Release) -> Result<()> {
    packages(release, &["/usr/bin/radosgw"], &["radosgw"])
}

/// Stock ceph-mds of 18.2 and its clients, for the cases that start it.
pub fn reef_mds() -> Result<()> {
    mds(Release::Reef)
}

/// Stock ceph-mds of that release, and its clients.
pub fn mds(release: Release) -> Result<()> {
    packages(release, &["/usr/bin/ceph-mds", "/usr/bin/ceph-fuse"], &["ceph-mds", "ceph-fuse", "python3-cephfs"])
}

/// Stock rbd-mirror of that release, and Python with its librbd.
pub fn rbd_mirror(release: Release) -> Result<()> {
    packages(release, &["/usr/bin/rbd-mirror"], &["rbd-mirror", "python3-rados", "python3-rbd"])
}

/// Python with a release's bindings and pytest, and what file systems need.
pub fn python_tests(release: Release) -> Result<()> {
    mds(release)?;
    packages(release, &["/usr/bin/pytest-3"], &["python3-rados", "python3-rbd", "python3-cephfs", "python3-pytest"])
}

/// Go and what it needs to build with a release's libraries.
pub fn go(release: Release) -> Result<()> {
    let libraries = ["librados-dev", "librbd-dev", "libcephfs-dev", "libradosstriper-dev"];
    let files = ["/usr/bin/go", "/usr/bin/gcc", "/usr/include/rbd/librbd.h", "/usr/include/radosstriper/libradosstriper.h"];
    packages(release, &files, &[&["golang-go", "gcc", "libc6-dev"][..], &libraries].concat())
}

/// What upstream's shell tests of `rbd` call.
pub fn rbd_shell_tests(release: Release) -> Result<()> {
    let files =
        ["/usr/bin/jq", "/usr/bin/xmlstarlet", "/usr/bin/sudo", "/usr/bin/bc", "/usr/bin/uuidgen", "/usr/bin/qemu-img", "/usr/bin/xxd"];
    packages(release, &files, &["jq", "xmlstarlet", "sudo", "bc", "uuid-runtime", "qemu-utils", "xxd", "python3-rados", "python3-rbd"])
}

/// Installs packages of a release beside its clients, unless all those files are there. An error says what is missing.
pub fn packages(release: Release, files: &[&str], packages: &[&str]) -> Result<()> {
    release.install()?;
    if files.iter().all(|path| release.has(path)) {
        return Ok(());
    }
    let what = packages.join(", ");
    ensure!(is_root(), "{what} of {} are not installed, and only root can install them", release.version());
    println!("installing {what} of {}", release.version());
    match release.chroot() {
        Some(root) => apt_inside(&root, packages),
        None => apt(&[&["install", "-y", "-q", "--no-install-recommends"], packages].concat()),
    }
}

/// A user `ubuntu` of 18.2's that may become root, and what upstream's shell tests call.
pub fn reef_plain_user() -> Result<()> {
    Release::Reef.install_tests()?;
    reef_mds()?;
    let root = Release::Reef
        .chroot()
        .filter(|_| is_root())
        .context("upstream's shell tests need a user of their own, which only root can make")?;
    if !["/usr/bin/sudo", "/usr/bin/jq", "/usr/bin/setfattr", "/usr/bin/setfacl"].iter().all(|path| Release::Reef.has(path)) {
        println!("installing what upstream's shell tests call");
        apt_inside(&root, &["sudo", "jq", "xmlstarlet", "bc", "uuid-runtime", "attr", "acl"])?;
    }
    if !Release::Reef.has("/home/ubuntu") {
        quietly(Command::new("chroot").arg(&root).args(["useradd", "-m", "ubuntu"]))?;
    }
    std::fs::write(root.join("etc/sudoers.d/ubuntu"), "ubuntu ALL=(ALL) NOPASSWD: ALL\n")?;
    quietly(Command::new("chmod").arg("440").arg(root.join("etc/sudoers.d/ubuntu")))
}

fn install_here(release: Release) -> Result<()> {
    let python = Path::new("/usr/lib/python3/dist-packages/rados").exists()
        || std::fs::read_dir("/usr/lib/python3/dist-packages")
            .is_ok_and(|d| d.flatten().any(|e| e.file_name().to_string_lossy().starts_with("rados.")));
    if release.present() && python {
        return Ok(());
    }
    apt(&["install", "-y", "-q", "--no-install-recommends", "ceph-common", "fio", "python3-rados", "python3-rbd"])
}

/// Held by what installs: dpkg refuses a second, and two cases may ask at a time.
static INSTALLS: Mutex<()> = Mutex::new(());

/// `apt-get` with a fresh list of packages.
pub fn apt(args: &[&str]) -> Result<()> {
    let _one = INSTALLS.lock().expect("no holder panics");
    quietly(Command::new("apt-get").args(["update", "-q"]))?;
    quietly(Command::new("apt-get").args(args).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Installs packages in a chroot, and makes the chroot if it is not there.
fn apt_inside(root: &Path, packages: &[&str]) -> Result<()> {
    let _one = INSTALLS.lock().expect("no holder panics");
    let suite = root.file_name().context("a chroot is called as its suite")?;
    quietly(Command::new("sh").args(["-c", RECIPE, "stock-chroot"]).arg(root).arg(suite).arg(SHARED).args(packages))
}

/// Where this machine's own apt gets Debian from.
pub fn archive() -> Option<String> {
    let out = run(Command::new("sh").args(["-c", RECIPE, "stock-chroot", "archive"]), Duration::from_secs(10)).ok()?;
    Some(out.stdout.trim().to_string()).filter(|archive| out.ok() && !archive.is_empty())
}

pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}
