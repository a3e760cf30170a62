//! S3 by radosgw: its key, its process, one user and buckets.
//!
//! Absent: the protocol, which is radosgw's, and users beside that one, which are `radosgw-admin`'s.

use super::args::ServiceArgs;
use super::credentials::{self, Credentials};
use super::{GLANCE, Service, certificate, environment, hello, programs, server_command, sign};
use crate::members;
use crate::networks::from_here;
use crate::up::shown;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The gateway's name, `client.` in front.
const GATEWAY: &str = "client.rgw.humboldt";
/// The user that owns what is made here.
const USER: &str = "humboldt";
/// How long the port may stay taken by the gateway of an `up` that was just killed.
const PORT_PATIENCE: Duration = Duration::from_secs(5);
/// radosgw-admin's code for a record that is not there.
const NO_SUCH: i32 = libc::ENOENT;
/// Lengths of a bucket's name, of Amazon's rules.
const NAME_LEN: std::ops::RangeInclusive<usize> = 3..=63;

/// A certificate and its key.
#[derive(Debug, Clone)]
struct Tls {
    cert: PathBuf,
    key: PathBuf,
}

/// A checked request for S3.
#[derive(Debug)]
pub struct Plan {
    radosgw: PathBuf,
    admin: PathBuf,
    addr: SocketAddr,
    tls: Option<Tls>,
    /// Keys that were given, and how the line about S3 speaks of their secret.
    given: Option<(Credentials, String)>,
    buckets: Vec<String>,
}

/// A bucket's name by Amazon's rules, which clients hold it to.
fn check_bucket(name: &str) -> Result<()> {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_plain = NAME_LEN.contains(&name.len())
        && name.chars().all(|c| is_end(c) || matches!(c, '-' | '.'))
        && name.starts_with(is_end)
        && name.ends_with(is_end)
        && !name.contains("..")
        && name.parse::<Ipv4Addr>().is_err();
    ensure!(
        is_plain,
        "--bucket {name}: a bucket's name has {} to {} small letters, digits, `-` and `.`, begins and ends with a letter or digit, and is no address",
        NAME_LEN.start(),
        NAME_LEN.end()
    );
    Ok(())
}

impl Plan {
    /// Looks at values, programs and files.
    pub fn check(args: &ServiceArgs, listen: IpAddr) -> Result<Self> {
        let mut buckets = args.buckets.clone();
        buckets.extend(environment::buckets(environment::variable));
        buckets.iter().try_for_each(|name| check_bucket(name))?;
        let given = match &args.s3_user {
            Some(text) => Some((Credentials::given(text)?, "its secret as given".into())),
            None => environment::keys(environment::variable)?.map(|(keys, from)| (keys, format!("its secret as {from} has it"))),
        };
        let tls = match (&args.s3_cert, &args.s3_key) {
            (Some(cert), Some(key)) => {
                let (cert, key) = certificate::check(cert, key)?;
                Some(Tls { cert, key })
            }
            _ => None,
        };
        let radosgw = programs::find("radosgw", "radosgw", "ceph-radosgw").context("--s3 (the image humboldt-s3 has all of it)")?;
        let admin = programs::find("radosgw-admin", "radosgw", "ceph-common")?;
        let addr = SocketAddr::new(args.s3_listen.unwrap_or(listen), args.s3_port);
        Ok(Self { radosgw, admin, addr, tls, given, buckets })
    }

    pub fn check_port(&self) -> Result<()> {
        let end = Instant::now() + PORT_PATIENCE;
        loop {
            match TcpListener::bind(self.addr) {
                Ok(_) => return Ok(()),
                Err(e) if e.kind() != std::io::ErrorKind::AddrInUse || Instant::now() >= end => {
                    bail!("S3 can't be served at {}: {e}: give another --s3-port, or stop what listens there", self.addr);
                }
                Err(_) => std::thread::sleep(GLANCE),
            }
        }
    }

    pub fn service(self, dir: &Path) -> Result<S3> {
        let (keys, secret) = match self.given {
            Some(given) => given,
            None => (Credentials::kept(dir)?, format!("keys in {}", shown(&dir.join(credentials::FILE)).display())),
        };
        // Buckets are made here without HTTPS, at a port of this machine alone.
        let plain = match &self.tls {
            Some(_) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?,
            None => from_here(self.addr),
        };
        Ok(S3 {
            radosgw: self.radosgw,
            admin: self.admin,
            addr: self.addr,
            plain,
            tls: self.tls,
            keys,
            secret,
            buckets: self.buckets,
            conf: dir.join("ceph.conf"),
            keyring: dir.join(format!("ceph.{GATEWAY}.keyring")),
            log: dir.join("radosgw.log"),
        })
    }
}

/// The gateway, its user and its buckets.
pub struct S3 {
    radosgw: PathBuf,
    admin: PathBuf,
    /// For clients.
    addr: SocketAddr,
    /// Where it answers without HTTPS.
    plain: SocketAddr,
    tls: Option<Tls>,
    keys: Credentials,
    /// Where the secret is to be found.
    secret: String,
    buckets: Vec<String>,
    conf: PathBuf,
    keyring: PathBuf,
    log: PathBuf,
}

impl Service for S3 {
    fn name(&self) -> &'static str {
        "radosgw"
    }
    fn log(&self) -> &Path {
        &self.log
    }

    fn prepare(&self) -> Result<()> {
        let caps = ["mon", "allow rw", "osd", "allow rwx", "mgr", "allow rw"];
        members::write_keyring(&self.conf, GATEWAY, &caps, &self.keyring)
    }

    fn command(&self) -> Result<Command> {
        let mut command = server_command(&self.radosgw, GATEWAY, &self.conf, &self.keyring, &self.log)?;
        // Without `tcp_nodelay` an answer's body waits 40 ms for the acknowledgement of its head.
        let plain = format!("endpoint={}", self.plain);
        let ends = match &self.tls {
            Some(Tls { cert, key }) => {
                format!("ssl_endpoint={} ssl_certificate={} ssl_private_key={} {plain}", self.addr, cert.display(), key.display())
            }
            None => format!("endpoint={}", self.addr),
        };
        command.arg(format!("--rgw-frontends=beast {ends} tcp_nodelay=1"));
        Ok(command)
    }

    fn furnish(&self, over: &AtomicBool) -> Result<Option<String>> {
        while !sign::answers(self.plain) {
            if over.load(Ordering::Relaxed) {
                return Ok(None);
            }
            std::thread::sleep(GLANCE);
        }
        if self.tls.is_some() {
            hello::check(from_here(self.addr))?;
        }
        self.make_user()?;
        for name in &self.buckets {
            sign::make_bucket(self.plain, name, &self.keys).with_context(|| format!("making bucket {name}"))?;
        }
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(Some(format!("S3 at {scheme}://{}, access key {}, {}", self.addr, self.keys.access_key, self.secret)))
    }
}

impl S3 {
    /// Makes the user, or gives it these keys beside others. They go by standard input: other users of the machine see a command line.
    fn make_user(&self) -> Result<()> {
        let record = format!("user:{USER}");
        let found = programs::ask(&self.admin, &["metadata", "get", &record], &self.conf, "")?;
        let mut user = if found.code == NO_SUCH {
            json!({
                "key": record,
                "ver": { "tag": USER, "ver": 0 },
                "data": { "user_id": USER, "display_name": USER, "max_buckets": 1000, "op_mask": "read, write, delete", "type": "rgw", "keys": [] },
            })
        } else {
            serde_json::from_str(&found.must("radosgw-admin metadata get")?).context("radosgw-admin metadata get")?
        };
        if !add_key(&mut user, &self.keys)? {
            return Ok(());
        }
        programs::ask(&self.admin, &["metadata", "put", &record], &self.conf, &user.to_string())?.must("radosgw-admin metadata put")?;
        Ok(())
    }
}

/// Puts keys into a user's record; false if it has them.
fn add_key(user: &mut Value, keys: &Credentials) -> Result<bool> {
    let all = user["data"]["keys"].as_array_mut().context("a user's record has keys")?;
    let made = json!({ "user": USER, "access_key": keys.access_key, "secret_key": keys.secret });
    match all.iter_mut().find(|key| key["access_key"] == made["access_key"]) {
        Some(key) if key["secret_key"] == made["secret_key"] => return Ok(false),
        Some(key) => *key = made,
        None => all.push(made),
    }
    // A record of the same version is not taken.
    let version = user["ver"]["ver"].as_u64().context("a user's record has a version")?;
    user["ver"]["ver"] = (version + 1).into();
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_buckets_are_amazons() {
        for name in ["abc", "my-bucket.2", "0a0"] {
            check_bucket(name).unwrap();
        }
        for name in ["ab", "Abc", "a_b", "-ab", "ab-", "a..b", "10.0.0.1", "", &"a".repeat(64)] {
            assert!(check_bucket(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_users_other_keys_stay() {
        let keys = |a: &str, s: &str| Credentials { access_key: a.into(), secret: s.into() };
        let mut user = json!({ "ver": { "ver": 3 }, "data": { "keys": [{ "user": USER, "access_key": "A", "secret_key": "1" }] } });
        assert!(!add_key(&mut user, &keys("A", "1")).unwrap());
        assert!(add_key(&mut user, &keys("B", "2")).unwrap());
        assert!(add_key(&mut user, &keys("A", "3")).unwrap());
        let all = user["data"]["keys"].as_array().unwrap();
        let pairs: Vec<_> = all.iter().map(|k| (k["access_key"].as_str().unwrap(), k["secret_key"].as_str().unwrap())).collect();
        assert_eq!((pairs, user["ver"]["ver"].as_u64()), (vec![("A", "3"), ("B", "2")], Some(5)));
        assert!(add_key(&mut json!({}), &keys("A", "1")).is_err());
    }
}
