//! NFS-Ganesha with FSAL_CEPH, protocol 4, asked by libnfs' tools of the release that 18.2 comes with: older ones can't encode large writes. Its clients' state is in a pool, by its backend `rados_ng`.

use super::{Share, conf_of};
use crate::clients::Release::Reef;
use crate::conformance::server::Server;
use crate::run::{Output, ended, run, until};
use crate::stock::free_ports;
use anyhow::{Result, ensure};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const READY: Duration = Duration::from_secs(60);
const COMMAND: Duration = Duration::from_secs(120);

pub struct Ganesha {
    child: Child,
    dir: PathBuf,
    port: u16,
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ganesha {
    pub fn start(server: &Server) -> Result<Self> {
        let [port] = free_ports()?;
        let conf = conf_of(server, "nfs")?;
        let (dir, conf) = (server.dir().to_path_buf(), conf.display().to_string());
        let text = format!(
            "NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {port}; Enable_NLM = false; Enable_RQUOTA = false; }}\n\
             NFSv4 {{ RecoveryBackend = rados_ng; Lease_Lifetime = 10; Grace_Period = 10; }}\n\
             RADOS_KV {{ ceph_conf = \"{conf}\"; userid = \"nfs\"; pool = \"gateway\"; namespace = \"ganesha\"; nodeid = \"a\"; }}\n\
             CEPH {{ Ceph_Conf = \"{conf}\"; }}\n\
             EXPORT {{ Export_Id = 1; Path = /; Pseudo = /share; Access_Type = RW; Squash = No_root_squash; SecType = sys; Transports = TCP; \
             FSAL {{ Name = CEPH; User_Id = \"nfs\"; }} }}\n"
        );
        std::fs::write(dir.join("ganesha.conf"), text)?;
        let child = Self::spawn(&dir)?;
        let mut ganesha = Self { child, dir, port };
        ganesha.serves()?;
        Ok(ganesha)
    }
    fn spawn(dir: &Path) -> Result<Child> {
        let mut cmd = Command::new("ganesha.nfsd");
        cmd.args(["-F", "-N", "EVENT", "-f"]).arg(dir.join("ganesha.conf")).arg("-L").arg(dir.join("ganesha.log"));
        cmd.arg("-p").arg(dir.join("ganesha.pid"));
        Ok(cmd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }
    fn serves(&mut self) -> Result<()> {
        let ready = until(READY, || TcpStream::connect(("127.0.0.1", self.port)).is_ok() || ended(&mut self.child));
        ensure!(ready && !ended(&mut self.child), "ganesha.nfsd does not serve: see {}", self.dir.join("ganesha.log").display());
        Ok(())
    }
    fn url(&self, name: &str) -> String {
        format!("nfs://127.0.0.1/share/{name}?version=4&nfsport={}", self.port)
    }
    fn tool(&self, program: &str, args: &[&str]) -> Result<Output> {
        let out = run(Reef.command(&self.dir.join("ceph.conf"), program).args(args), COMMAND)?;
        ensure!(out.ok(), "{program} {args:?} ended with {}: {}{}", out.code, out.stdout, out.stderr);
        Ok(out)
    }
}

impl Share for Ganesha {
    fn put(&self, local: &Path, name: &str) -> Result<()> {
        self.tool("nfs-cp", &[&local.display().to_string(), &self.url(name)]).map(drop)
    }
    fn get(&self, name: &str) -> Result<Vec<u8>> {
        let local = self.dir.join("got");
        let _ = std::fs::remove_file(&local);
        self.tool("nfs-cp", &[&self.url(name), &local.display().to_string()])?;
        Ok(std::fs::read(local)?)
    }
    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let out = self.tool("nfs-ls", &[&self.url(folder)])?;
        Ok(out.stdout.lines().filter_map(|line| line.split_whitespace().next_back()).map(String::from).collect())
    }
    fn kill_and_restart(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.child = Self::spawn(&self.dir)?;
        self.serves()
    }
}
