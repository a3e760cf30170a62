//! Gateways for files before a stock ceph-mds: NFS-Ganesha ([`nfs`]) and Samba ([`smb`]), with clients of their protocols beside ceph-fuse: all see the
//! same files, also when gateway and cluster were killed with -9.

mod nfs;
mod smb;

use super::program::Outcome;
use super::runs::Runs;
use super::server::Server;
use super::{Manner, Run};
use crate::clients::{Release, packages};
use crate::mds::Mount;
use crate::run::{Output, until};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub const NFS: &str = "nfs";
pub const SMB: &str = "smb";

/// Of the files that a client writes; the last one is several objects.
const SIZES: [usize; 6] = [0, 1, 4095, 65_537, 1 << 20, 9 << 20];
/// How long a gateway may take to serve again: the lease of the one that was killed ends first.
const AGAIN: Duration = Duration::from_secs(180);

/// A gateway with its client. Names are of files below its one share.
trait Share {
    fn put(&self, local: &Path, name: &str) -> Result<()>;
    fn get(&self, name: &str) -> Result<Vec<u8>>;
    /// The names of files in a folder.
    fn list(&self, folder: &str) -> Result<Vec<String>>;
    /// Kills it with -9 and starts another in its place.
    fn kill_and_restart(&mut self) -> Result<()>;
    /// Tests of the protocol's own makers, if there are any.
    fn more(&self) -> Result<Vec<Outcome>> {
        Ok(Vec::new())
    }
}

/// Bytes that no other size has.
fn content(size: usize) -> Vec<u8> {
    let mut state = size as u64 + 1;
    let next = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    });
    next.take(size).collect()
}

/// The ceph.conf of a gateway: the cluster's, with the gateway's key, which is made.
fn conf_of(server: &Server, user: &str) -> Result<PathBuf> {
    let keyring = server.dir().join(format!("ceph.client.{user}.keyring"));
    let caps = "mon 'allow r' osd 'allow rw tag cephfs data=*, allow rw pool=gateway' mds 'allow rw' mgr 'allow r'";
    server.must(Release::Reef, &format!("ceph auth get-or-create client.{user} {caps} -o {}", keyring.display()))?;
    let conf = server.dir().join(format!("{user}.conf"));
    let text = std::fs::read_to_string(server.conf())?;
    std::fs::write(&conf, format!("{text}\n[client.{user}]\nkeyring = {}\n", keyring.display()))?;
    Ok(conf)
}

/// What all files must be.
struct Files {
    due: BTreeMap<String, Vec<u8>>,
    mount: Mount,
}

impl Files {
    /// Each file as the gateway gives it, and as ceph-fuse does.
    fn same(&self, share: &dyn Share) -> Result<()> {
        for (name, due) in &self.due {
            let (one, other) = (share.get(name)?, std::fs::read(self.mount.outside.join(name)).with_context(|| name.clone())?);
            ensure!(one == *due, "{name} through the gateway: {} bytes, {} were written", one.len(), due.len());
            ensure!(other == *due, "{name} through ceph-fuse: {} bytes, {} were written", other.len(), due.len());
        }
        Ok(())
    }
    fn put(&mut self, share: &dyn Share, dir: &Path, tag: &str) -> Result<()> {
        for size in SIZES {
            let (local, name) = (dir.join("local"), format!("{tag}-{size}"));
            std::fs::write(&local, content(size))?;
            share.put(&local, &name)?;
            self.due.insert(name, content(size));
        }
        Ok(())
    }
    /// Files in folders, by the mount.
    fn tree(&mut self) -> Result<()> {
        for folder in ["d", "d/e", "d/e/f"] {
            std::fs::create_dir(self.mount.outside.join(folder))?;
            for size in [10, 5000] {
                let name = format!("{folder}/of-{size}");
                std::fs::write(self.mount.outside.join(&name), content(size))?;
                self.due.insert(name, content(size));
            }
        }
        Ok(())
    }
    fn listed(&self, share: &dyn Share) -> Result<()> {
        for folder in ["d", "d/e", "d/e/f"] {
            let mut names = share.list(folder)?;
            names.retain(|name| name.starts_with("of-"));
            names.sort();
            ensure!(names == ["of-10", "of-5000"], "in {folder} the gateway lists {names:?}");
        }
        Ok(())
    }
}

/// Steps that each gateway must pass.
fn exercise(share: &mut dyn Share, server: &mut Server) -> Result<Outcome> {
    let mut runs = Runs::new("files");
    let mut files = Files { due: BTreeMap::new(), mount: Mount::new(server.conf())? };
    let dir = server.dir().to_path_buf();
    let nothing = Output { code: 0, stdout: String::new(), stderr: String::new() };
    let mut note = |case: &str, started: Instant, result: Result<()>| {
        runs.add(case.into(), started.elapsed(), result.err().map(|e| format!("{e:#}").replace('\n', " ")), &nothing);
    };
    let started = Instant::now();
    let put = files.put(share, &dir, "first").and_then(|()| files.same(share));
    note("written through the gateway, read there and through ceph-fuse", started, put);
    let started = Instant::now();
    let tree = files.tree().and_then(|()| files.listed(share)).and_then(|()| files.same(share));
    note("written through ceph-fuse, listed and read through the gateway", started, tree);
    let started = Instant::now();
    let again = share.kill_and_restart().and_then(|()| awaited(|| files.same(share)));
    note("kill -9 of the gateway", started, again);
    let started = Instant::now();
    let again = server.kill_and_restart().and_then(|()| awaited(|| files.same(share)));
    note("kill -9 of the cluster", started, again);
    let started = Instant::now();
    let put = files.put(share, &dir, "last").and_then(|()| files.same(share));
    note("written after that", started, put);
    Ok(runs.end())
}

/// The last error, if it does not succeed in time.
fn awaited(look: impl Fn() -> Result<()>) -> Result<()> {
    let mut last = Ok(());
    until(AGAIN, || {
        last = look();
        last.is_ok()
    });
    last
}

fn run_share(name: &str, manner: Manner, whole: bool, start: impl Fn(&Server) -> Result<Box<dyn Share>>) -> Result<Run> {
    let started = Instant::now();
    // What is killed with -9 keeps its objects on a device.
    let manner = Manner { store: "block", ..manner };
    let mut server = Server::start(&format!("conformance-{name}-{}", std::process::id()), manner, Some(Release::Reef))?;
    server.must(Release::Reef, "ceph osd pool create gateway 8")?;
    server.must(Release::Reef, "ceph osd pool application enable gateway nfs")?;
    let mut share = start(&server)?;
    let mut outcomes = vec![exercise(&mut *share, &mut server)?];
    if whole {
        outcomes.extend(share.more()?);
    }
    drop(share);
    server.stands(name)?;
    server.stop()?;
    // The gateways are of this machine's own release, before a stock ceph-mds of 18.2.
    Ok(Run { section: manner.section(name, Release::Pacific), outcomes, took: started.elapsed() })
}

/// NFS-Ganesha with its state in a pool. Without `whole`, what [`Share::more`] has is left out.
pub fn nfs(manner: Manner, whole: bool) -> Result<Run> {
    let files = ["/usr/bin/ganesha.nfsd", "/usr/lib/x86_64-linux-gnu/ganesha/libfsalceph.so"];
    packages(Release::Pacific, &files, &["nfs-ganesha", "nfs-ganesha-ceph", "nfs-ganesha-rados-grace"])?;
    packages(Release::Reef, &["/usr/bin/nfs-cp"], &["libnfs-utils"])?;
    run_share(NFS, manner, whole, |server| Ok(Box::new(nfs::Ganesha::start(server)?)))
}

/// Samba with its module for libcephfs.
pub fn smb(manner: Manner, whole: bool) -> Result<Run> {
    let files = ["/usr/sbin/smbd", "/usr/bin/smbclient", "/usr/bin/smbtorture", "/usr/lib/x86_64-linux-gnu/samba/vfs/ceph.so"];
    packages(Release::Pacific, &files, &["samba", "samba-vfs-modules", "smbclient", "samba-testsuite"])?;
    run_share(SMB, manner, whole, |server| Ok(Box::new(smb::Samba::start(server)?)))
}

/// Steps of one gateway on our cluster, for the tests.
pub fn short(of: fn(Manner, bool) -> Result<Run>) -> Result<()> {
    let bad: Vec<String> = of(Manner::default(), false)?.outcomes.iter().flat_map(Outcome::unexpected).collect();
    ensure!(bad.is_empty(), "{}", bad.join("\n"));
    Ok(())
}
