//! The options by which `humboldt ceph` and `humboldt rados` find their cluster, as the programs of those names have them.
//!
//! They may stand anywhere among the words, so they are taken out of them one by one, and the rest is the command.

use anyhow::{Context, Result, bail};
use client::{ClientError, Cluster, setup};
use objecter::Conf;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use types::{EntityText, errno};

/// How long a cluster may take to answer unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(60);
/// After how long without an answer a line says what is waited for.
const NOTICE_AFTER: Duration = Duration::from_secs(3);
/// Where a `ceph.conf` may lie; the last is where `humboldt up` makes one.
const PLACES: [&str; 3] = ["/etc/ceph/ceph.conf", "ceph.conf", "humboldt-data/ceph.conf"];

/// Words that are still to be read.
pub type Words = std::iter::Peekable<std::vec::IntoIter<String>>;

/// How to reach the cluster.
#[derive(Debug)]
pub struct Connect {
    conf: Option<PathBuf>,
    name: String,
    overrides: Vec<(String, String)>,
    pub patience: Duration,
}

impl Default for Connect {
    fn default() -> Self {
        Self { conf: None, name: "client.admin".into(), overrides: Vec::new(), patience: PATIENCE }
    }
}

/// The value of an option: behind its `=`, or the next word.
pub fn value(word: &str, words: &mut Words) -> Result<String> {
    match word.split_once('=') {
        Some((_, value)) if word.starts_with("--") => Ok(value.into()),
        _ => words.next().with_context(|| format!("{word} needs a value")),
    }
}

impl Connect {
    /// Takes an option that says how to connect; false if the word is none.
    pub fn take(&mut self, word: &str, words: &mut Words) -> Result<bool> {
        let key = word.split_once('=').map_or(word, |(key, _)| key);
        let mut set = |name: &str, value| self.overrides.push((name.into(), value));
        match key {
            "-c" | "--conf" => self.conf = Some(value(word, words)?.into()),
            "-n" | "--name" => self.name = value(word, words)?,
            "--id" | "--user" => self.name = format!("client.{}", value(word, words)?),
            "--cluster" => drop(value(word, words)?),
            "-m" | "--mon-host" | "--mon_host" => set("mon_host", value(word, words)?),
            "-k" | "--keyring" => set("keyring", value(word, words)?),
            "--keyfile" => set("keyfile", value(word, words)?),
            "--key" => set("key", value(word, words)?),
            "--connect-timeout" => {
                let text = value(word, words)?;
                let seconds: f64 =
                    text.parse().ok().filter(|s: &f64| (0.0..1e9).contains(s)).with_context(|| format!("{text}: no number of seconds"))?;
                self.patience = if seconds == 0.0 { PATIENCE } else { Duration::from_secs_f64(seconds) };
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The configuration file: the one that was named, or the first of the usual places.
    fn file(&self) -> Option<PathBuf> {
        let named = self.conf.clone().or_else(|| std::env::var_os("CEPH_CONF").map(PathBuf::from));
        named.or_else(|| PLACES.iter().map(PathBuf::from).find(|p| p.exists()))
    }

    /// The configuration, for our own name or another's.
    pub fn conf(&self, name: &str) -> Result<Conf> {
        let mut conf = match self.file() {
            Some(path) => setup::load(Some(&path), name)?,
            None if self.overrides.iter().any(|(key, _)| key == "mon_host") => {
                Conf::empty(EntityText::parse(name).with_context(|| format!("no entity name: {name}"))?)
            }
            None => bail!("no ceph.conf in {}: name one with -c, or a monitor with -m", PLACES.join(", ")),
        };
        self.overrides.iter().for_each(|(key, value)| conf.set(key, value.clone()));
        Ok(conf)
    }

    pub async fn open(&self) -> Result<Cluster> {
        connect(self.conf(&self.name)?, self.patience).await
    }
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The file that was named, for `bench`.
    pub fn conf_path(&self) -> Option<PathBuf> {
        self.file()
    }
}

/// Connects to a cluster. While no monitor answers, a line on standard error says which ones are asked, and for how long.
pub async fn connect(conf: Conf, patience: Duration) -> Result<Cluster> {
    let at = setup::monitors_text(&conf);
    let mut connected = std::pin::pin!(Cluster::connect(conf, patience));
    if let Ok(result) = tokio::time::timeout(NOTICE_AFTER, &mut connected).await {
        return Ok(result?);
    }
    say::eprintln!("waiting for the monitors at {at}: no answer yet, giving up after {} s", patience.as_secs_f64().ceil());
    Ok(connected.await?)
}

/// Runs `work` on this thread until it is done.
pub fn block_on<T>(work: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(tokio::task::LocalSet::new().block_on(&runtime, work))
}

/// The exit code for a cluster that can't be reached: `EACCES` if it refused us, 1 otherwise.
pub fn refused(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<ClientError>().and_then(ClientError::errno) {
        Some(errno::EACCES) => errno::EACCES as u8,
        _ => 1,
    }
}

/// What an errno is called, and what it means.
pub fn errno_texts(errno: i32) -> (String, String) {
    macro_rules! names { ($($name:ident)*) => { &[$((errno::$name, stringify!($name))),*] } }
    const NAMES: &[(i32, &str)] = names!(EPERM ENOENT EINTR EIO ENXIO E2BIG EBADF EAGAIN ENOMEM EACCES EBUSY EEXIST EXDEV ENODEV ENOTDIR
        EISDIR EINVAL EFBIG ENOSPC EROFS EDOM ERANGE EDEADLK ENAMETOOLONG ENOSYS ENOTEMPTY ENODATA EOVERFLOW EBADMSG EILSEQ
        ESTALE EDQUOT ECANCELED ETIMEDOUT EMSGSIZE ENOTCONN EALREADY EINPROGRESS);
    let name = match errno {
        // The name that the program `ceph` has for it.
        errno::EOPNOTSUPP => "ENOTSUP".into(),
        _ => NAMES.iter().find(|(n, _)| *n == errno).map_or_else(|| "Unknown".into(), |(_, name)| (*name).to_string()),
    };
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    (name, text.split(" (os error").next().unwrap_or_default().into())
}

/// An exit code out of a positive errno or another small number.
pub fn exit(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
