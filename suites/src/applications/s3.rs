//! Programs that keep a folder in a bucket, through a stock radosgw of 18.2: restic, rclone, s3cmd, s3fs and a script on boto3.
//!
//! Each is asked to bring the bucket up to the folder twice a round, and for the check to bring all of it back into another folder.

use super::{Works, tree};
use crate::cases::{ACCESS, SECRET};
use crate::clients::reef_radosgw;
use crate::cluster::Cluster;
use crate::gateway::{self, Gateway};
use crate::run::{ended, quietly, root, run, until};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A transfer waits for a server that is away.
const TRANSFER: Duration = Duration::from_secs(300);
const BUCKET: &str = "kept";

/// A folder, and its way into a bucket and back.
struct Kept {
    gateway: Gateway,
    dir: PathBuf,
    tool: fn(&Kept) -> Tool,
}

/// What one program is asked.
struct Tool {
    up: Vec<Command>,
    /// Brings what is in the bucket to [`Kept::back`].
    down: Vec<Command>,
    /// Where that has the folder.
    found: PathBuf,
}

impl Kept {
    /// A gateway and a user; `first` makes the bucket.
    fn new(c: &Cluster, tool: fn(&Self) -> Tool, first: impl FnOnce(&Self) -> Vec<Command>) -> Result<Self> {
        reef_radosgw()?;
        let gateway = Gateway::start(&c.conf, &[])?;
        gateway::admin(&c.conf, &format!("user create --uid=t --display-name=T --access-key={ACCESS} --secret-key={SECRET}"))?;
        let kept = Self { gateway, dir: c.dir.clone(), tool };
        std::fs::create_dir_all(kept.folder())?;
        first(&kept).iter_mut().try_for_each(does)?;
        Ok(kept)
    }
    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.gateway.port)
    }
    fn folder(&self) -> PathBuf {
        self.dir.join("kept")
    }
    fn back(&self) -> PathBuf {
        self.dir.join("back")
    }
    /// A file of the program's settings.
    fn settings(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let at = self.dir.join(name);
        let written = std::fs::write(&at, text).and_then(|()| std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o600)));
        written.unwrap_or_else(|e| panic!("{}: {e}", at.display()));
        at
    }
}

/// Runs a command that must succeed.
fn does(cmd: &mut Command) -> Result<()> {
    let out = run(cmd, TRANSFER)?;
    ensure!(out.ok(), "{cmd:?} ended with {}:\n{}{}", out.code, out.stdout, out.stderr);
    Ok(())
}

impl Works for Kept {
    fn work(&mut self, round: usize, midst: &dyn Fn()) -> Result<()> {
        for half in 0..2 {
            tree::grow(&self.folder(), 2 * round + half)?;
            if half == 1 {
                midst();
            }
            (self.tool)(self).up.iter_mut().try_for_each(does).with_context(|| self.gateway.last_words())?;
        }
        Ok(())
    }
    fn check(&mut self) -> Result<()> {
        let _ = std::fs::remove_dir_all(self.back());
        std::fs::create_dir_all(self.back())?;
        let mut tool = (self.tool)(self);
        tool.down.iter_mut().try_for_each(does).with_context(|| self.gateway.last_words())?;
        tree::same(&self.folder(), &tool.found)
    }
}

fn command(program: &str, words: &[&str]) -> Command {
    let mut cmd = Command::new(program);
    cmd.args(words).env("AWS_ACCESS_KEY_ID", ACCESS).env("AWS_SECRET_ACCESS_KEY", SECRET).env("LC_ALL", "C.UTF-8");
    // Of the machine's own, and for encrypted connections.
    cmd.env_remove("AWS_CA_BUNDLE");
    cmd
}

fn restic_command(kept: &Kept, words: &[&str]) -> Command {
    let mut cmd = command("restic", &["--no-cache", "-r", &format!("s3:{}/{BUCKET}/repository", kept.url())]);
    cmd.args(words).env("RESTIC_PASSWORD", "a password of a test's");
    cmd
}
pub(super) fn restic(c: &Cluster) -> Result<Box<dyn Works>> {
    let tool = |kept: &Kept| {
        let (folder, back) = (kept.folder(), kept.back());
        Tool {
            up: vec![restic_command(kept, &["backup", &folder.display().to_string()])],
            down: vec![
                restic_command(kept, &["check", "--read-data"]),
                restic_command(kept, &["restore", "latest", "--target", &back.display().to_string()]),
            ],
            found: back.join(folder.strip_prefix("/").expect("an absolute path")),
        }
    };
    Ok(Box::new(Kept::new(c, tool, |kept| vec![restic_command(kept, &["init"])])?))
}

pub(super) fn rclone(c: &Cluster) -> Result<Box<dyn Works>> {
    let tool: fn(&Kept) -> Tool = |kept: &Kept| {
        let text =
            format!("[h]\ntype = s3\nprovider = Ceph\naccess_key_id = {ACCESS}\nsecret_access_key = {SECRET}\nendpoint = {}\n", kept.url());
        let settings = kept.settings("rclone.conf", &text).display().to_string();
        let (folder, back) = (kept.folder().display().to_string(), kept.back().display().to_string());
        let at = format!("h:{BUCKET}/all");
        let ask = |words: &[&str]| command("rclone", &[&["--config", &settings], words].concat());
        Tool {
            up: vec![ask(&["sync", &folder, &at])],
            down: vec![ask(&["check", "--download", &folder, &at]), ask(&["copy", &at, &back])],
            found: kept.back(),
        }
    };
    Ok(Box::new(Kept::new(c, tool, |kept| {
        let _ = tool(kept);
        vec![command("rclone", &["--config", &kept.dir.join("rclone.conf").display().to_string(), "mkdir", &format!("h:{BUCKET}")])]
    })?))
}

/// A command of s3cmd's.
fn s3cmd_command(kept: &Kept, words: &[&str]) -> Command {
    let host = format!("127.0.0.1:{}", kept.gateway.port);
    let text =
        format!("[default]\naccess_key = {ACCESS}\nsecret_key = {SECRET}\nhost_base = {host}\nhost_bucket = {host}\nuse_https = False\n");
    let settings = kept.settings("s3cmd.conf", &text).display().to_string();
    command("s3cmd", &[&["-c", &settings, "--no-progress"], words].concat())
}
fn made_by_s3cmd(kept: &Kept) -> Vec<Command> {
    vec![s3cmd_command(kept, &["mb", &format!("s3://{BUCKET}")])]
}

pub(super) fn s3cmd(c: &Cluster) -> Result<Box<dyn Works>> {
    let tool = |kept: &Kept| {
        let (folder, back) = (format!("{}/", kept.folder().display()), format!("{}/", kept.back().display()));
        let at = format!("s3://{BUCKET}/all/");
        let ask = |words: &[&str]| s3cmd_command(kept, words);
        Tool { up: vec![ask(&["sync", &folder, &at])], down: vec![ask(&["sync", &at, &back])], found: kept.back() }
    };
    Ok(Box::new(Kept::new(c, tool, made_by_s3cmd)?))
}

pub(super) fn boto3(c: &Cluster) -> Result<Box<dyn Works>> {
    let tool = |kept: &Kept| {
        let script = root().join("suites/src/applications/boto.py").display().to_string();
        let ask =
            |step: &str, folder: &Path| command("/usr/bin/python3", &[&script, &kept.url(), BUCKET, step, &folder.display().to_string()]);
        Tool { up: vec![ask("up", &kept.folder())], down: vec![ask("down", &kept.back())], found: kept.back() }
    };
    Ok(Box::new(Kept::new(c, tool, |_| Vec::new())?))
}

/// A bucket as a file system: it is written through one mount and looked at through another, which has nothing in a cache.
struct Mounted {
    kept: Kept,
    client: Child,
}

impl Mounted {
    fn at(kept: &Kept) -> PathBuf {
        kept.dir.join("bucket")
    }
    fn mount(kept: &Kept) -> Result<Child> {
        let at = Self::at(kept);
        std::fs::create_dir_all(&at)?;
        let password = kept.settings("s3fs.password", &format!("{ACCESS}:{SECRET}\n"));
        let options = format!("passwd_file={},url={},use_path_request_style", password.display(), kept.url());
        let log = std::fs::OpenOptions::new().create(true).append(true).open(kept.dir.join("s3fs.log"))?;
        let mut cmd = command("s3fs", &[BUCKET, &at.display().to_string(), "-f", "-o", &options]);
        let mut client = cmd.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let is_there = || {
            let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
            mounts.lines().any(|line| line.split(' ').nth(1).is_some_and(|place| Path::new(place) == at))
        };
        let there = until(TRANSFER, || is_there() || ended(&mut client)) && is_there();
        ensure!(there, "s3fs mounts nothing: {}", std::fs::read_to_string(kept.dir.join("s3fs.log")).unwrap_or_default());
        Ok(client)
    }
    fn leave(&mut self) {
        let _ = run(Command::new("umount").arg(Self::at(&self.kept)), TRANSFER);
        if !until(Duration::from_secs(30), || ended(&mut self.client)) {
            let _ = self.client.kill();
            let _ = self.client.wait();
            let _ = run(Command::new("umount").arg("-l").arg(Self::at(&self.kept)), TRANSFER);
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Works for Mounted {
    fn work(&mut self, round: usize, midst: &dyn Fn()) -> Result<()> {
        self.kept.work(round, midst)
    }
    fn check(&mut self) -> Result<()> {
        self.leave();
        self.client = Self::mount(&self.kept)?;
        tree::same(&self.kept.folder(), &Self::at(&self.kept))
    }
}

pub(super) fn s3fs(c: &Cluster) -> Result<Box<dyn Works>> {
    let tool = |kept: &Kept| {
        let (from, to) = (format!("{}/.", kept.folder().display()), Mounted::at(kept).display().to_string());
        Tool { up: vec![command("cp", &["-r", &from, &to])], down: Vec::new(), found: kept.back() }
    };
    let kept = Kept::new(c, tool, made_by_s3cmd)?;
    let client = Mounted::mount(&kept)?;
    quietly(Command::new("ls").arg(Mounted::at(&kept)))?;
    Ok(Box::new(Mounted { kept, client }))
}
