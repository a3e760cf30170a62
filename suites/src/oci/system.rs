//! Programs of an installed Debian with all that they need to run elsewhere: the libraries that they name, and the packages whose licences
//! go along.
//!
//! Absent: which programs.

use crate::run::run;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

/// This machine's system, or one in a chroot.
pub struct System(pub Option<PathBuf>);

/// Packages by name, with their versions.
pub type Packages = BTreeMap<String, String>;

/// The files that `ldd` names. A static program has none.
fn libraries(said: &str) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    // A line that begins with a program's name is a heading.
    for line in said.lines().filter(|line| line.starts_with(char::is_whitespace)).map(str::trim) {
        let file = line.split_once(" => ").map_or(line, |(_, file)| file);
        ensure!(!file.starts_with("not found"), "a library is not there: {line}");
        if file.starts_with('/') {
            found.insert(file.split(" (").next().unwrap_or(file).to_string());
        }
    }
    Ok(found)
}

/// The place of a file below a root whose `/lib` and `/bin` lead into `/usr`.
pub fn place(path: &str) -> String {
    let path = path.trim_start_matches('/');
    let is_moved = ["lib/", "lib64/", "bin/", "sbin/"].iter().any(|folder| path.starts_with(folder));
    if is_moved { format!("usr/{path}") } else { path.to_string() }
}

impl System {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(if self.0.is_some() { "chroot" } else { program });
        if let Some(root) = &self.0 {
            command.arg(root).arg(program);
        }
        command.env("LC_ALL", "C");
        command
    }
    pub fn has(&self, path: &str) -> bool {
        self.0.as_deref().unwrap_or(Path::new("/")).join(path.trim_start_matches('/')).exists()
    }

    /// Libraries that these programs name, as paths in this system.
    pub fn libraries(&self, programs: &[String]) -> Result<BTreeSet<String>> {
        let out = run(self.command("ldd").args(programs), PATIENCE)?;
        let is_static = out.stderr.contains("not a dynamic executable");
        ensure!(out.ok() || is_static, "ldd {programs:?}: {}", out.stderr);
        libraries(&out.stdout)
    }

    /// Files of a folder of this system, as paths in it.
    pub fn below(&self, folder: &str) -> Result<Vec<String>> {
        let out = run(self.command("find").args([folder, "-name", "*.so*"]), PATIENCE)?;
        ensure!(out.ok(), "find {folder}: {}", out.stderr);
        Ok(out.stdout.lines().map(String::from).collect())
    }

    /// Copies files of this system to their places below `to`; a link becomes the file that it leads to.
    pub fn copy<'a>(&self, files: impl IntoIterator<Item = &'a String>, to: &Path) -> Result<()> {
        let names: BTreeSet<String> = files.into_iter().map(|file| place(file)).collect();
        fs::create_dir_all(to)?;
        let mut from = self.command("tar");
        from.args(["-C", "/", "--dereference", "--hard-dereference", "-cf", "-", "--"]).args(&names);
        let mut from = from.stdout(Stdio::piped()).spawn().context("starting tar")?;
        let pipe = from.stdout.take().context("its output is piped")?;
        let into = Command::new("tar").arg("-C").arg(to).args(["--no-same-owner", "-xf", "-"]).stdin(pipe).status()?;
        ensure!(from.wait()?.success() && into.success(), "tar of {names:?}");
        Ok(())
    }

    /// Packages that these files are of. A file that no package has is none's.
    pub fn packages<'a>(&self, files: impl IntoIterator<Item = &'a String>) -> Result<Packages> {
        // Older packages have `/lib` where newer ones have `/usr/lib`.
        let both = files.into_iter().map(|file| place(file)).flat_map(|file| {
            let old = file.strip_prefix("usr/").map(|rest| format!("/{rest}"));
            [Some(format!("/{file}")), old].into_iter().flatten().collect::<Vec<_>>()
        });
        // It ends with an error for the paths that it does not know, and names the others.
        let out = run(self.command("dpkg-query").arg("-S").args(both), PATIENCE)?;
        let owners = out.stdout.lines().filter_map(|line| line.split_once(": ")).flat_map(|(names, _)| names.split(", "));
        let names: BTreeSet<&str> = owners.filter(|name| !name.starts_with("diversion")).collect();
        ensure!(!names.is_empty(), "dpkg-query knows none of these files: {}", out.stderr);
        let out = run(self.command("dpkg-query").args(["-W", "-f", "${Package} ${Version}\n"]).args(names), PATIENCE)?;
        ensure!(out.ok(), "dpkg-query: {}", out.stderr);
        Ok(out.stdout.lines().filter_map(|line| line.split_once(' ')).map(|(n, v)| (n.to_string(), v.to_string())).collect())
    }

    /// Puts the licences of packages below `to`, and a list of them where scanners of images look for one.
    pub fn keep_licences(&self, arch: &str, packages: &Packages, to: &Path) -> Result<()> {
        let texts: Vec<String> = packages.keys().map(|name| format!("/usr/share/doc/{name}/copyright")).collect();
        let lacking: Vec<&String> = texts.iter().filter(|text| !self.has(text)).collect();
        ensure!(lacking.is_empty(), "packages without a licence: {lacking:?}");
        self.copy(&texts, to)?;
        let list = to.join("var/lib/dpkg/status.d");
        fs::create_dir_all(&list)?;
        for (name, version) in packages {
            let text = format!("Package: {name}\nStatus: install ok installed\nArchitecture: {arch}\nVersion: {version}\n");
            fs::write(list.join(name), text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_what_ldd_names() {
        let said = "/usr/bin/a:\n\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    /usr/bin/b:\n\tlibx.so.2 => /usr/lib/x/libx.so.2 (0x0)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found: Vec<String> = libraries(said).unwrap().into_iter().collect();
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2", "/usr/lib/x/libx.so.2"]);
        assert_eq!(place(&found[0]), "usr/lib/x86_64-linux-gnu/libc.so.6");
        assert_eq!((place("/etc/mime.types"), place("/usr/bin/a")), ("etc/mime.types".into(), "usr/bin/a".into()));
        assert!(libraries("\tstatically linked\n").unwrap().is_empty());
        assert!(libraries("\tlibgone.so => not found\n").is_err());
    }

    #[test]
    fn a_program_of_this_machine_comes_with_its_libraries() {
        let (system, dir) = (System(None), std::env::temp_dir().join(format!("humboldt-system-{}", std::process::id())));
        let mut files = system.libraries(&["/bin/true".into()]).unwrap();
        files.insert("/bin/true".into());
        system.copy(&files, &dir).unwrap();
        assert!(dir.join("usr/bin/true").exists() && files.iter().all(|file| dir.join(place(file)).is_file()), "{files:?}");
        let packages = system.packages(&files).unwrap();
        assert!(packages.contains_key("coreutils") && packages.contains_key("libc6"), "{packages:?}");
        system.keep_licences("amd64", &packages, &dir).unwrap();
        assert!(dir.join("usr/share/doc/libc6/copyright").is_file() && dir.join("var/lib/dpkg/status.d/libc6").is_file());
        fs::remove_dir_all(&dir).unwrap();
    }
}
