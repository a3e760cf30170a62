//! The Debian package in fresh systems of Debian 12 and 13: it installs, its unit is sound, its command serves as its user, S3 takes one
//! word more and Debian's own radosgw, and what it serves outlives a kill and a purge.
//!
//! No systemd runs in a chroot: units are judged by the `systemd-analyze` of that Debian, and their command is started as they would.

use super::radosgw::{ACCESS, SECRET, steps_of};
use crate::clients::Release::Pacific;
use crate::run::{ended, quietly, root, run, until};
use crate::stock::free_ports;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A unit whose exposure is above this, as `systemd-analyze security` counts (0 to 100), lost its hardening.
const EXPOSURE_MAX: u32 = 25;

/// Installs this `.deb` in fresh systems.
pub fn installs(deb: &Path) -> Result<()> {
    Pacific.install()?;
    for suite in ["bookworm", "trixie"] {
        let system = System::fresh(suite)?;
        system.try_package(deb).with_context(|| format!("Debian {suite}"))?;
    }
    Ok(())
}

/// A Debian in a folder of its own, gone with the value.
struct System {
    root: PathBuf,
}

impl System {
    fn fresh(suite: &str) -> Result<Self> {
        let system = Self { root: Path::new(crate::clients::SHARED).join(format!("package-{suite}")) };
        let _ = std::fs::remove_dir_all(&system.root);
        let mirror = crate::clients::archive().context("no Debian archive in apt's sources")?;
        quietly(Command::new("debootstrap").args(["--variant=minbase", "--include=adduser,systemd", suite]).arg(&system.root).arg(mirror))
            .context("debootstrap makes a fresh Debian (apt install debootstrap)")?;
        quietly(Command::new("mount").args(["--bind", "/proc"]).arg(system.root.join("proc")))?;
        Ok(system)
    }
    fn inside(&self, line: &str) -> Command {
        let mut cmd = Command::new("chroot");
        // Packages' scripts would make their files in a folder that is not there.
        cmd.env_remove("TMPDIR").arg(&self.root).args(["/bin/sh", "-c", line]);
        cmd
    }
    fn must(&self, line: &str) -> Result<String> {
        self.must_within(line, Duration::from_secs(120))
    }
    fn must_within(&self, line: &str, limit: Duration) -> Result<String> {
        let out = run(&mut self.inside(line), limit)?;
        ensure!(out.ok(), "`{line}` ended with {}:\n{}{}", out.code, out.stdout, out.stderr);
        Ok(out.stdout)
    }

    fn try_package(&self, deb: &Path) -> Result<()> {
        std::fs::copy(deb, self.root.join("humboldt.deb"))?;
        self.must("dpkg -i /humboldt.deb")?;
        self.must("humboldt --version && humboldt up --help >/dev/null && test -s /usr/share/man/man1/humboldt-up.1.gz")?;
        self.must("bash -n /usr/share/bash-completion/completions/humboldt")?;
        self.readme_holds()?;
        self.serves_s3()?;
        for unit in ["humboldt.service", "humboldt-osd@1.service"] {
            self.unit_is_sound(unit)?;
        }
        let mut serves = self.start()?;
        let conf = self.root.join("var/lib/humboldt/ceph.conf");
        let client = |line: &str| -> Result<String> {
            let text =
                std::fs::read_to_string(&conf)?.replace("/var/lib/humboldt", &self.root.join("var/lib/humboldt").display().to_string());
            let outside = self.root.join("client.conf");
            std::fs::write(&outside, text)?;
            let words = crate::run::words(line);
            let out = run(Pacific.command(&outside, &words[0]).args(&words[1..]), Duration::from_secs(60))?;
            ensure!(out.ok(), "`{line}`: {out:?}");
            Ok(out.stdout)
        };
        client("ceph osd pool create p 8")?;
        client("rados -p p put a /etc/hostname")?;
        // As a unit with Restart=always does.
        serves.kill()?;
        serves.wait()?;
        let mut serves = self.start()?;
        ensure!(client("rados -p p ls")? == "a\n", "the object is not there after kill -9");
        quietly(Command::new("kill").arg(serves.id().to_string()))?;
        ensure!(serves.wait()?.success(), "the service's command ended badly on SIGTERM");
        self.must("dpkg --purge humboldt && test -d /var/lib/humboldt/osd.0 && ! test -e /usr/bin/humboldt")?;
        self.must("dpkg -i /humboldt.deb && HUMBOLDT_PURGE_DATA=1 dpkg --purge humboldt && ! test -e /var/lib/humboldt").map(drop)
    }

    /// What README says to type works with the package alone: no Rust, no client of Ceph's. On a network of its own, since the ports are README's, too.
    fn readme_holds(&self) -> Result<()> {
        let (up, others): (Vec<String>, Vec<String>) = crate::guide::commands_of_readme()?.into_iter().partition(|c| c.ends_with('&'));
        let ([up], false) = (&up[..], others.is_empty()) else {
            anyhow::bail!("README starts one program and uses it: {up:?}, {others:?}")
        };
        let script = format!(
            "mkdir /readme && cd /readme && {{ {} >log 2>&1 & }}; n=0; until grep -q '^ready in' log; do n=$((n+1)); test $n -lt 600; sleep 0.1; done; {}; kill $!; wait $!",
            up.trim_end_matches('&'),
            others.join("; ")
        );
        let mut cmd = Command::new("unshare");
        cmd.args(["--net", "sh", "-c", "ip link set lo up; exec chroot \"$0\" /bin/sh -e -c \"$1\""]).arg(&self.root).arg(script);
        let out = run(&mut cmd, Duration::from_secs(120))?;
        ensure!(
            out.ok() && out.stdout.contains("HEALTH_OK") && out.stdout.contains(", 0 errors"),
            "README's lines in a fresh Debian: {out:?}"
        );
        Ok(())
    }

    /// S3 by one word: from the installation of radosgw to objects that come back.
    fn serves_s3(&self) -> Result<()> {
        let started = Instant::now();
        let install = "apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends radosgw";
        self.must_within(install, Duration::from_secs(900))?;
        let (installed, [port]) = (started.elapsed(), free_ports()?);
        let keys = format!("MINIO_ROOT_USER={ACCESS} MINIO_ROOT_PASSWORD={SECRET}");
        let up = format!("{keys} exec humboldt up --dir /s3 --port 0 --http none --store mem --s3 --s3-port {port} --bucket made-at-start");
        let log = self.root.join("s3.log");
        let file = std::fs::File::create(&log)?;
        let mut up = self.inside(&up).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        until(Duration::from_secs(180), || said().contains("S3 at http") || ended(&mut up));
        let stored = if said().contains("S3 at http") { steps_of(port, &["plain"]).map(drop) } else { Ok(()) };
        // One that ended by itself is told of below.
        let _ = quietly(Command::new("kill").arg(up.id().to_string()));
        let status = up.wait()?;
        stored.with_context(said)?;
        ensure!(status.success() && said().contains("S3 at http"), "up --s3 ended with {status}: {}", said());
        println!(
            "S3: {:.0} s to install radosgw, {:.0} s from there to objects",
            installed.as_secs_f64(),
            (started.elapsed() - installed).as_secs_f64()
        );
        Ok(())
    }

    /// systemd takes the unit as it stands, and finds it hardened.
    fn unit_is_sound(&self, unit: &str) -> Result<()> {
        let analyze = |words: &str| run(&mut self.inside(&format!("systemd-analyze {words}")), Duration::from_secs(60));
        let out = analyze(&format!("verify --man=no {unit}"))?;
        ensure!(out.ok(), "systemd-analyze verify {unit}: {}{}", out.stdout, out.stderr);
        let about = out.stderr.lines().filter(|l| l.contains("humboldt")).collect::<Vec<_>>();
        ensure!(about.is_empty(), "systemd-analyze verify {unit}: {about:?}");
        let place = unit.replace("@1", "@");
        let out = analyze(&format!("security --offline=true --threshold={EXPOSURE_MAX} /lib/systemd/system/{place}"))?;
        ensure!(out.ok(), "systemd-analyze security {unit}: {}{}", out.stdout, out.stderr);
        Ok(())
    }

    /// The unit's command, as its user; serving when this returns.
    fn start(&self) -> Result<Child> {
        let unit = std::fs::read_to_string(root().join("packaging/humboldt.service"))?;
        let command = unit.lines().find_map(|l| l.strip_prefix("ExecStart=")).context("the unit starts something")?;
        let options = "HUMBOLDT_OPTIONS='--port 0 --size 256M'";
        let ids = self.must("id -u humboldt; id -g humboldt")?;
        let [uid, gid] = ids.lines().collect::<Vec<_>>()[..] else { anyhow::bail!("no user humboldt: {ids}") };
        let log = self.root.join("serves.log");
        let mut cmd = Command::new("chroot");
        cmd.arg(format!("--userspec={uid}:{gid}")).arg(&self.root).args(["/bin/sh", "-c", &format!("{options}; exec {command}")]);
        let child = cmd.stdin(Stdio::null()).stdout(std::fs::File::create(&log)?).stderr(Stdio::inherit()).spawn()?;
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        ensure!(until(Duration::from_secs(60), || said().contains("ready in")), "the service's command does not serve: {}", said());
        Ok(child)
    }
}

impl Drop for System {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.root.join("proc")).status();
        let _ = std::fs::remove_dir_all(&self.root);
    }
}
