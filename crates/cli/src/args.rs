//! The command line, as types.

use clap::{Parser, Subcommand, ValueEnum};
use std::net::IpAddr;
use std::path::PathBuf;

/// A Ceph cluster in one program, for unmodified Ceph clients of 16.2 to 20.2.
#[derive(Debug, Parser)]
#[command(name = "humboldt", version)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a whole cluster on this machine and serve until SIGTERM or Ctrl-C.
    Up(Up),
    /// One monitor with the manager endpoint, as a process of its own.
    Mon(MonArgs),
    /// One OSD, as a process of its own.
    Osd(OsdArgs),
    /// Load a cluster, or with --store a store alone, and measure it, with no other client installed.
    Bench(Bench),
    /// Administer any cluster, stock ones too: the words of the program `ceph`.
    #[command(disable_help_flag = true)]
    Ceph(Words),
    /// Objects of any cluster, stock ones too: the words of the program `rados`.
    #[command(disable_help_flag = true)]
    Rados(Words),
    /// The state of a cluster in a terminal, drawn anew each second; plain lines in a pipe.
    Top(crate::top::TopArgs),
    /// The laboratory: studies as files, run on Humboldt, stock Ceph and bare devices side by side.
    Lab(crate::lab::LabArgs),
    /// Look at, check, copy or damage the block store of an OSD that is not running.
    Store(crate::store_tool::StoreArgs),
    /// Make the monitor's store of the copy beside it, when it is damaged or gone. The damaged one is kept.
    RestoreMon(RestoreMon),
    /// Print what completes this program's commands in a shell.
    Completions { shell: clap_complete::Shell },
    /// Write a manual page for each command into a folder.
    ManPages { dir: PathBuf },
}

/// A command line in another program's words.
#[derive(Debug, clap::Args)]
pub struct Words {
    /// The other program's options and words; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// In memory: gone with the process.
    Mem,
    /// In files or on devices: what was acknowledged stays.
    Block,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Auth {
    Cephx,
    None,
}

impl Auth {
    pub fn mode(self) -> mon::AuthMode {
        match self {
            Self::Cephx => mon::AuthMode::Cephx,
            Self::None => mon::AuthMode::None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyKind {
    /// Read by every release.
    Aes,
    /// AES-256 with integrity: for clients of 20.2.4, 19.2.6 and later only.
    Aes256k,
}

impl KeyKind {
    pub fn key_type(self) -> cephx::KeyType {
        match self {
            Self::Aes => cephx::KeyType::AES,
            Self::Aes256k => cephx::KeyType::AES256K,
        }
    }
    /// As it is written on the command line.
    pub fn name(self) -> &'static str {
        self.key_type().name()
    }
}

#[derive(Debug, clap::Args)]
pub struct Up {
    /// The cluster's folder: gets ceph.conf and the admin's keyring.
    #[arg(long, default_value = "humboldt-data")]
    pub dir: PathBuf,
    /// Number of OSDs. Default: as many as the folder has; one in a new folder.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub osds: Option<u32>,
    /// Where objects are kept. Default: on disk. With `mem` they are gone when the process ends.
    #[arg(long, value_enum)]
    pub store: Option<StoreKind>,
    #[command(flatten)]
    pub devices: Devices,
    /// How clients log in: with keys (`cephx`), or not at all.
    #[arg(long, value_enum, default_value_t = Auth::Cephx)]
    pub auth: Auth,
    /// Default key type of a new cluster.
    #[arg(long, value_enum, default_value_t = KeyKind::Aes)]
    pub key_type: KeyKind,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// The monitor's port; 0 takes a free one. OSDs always take free ones.
    #[arg(long, default_value_t = 3300)]
    pub port: u16,
    /// Memory of all OSDs together. Memory stores: room for objects (default: half of the machine's). Block stores: caches (default: 128 MiB
    /// for each OSD).
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    #[command(flatten)]
    pub web: Web,
    /// Each daemon as a process of its own.
    #[arg(long)]
    pub processes: bool,
    /// Microseconds for which an idle OSD polls for work before it sleeps.
    #[arg(long, default_value_t = 0)]
    pub spin_us: u64,
    /// OSDs answer from what a request says and keep nothing: the floor of any measurement.
    #[arg(long, hide = true)]
    pub null: bool,
}

/// The page and the metrics.
#[derive(Debug, Clone, clap::Args)]
pub struct Web {
    /// Where the page and the metrics for Prometheus are served: an address with a port, or `none`. Unless given: 127.0.0.1:9283, or a free port if
    /// that one is taken. An address that other machines reach needs --http-token.
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<String>,
    /// What visitors of the page and the metrics must show: `?token=TOKEN` in the address, or the header `Authorization: Bearer TOKEN`.
    #[arg(long, value_name = "TOKEN", env = "HUMBOLDT_HTTP_TOKEN", hide_env_values = true)]
    pub http_token: Option<String>,
}

impl Web {
    /// What the monitor is to do about it.
    pub fn config(&self) -> anyhow::Result<Option<mon::HttpConfig>> {
        let token = self.http_token.clone();
        if let Some(token) = &token {
            let plain = token.chars().all(|c| c.is_ascii_alphanumeric() || "-._~".contains(c));
            anyhow::ensure!(plain, "--http-token: letters, digits and -._~ only, since it stands in addresses");
        }
        let config = match self.http.as_deref() {
            Some("none") => return Ok(None),
            None => mon::HttpConfig { listen: std::net::SocketAddr::from(([127, 0, 0, 1], mon::HTTP_PORT)), elsewhere: true, token },
            Some(text) => {
                let listen = text
                    .parse()
                    .map_err(|_| anyhow::anyhow!("--http {text}: an address with a port is wanted, as 127.0.0.1:9283, or none"))?;
                mon::HttpConfig { listen, elsewhere: false, token }
            }
        };
        config.check()?;
        Ok(Some(config))
    }
    /// The same options again, for a process that is started with them; the token goes by the environment.
    pub fn words(&self) -> Vec<String> {
        self.http.iter().flat_map(|http| ["--http".to_string(), http.clone()]).collect()
    }
}

/// Where a block store lies; settled when it is made.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Devices {
    /// A file or block device for data; a file in the OSD's folder unless given. Several OSDs get equal shares of it, settled when they are made.
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// The same for the log.
    #[arg(long)]
    pub wal: Option<PathBuf>,
    /// The same for metadata.
    #[arg(long)]
    pub meta: Option<PathBuf>,
    /// Bytes of data of each new store in a file that is made (1G is 1073741824); a share of what the file system has left unless given, 16G at most.
    /// A store that is there becomes as large, if it is smaller.
    #[arg(long, value_parser = parse_size)]
    pub size: Option<u64>,
}

impl Devices {
    /// True if a place for any part of the store was named.
    pub fn is_placed(&self) -> bool {
        [&self.data, &self.wal, &self.meta].into_iter().any(Option::is_some)
    }
    /// A store that is there lies where it was made: other places are an error.
    pub fn refuse_others(&self, folder: &std::path::Path) -> anyhow::Result<()> {
        for (role, given) in [("data", &self.data), ("wal", &self.wal), ("meta", &self.meta)] {
            let Some(given) = given else { continue };
            let now = folder.join(role).canonicalize()?;
            if given.canonicalize().ok().as_ref() != Some(&now) {
                let (folder, now, given) = (folder.display(), now.display(), given.display());
                anyhow::bail!(
                    "{folder} has its {role} at {now}, settled when it was made: start without --{role} {given}, or with another --dir"
                );
            }
        }
        Ok(())
    }
    /// A memory store takes none of this: an error says so.
    pub fn refuse(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            !self.is_placed() && self.size.is_none(),
            "--data, --wal, --meta and --size are a block store's: start without --store mem"
        );
        Ok(())
    }
}

/// Bytes with a suffix of powers of 1024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    options::size::bytes(text).ok_or_else(|| "give a number of bytes, or one with K, M, G or T: 512M, 4G".into())
}

#[derive(Debug, clap::Args)]
pub struct MonArgs {
    /// The cluster's folder, made if it is not there.
    #[arg(long, default_value = "humboldt-data")]
    pub dir: PathBuf,
    /// What clients must prove.
    #[arg(long, value_enum, default_value_t = Auth::Cephx)]
    pub auth: Auth,
    /// Default key type of a new cluster.
    #[arg(long, value_enum, default_value_t = KeyKind::Aes)]
    pub key_type: KeyKind,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// The monitor's port; 0 takes a free one.
    #[arg(long, default_value_t = 3300)]
    pub port: u16,
    #[command(flatten)]
    pub web: Web,
    /// Make keys for so many OSDs in a new cluster.
    #[arg(long, default_value_t = 1)]
    pub osds: u32,
}

#[derive(Debug, clap::Args)]
pub struct RestoreMon {
    /// The cluster's folder, with mon.copy.
    #[arg(long, default_value = "humboldt-data")]
    pub dir: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct OsdArgs {
    /// The cluster's ceph.conf.
    #[arg(long, short = 'c', env = "CEPH_CONF")]
    pub conf: Option<PathBuf>,
    /// Which OSD this is.
    #[arg(long, short = 'i')]
    pub id: i32,
    /// Make the OSD's data folder and end; `ceph osd new` gives the number to --osd-uuid before or after.
    #[arg(long)]
    pub mkfs: bool,
    /// The OSD's uuid, for --mkfs; a random one unless given.
    #[arg(long, requires = "mkfs")]
    pub osd_uuid: Option<String>,
    /// Make a key for it in the folder's keyring, for --mkfs.
    #[arg(long, requires = "mkfs")]
    pub mkkey: bool,
    /// CRUSH device class (with --mkfs). Default: detected from the device.
    #[arg(long, requires = "mkfs")]
    pub device_class: Option<String>,
    /// The data folder; what ceph.conf says as `osd data` unless given.
    #[arg(long)]
    pub osd_data: Option<PathBuf>,
    /// Make placement groups anew of which this OSD had the only copy, in memory, when it last ran.
    #[arg(long)]
    pub start_empty: bool,
    /// The keyring with this OSD's key; what ceph.conf says unless given.
    #[arg(long)]
    pub keyring: Option<PathBuf>,
    /// The keyring of a client that may register OSDs. Default: that of client.admin in ceph.conf.
    #[arg(long)]
    pub admin_keyring: Option<PathBuf>,
    /// Where objects are kept, for --mkfs. Without a data folder, `mem` starts an OSD in memory, which takes its number over at each start.
    #[arg(long, value_enum, default_value_t = StoreKind::Block)]
    pub store: StoreKind,
    #[command(flatten)]
    pub devices: Devices,
    /// Register with the admin's key although there is a data folder, and say when it is up.
    #[arg(long, hide = true)]
    pub register: bool,
    /// The address to listen on; out of ceph.conf's `public addr` or `public network` unless given, else the one that reaches the monitor.
    #[arg(long)]
    pub listen: Option<IpAddr>,
    /// Memory of this OSD. Block store: caches (default: 128 MiB). Memory store: room for objects (default: `memstore device bytes` of ceph.conf,
    /// or 4 GiB).
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Microseconds for which it polls for work, when idle, before it sleeps.
    #[arg(long, default_value_t = 0)]
    pub spin_us: u64,
    /// Answer from what a request says and keep nothing.
    #[arg(long, hide = true)]
    pub null: bool,
}

#[derive(Debug, clap::Args)]
pub struct Bench {
    /// What to do: write new objects, read blocks in order or by chance; with --store, also write blocks of objects that are there.
    #[arg(value_parser = ["write", "seq", "rand", "overwrite"])]
    pub mode: String,
    /// Load a store of this kind, made for it, instead of a cluster: no network, no OSD.
    #[arg(long, value_enum)]
    pub store: Option<StoreKind>,
    /// With --store block: a folder that is made for the store, and removed unless --keep is given.
    #[arg(long, default_value = "humboldt-bench-store", requires = "store")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub devices: Devices,
    /// With --store: bytes of the objects that are used before the first is written again.
    #[arg(long, value_parser = parse_size, requires = "store")]
    pub span: Option<u64>,
    /// With --store block: bytes that its caches may take.
    #[arg(long, value_parser = parse_size, requires = "store")]
    pub memory: Option<u64>,
    /// The cluster's ceph.conf.
    #[arg(long, short = 'c', env = "CEPH_CONF", default_value = "humboldt-data/ceph.conf")]
    pub conf: PathBuf,
    /// The client's name; its key is in a keyring that ceph.conf names.
    #[arg(long, short = 'n', default_value = "client.admin")]
    pub name: String,
    /// The pool; made if it is called `bench` and not there.
    #[arg(long, short = 'p', default_value = "bench")]
    pub pool: String,
    /// Copies that the pool keeps of each object, if it is made; what the cluster's `osd_pool_default_size` says unless given.
    #[arg(long, conflicts_with = "store", value_parser = clap::value_parser!(u32).range(1..=10))]
    pub replicas: Option<u32>,
    #[arg(long, short = 's', default_value_t = 10.0)]
    pub seconds: f64,
    /// Bytes of an operation: 4096, or 4K.
    #[arg(long, short = 'b', default_value = "4096", value_parser = parse_size)]
    pub block: u64,
    /// Operations under way at the same time.
    #[arg(long, short = 't', default_value_t = 16)]
    pub depth: usize,
    /// Bytes of an object; a block unless given, or 4 MiB where --store reads or overwrites.
    #[arg(long, default_value = "0", hide_default_value = true, value_parser = parse_size)]
    pub object_size: u64,
    /// Objects that are used before the first is met again; as many as there is time for, or 1024 to be read, unless given.
    #[arg(long, default_value_t = 0)]
    pub objects: u64,
    /// Seconds of load before what is measured.
    #[arg(long, default_value_t = 0.0)]
    pub warm: f64,
    /// With --json: say on a line of its own when the measured part begins and ends, and wait behind the second for a line on standard input.
    #[arg(long, hide = true, requires = "json")]
    pub marks: bool,
    /// Leave the objects there, for `seq` and `rand`; or the store.
    #[arg(long)]
    pub keep: bool,
    /// The result as one line of JSON on standard output: operations, errors, latencies in microseconds. What is said of the progress goes to
    /// standard error. An error is a line with `error`.
    #[arg(long)]
    pub json: bool,
}
