//! Samba with vfs_ceph, asked by smbclient and by its makers' own tests, smbtorture.

use super::{Share, conf_of};
use crate::conformance::gtest::Verdict;
use crate::conformance::program::Outcome;
use crate::conformance::runs::Runs;
use crate::conformance::server::Server;
use crate::run::{ended, run, until};
use crate::stock::free_ports;
use anyhow::{Result, ensure};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const READY: Duration = Duration::from_secs(60);
const COMMAND: Duration = Duration::from_secs(300);
const USER: &str = "root%secret";
/// Suites of smbtorture about what a file system owes. Without `smb2.dir`, which lists thousands of files for minutes.
const SUITES: [&str; 5] = ["smb2.connect", "smb2.read", "smb2.rw", "smb2.rename", "smb2.lock"];

pub struct Samba {
    child: Child,
    dir: PathBuf,
    port: u16,
}

impl Drop for Samba {
    fn drop(&mut self) {
        // It serves each client by a process of its own, all of one group.
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).status();
        let _ = self.child.wait();
    }
}

/// The end of what smbtorture says of each of its tests: `success: NAME`, `failure: NAME [`, `skip: NAME`.
fn read(out: &str) -> Vec<(String, Verdict)> {
    let mut found: Vec<(String, Verdict)> = Vec::new();
    let mut lines = out.lines();
    while let Some(line) = lines.next() {
        let Some((word, rest)) = line.split_once(": ") else { continue };
        let name = rest.trim_end_matches(" [").trim().to_string();
        let verdict = match word {
            "success" => Verdict::Passed,
            "skip" => Verdict::Skipped,
            "failure" | "error" => Verdict::Failed(lines.next().unwrap_or_default().trim().to_string()),
            _ => continue,
        };
        found.push((name, verdict));
    }
    found
}

impl Samba {
    pub fn start(server: &Server) -> Result<Self> {
        let [port] = free_ports()?;
        let conf = conf_of(server, "smb")?;
        let dir = server.dir().join("samba");
        std::fs::create_dir_all(&dir)?;
        let at = dir.display();
        let mut folders = String::new();
        for name in ["private dir", "lock directory", "state directory", "cache directory", "pid directory", "ncalrpc dir", "binddns dir"] {
            let folder = dir.join(name.replace(' ', "-"));
            std::fs::create_dir_all(&folder)?;
            folders += &format!("{name} = {}\n", folder.display());
        }
        let text = format!(
            "[global]\nserver role = standalone server\nsmb ports = {port}\ninterfaces = 127.0.0.1\nbind interfaces only = yes\n{folders}\
             log file = {at}/log\ndisable spoolss = yes\nload printers = no\nunix extensions = no\nserver min protocol = SMB2\n\
             [share]\npath = /\nvfs objects = ceph\nceph:config_file = {}\nceph:user_id = smb\nread only = no\nkernel share modes = no\n\
             oplocks = no\n",
            conf.display()
        );
        std::fs::write(dir.join("smb.conf"), text)?;
        // The password's second time is for confirmation.
        let set = format!("printf 'secret\\nsecret\\n' | smbpasswd -c {at}/smb.conf -s -a root");
        crate::run::quietly(Command::new("sh").args(["-c", &set]))?;
        let child = Self::spawn(&dir)?;
        let mut samba = Self { child, dir, port };
        samba.serves()?;
        Ok(samba)
    }
    fn spawn(dir: &Path) -> Result<Child> {
        use std::os::unix::process::CommandExt;
        let mut cmd = Command::new("smbd");
        cmd.args(["--foreground", "--no-process-group"]).arg(format!("--configfile={}", dir.join("smb.conf").display()));
        Ok(cmd.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }
    fn serves(&mut self) -> Result<()> {
        let ready = until(READY, || TcpStream::connect(("127.0.0.1", self.port)).is_ok() || ended(&mut self.child));
        ensure!(ready && !ended(&mut self.child), "smbd does not serve: see {}", self.dir.join("log").display());
        Ok(())
    }
    /// A command of smbclient.
    fn client(&self, command: &str) -> Result<String> {
        let mut cmd = Command::new("smbclient");
        cmd.args(["//127.0.0.1/share", "-p", &self.port.to_string(), "-U", USER, "-c", command]);
        cmd.arg(format!("--configfile={}", self.dir.join("smb.conf").display()));
        let out = run(&mut cmd, COMMAND)?;
        ensure!(out.ok() && !out.stdout.contains("NT_STATUS"), "smbclient {command}: {}: {}{}", out.code, out.stdout, out.stderr);
        Ok(out.stdout)
    }
}

impl Share for Samba {
    fn put(&self, local: &Path, name: &str) -> Result<()> {
        self.client(&format!("put {} {name}", local.display())).map(drop)
    }
    fn get(&self, name: &str) -> Result<Vec<u8>> {
        let local = self.dir.join("got");
        let _ = std::fs::remove_file(&local);
        self.client(&format!("get {} {}", name.replace('/', "\\"), local.display()))?;
        Ok(std::fs::read(local)?)
    }
    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let out = self.client(&format!("ls {}\\*", folder.replace('/', "\\")))?;
        Ok(out.lines().filter_map(|line| line.split_whitespace().next()).map(String::from).collect())
    }
    fn kill_and_restart(&mut self) -> Result<()> {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).status();
        self.child.wait()?;
        self.child = Self::spawn(&self.dir)?;
        self.serves()
    }
    fn more(&self) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        for suite in SUITES {
            let mut runs = Runs::new(&format!("smbtorture {suite}"));
            let mut cmd = Command::new("smbtorture");
            cmd.args(["//127.0.0.1/share", "-p", &self.port.to_string(), "-U", USER, suite]);
            cmd.arg(format!("--configfile={}", self.dir.join("smb.conf").display()));
            let out = run(&mut cmd, COMMAND)?;
            let found = read(&out.stdout);
            ensure!(!found.is_empty(), "smbtorture {suite} says nothing: {}: {}{}", out.code, out.stdout, out.stderr);
            runs.outcome.expected = found.iter().filter_map(|(case, _)| Some((case.clone(), fails(suite, case)?))).collect();
            runs.outcome.must_fail = runs.outcome.expected.keys().cloned().collect();
            runs.outcome.cases = found.into_iter().collect();
            let outcome = runs.end();
            println!("{}", outcome.line());
            for text in outcome.unexpected() {
                println!("    {text}");
            }
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }
}

/// The reason, if that test fails: on a stock cluster it does, too.
fn fails(suite: &str, case: &str) -> Option<&'static str> {
    FAIL_ON_STOCK.iter().find(|(of, names, _)| *of == suite && names.split(' ').any(|name| name == case)).map(|(_, _, why)| *why)
}

const FAIL_ON_STOCK: &[(&str, &str, &str)] = &[
    (
        "smb2.rename",
        "no_share_delete_no_delete_access simple_nodelete",
        "vfs_ceph keeps no share modes in the file system; fails on stock 18.2 too",
    ),
    ("smb2.lock", "replay_smb3_specification_durable replay_smb3_specification_multi", "needs oplocks; fails on stock 18.2 too"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_smbtorture_says_is_read() {
        let out = "smbtorture 4.17\ntime: 2026\ntest: rw1\nRunning\nsuccess: rw1\nfailure: rw2 [\nrw.c:1: bad\n]\nskip: invalid [\nno\n]\n";
        let due = [("rw1", Verdict::Passed), ("rw2", Verdict::Failed("rw.c:1: bad".into())), ("invalid", Verdict::Skipped)];
        assert_eq!(read(out), due.map(|(name, verdict)| (name.to_string(), verdict)));
    }
}
