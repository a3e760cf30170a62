//! The command line, as types.

use crate::pinned::Pin;
use crate::services::args::ServiceArgs;
use clap::{Parser, Subcommand, ValueEnum};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

const FIRST_STEPS: &str = "\
First steps:
  humboldt up                 start a cluster in the folder humboldt-data, and serve
  humboldt ceph -s            in another terminal: ask how it does
  humboldt bench write        load it for ten seconds, and show its figures
  humboldt COMMAND --help     what a command does, and its options";

/// The program's version, and the commit that it was built from.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("HUMBOLDT_COMMIT"), ")");

/// A Ceph cluster in one program, for unmodified Ceph clients of 16.2 to 20.2.
#[derive(Debug, Parser)]
#[command(name = "humboldt", version = VERSION, after_help = FIRST_STEPS)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a whole cluster on this machine and serve until SIGTERM or Ctrl-C.
    Up(Up),
    /// Run the monitor, with the manager endpoint, as a process of its own.
    Mon(MonArgs),
    /// Run one OSD (the daemon that keeps objects) as a process of its own.
    Osd(OsdArgs),
    /// Load a cluster and show its IOPS, throughput and latency. With --store: a store alone.
    Bench(Bench),
    /// Administer a cluster, in the words of the program `ceph`. Works with stock clusters, too.
    #[command(disable_help_flag = true)]
    Ceph(Words),
    /// Read and write objects, in the words of the program `rados`. Works with stock clusters, too.
    #[command(disable_help_flag = true)]
    Rados(Words),
    /// Ask the health address of `humboldt up` whether its cluster serves: exit code 0, or 1 with the reason.
    Ready(crate::ready::ReadyArgs),
    /// Watch a cluster in the terminal, drawn anew each second. In a pipe: plain lines.
    Top(crate::top::TopArgs),
    /// Run studies of performance on Humboldt, stock Ceph and bare devices, side by side.
    Lab(crate::lab::LabArgs),
    /// Inspect, check, repair, export or import the store of an OSD that is not running.
    Store(crate::store_tool::StoreArgs),
    /// Restore the monitor's store from the copy beside it, when it is damaged or gone. A damaged one is kept.
    RestoreMon(RestoreMon),
    /// Print a script that completes this program's commands in a shell.
    Completions {
        /// The shell that reads the script.
        shell: clap_complete::Shell,
    },
    /// Write a manual page for each command into a folder.
    ManPages {
        /// The folder, made if it is not there.
        dir: PathBuf,
    },
}

/// A command line in another program's words.
#[derive(Debug, clap::Args)]
pub struct Words {
    /// Options and arguments of the other program; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// In memory: all objects are gone when the process ends.
    Mem,
    /// On disk, in files or block devices: acknowledged writes outlive the process.
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
    /// The cluster's folder, made if it is not there. It gets ceph.conf and the administrator's key.
    #[arg(long, default_value = "humboldt-data")]
    pub dir: PathBuf,
    /// Number of OSDs. Default: as many as the folder has; one in a new folder.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub osds: Option<u32>,
    /// Where objects are kept. Default: on disk (`block`).
    #[arg(long, value_enum)]
    pub store: Option<StoreKind>,
    /// Where data are kept: a file, a block device, or a folder on one. Default: a file in the OSD's folder. A file or device that is
    /// named once has equal shares for all OSDs, settled when they are made. Several: OSDs spread over the devices, with all that
    /// belongs to them, and a new cluster keeps no two copies on one device.
    #[arg(long)]
    pub data: Vec<PathBuf>,
    /// OSDs on each device of --data, settled when they are made: a number, or `auto`, which goes by the machine's cores, one on a
    /// rotating disk and four at most. Default: --osds divided by the devices, or one.
    #[arg(long, value_name = "N|auto", value_parser = parse_per_device, requires = "data")]
    pub osds_per_device: Option<PerDevice>,
    #[command(flatten)]
    pub parts: Parts,
    /// How clients log in: with keys (`cephx`), or not at all.
    #[arg(long, value_enum, default_value_t = Auth::Cephx)]
    pub auth: Auth,
    /// Serve without keys (`--auth none`) on an address that other machines reach: each of them may do everything.
    #[arg(long)]
    pub allow_insecure_network: bool,
    /// Encrypt every connection from now on, and refuse peers that do not. Kept in the cluster's configuration (`ceph config dump`).
    #[arg(long)]
    pub secure: bool,
    /// Type of the keys that a new cluster makes.
    #[arg(long, value_enum, default_value_t = KeyKind::Aes)]
    pub key_type: KeyKind,
    /// The address to listen on. The default serves this machine only; give one of its addresses to serve others.
    #[arg(long, default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// The monitor's port; 0 takes a free one. OSDs always take free ones.
    #[arg(long, default_value_t = 3300)]
    pub port: u16,
    /// Memory for all OSDs together, such as 2G. Stores on disk use it as cache (default: 128 MiB for each OSD, or what --memory-limit
    /// leaves), stores in memory as room for objects (default: half of the machine's memory, or what --memory-limit leaves).
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Keep the whole process to this much memory, such as 512M: caches give way to all else, then clients wait. If logs, maps and lists of
    /// missing objects need more, the process goes beyond it, and the log says so.
    /// With --processes: all daemons together. Gateways (--s3, --fs) have memory of their own.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory_limit: Option<u64>,
    #[command(flatten)]
    pub web: Web,
    /// Answer at this address whether the cluster and the servers beside it serve, such as 0.0.0.0:9280: `GET /ready` says 200, or 503 with
    /// the reason. It shows no more than that, and needs no token.
    #[arg(long, value_name = "ADDRESS", env = "HUMBOLDT_HEALTH")]
    pub health: Option<SocketAddr>,
    #[command(flatten)]
    pub services: ServiceArgs,
    /// Run each daemon as a process of its own.
    #[arg(long)]
    pub processes: bool,
    /// A new cluster is for tests and trials: pools can be deleted, and nothing warns of pools with one copy.
    #[arg(long)]
    pub dev: bool,
    /// Microseconds for which an idle OSD polls for work before it sleeps: lower latency for more CPU time.
    #[arg(long, default_value_t = 0)]
    pub spin_us: u64,
    /// Bind each OSD to the CPUs of its device's NUMA node (`node`), or to one CPU of its own (`core`). Without effect where the machine
    /// has one node, or no more CPUs than OSDs.
    #[arg(long, value_enum, value_name = "node|core")]
    pub pin: Option<Pin>,
    /// OSDs answer from what a request says and keep nothing: the floor of any measurement.
    #[arg(long, hide = true)]
    pub null: bool,
}

/// The page and the metrics.
#[derive(Debug, Clone, clap::Args)]
pub struct Web {
    /// Where the web page and the metrics for Prometheus are served: an address with a port, or `none`. Default: 127.0.0.1:9283, or a free port
    /// if that one is taken. An address that other machines reach needs --http-token.
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<String>,
    /// What visitors of the page and the metrics must show: `?token=TOKEN` in the address, or the header `Authorization: Bearer TOKEN`. `@FILE`: the
    /// file's first line. Other users of the machine see a command line, but neither a file of mode 0600 nor HUMBOLDT_HTTP_TOKEN.
    #[arg(long, value_name = "TOKEN", env = "HUMBOLDT_HTTP_TOKEN", hide_env_values = true)]
    pub http_token: Option<String>,
}

impl Web {
    /// The token itself.
    pub fn token(&self) -> anyhow::Result<Option<String>> {
        let Some(path) = self.http_token.as_ref().and_then(|token| token.strip_prefix('@')) else { return Ok(self.http_token.clone()) };
        let text = std::fs::read_to_string(path).map_err(|e| anyhow::anyhow!("--http-token @{path}: {e}"))?;
        Ok(Some(text.lines().next().unwrap_or_default().trim().to_string()))
    }
    /// What the monitor is to do about it.
    pub fn config(&self) -> anyhow::Result<Option<mon::HttpConfig>> {
        let token = self.token()?;
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
    /// A file or block device for data. Default: a file in the OSD's folder.
    #[arg(long)]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub parts: Parts,
}

/// The parts of a block store besides the data, and the size of files.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Parts {
    /// A file or block device for the log (WAL), which each write waits for: a fast one makes writes fast.
    #[arg(long)]
    pub wal: Option<PathBuf>,
    /// A file or block device for metadata: names, attributes, omap.
    #[arg(long)]
    pub meta: Option<PathBuf>,
    /// Size of the file that is made for each new store's data, such as 4G. Default: a share of what the file system has left, 16G at most.
    /// A store that is there already is made larger.
    #[arg(long, value_parser = parse_size)]
    pub size: Option<u64>,
}

/// How many OSDs a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerDevice {
    Auto,
    Count(u32),
}

fn parse_per_device(text: &str) -> Result<PerDevice, String> {
    match text.parse() {
        _ if text == "auto" => Ok(PerDevice::Auto),
        Ok(count @ 1..=64) => Ok(PerDevice::Count(count)),
        _ => Err("give a number from 1 to 64, or auto".into()),
    }
}

impl Up {
    /// The places of the parts of a store, where one is named for all OSDs.
    pub fn devices(&self) -> Devices {
        Devices { data: self.data.first().cloned(), parts: self.parts.clone() }
    }
}

impl Devices {
    /// True if a place for any part of the store was named.
    pub fn is_placed(&self) -> bool {
        [&self.data, &self.parts.wal, &self.parts.meta].into_iter().any(Option::is_some)
    }
    /// An existing store stays where it was made: another place is an error.
    pub fn refuse_others(&self, folder: &std::path::Path) -> anyhow::Result<()> {
        for (role, given) in [("data", &self.data), ("wal", &self.parts.wal), ("meta", &self.parts.meta)] {
            let Some(given) = given else { continue };
            // A device that is gone says nothing: its OSD does not start, and that says why.
            let Ok(now) = folder.join(role).canonicalize() else { continue };
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
            !self.is_placed() && self.parts.size.is_none(),
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
    /// How clients log in: with keys (`cephx`), or not at all.
    #[arg(long, value_enum, default_value_t = Auth::Cephx)]
    pub auth: Auth,
    /// Serve without keys (`--auth none`) on an address that other machines reach: each of them may do everything.
    #[arg(long)]
    pub allow_insecure_network: bool,
    /// Encrypt every connection from now on, and refuse peers that do not. Kept in the cluster's configuration (`ceph config dump`).
    #[arg(long)]
    pub secure: bool,
    /// Type of the keys that a new cluster makes.
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
    /// For how many OSDs a new cluster makes keys.
    #[arg(long, default_value_t = 1)]
    pub osds: u32,
    /// Over how many devices a new cluster's OSDs are spread, if some share one: no two copies lie on one device.
    #[arg(long)]
    pub devices: Option<u32>,
    /// A new cluster is for tests and trials: pools can be deleted, and nothing warns of pools with one copy.
    #[arg(long)]
    pub dev: bool,
}

#[derive(Debug, clap::Args)]
pub struct RestoreMon {
    /// The cluster's folder; the copy is the file mon.copy in it.
    #[arg(long, default_value = "humboldt-data")]
    pub dir: PathBuf,
}

/// What is done with an OSD instead of running it.
#[derive(Debug, Subcommand)]
pub enum OsdAction {
    /// Give a broken disk's OSDs new, empty stores, while `humboldt up` serves: the same numbers, filled from the other copies.
    Replace(Replace),
    /// Show which OSDs share a device, and which pools may keep two copies on one. Can convert the CRUSH map so that none does: says
    /// what would move, and does it only with --yes-i-really-mean-it. Works with stock monitors, too.
    Devices(OsdDevices),
}

#[derive(Debug, clap::Args)]
pub struct Replace {
    /// The OSD's number; of a device that several OSDs shared, all of them, so that they share the new one (--data).
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<i32>,
    /// The cluster's folder, which `humboldt up` serves.
    #[arg(long, default_value = "humboldt-data")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub devices: Devices,
    /// Do it although data are lost by it, as far as the cluster knows.
    #[arg(long)]
    pub yes_i_really_mean_it: bool,
}

#[derive(Debug, clap::Args)]
pub struct OsdDevices {
    /// The cluster's ceph.conf.
    #[arg(long, short = 'c', env = "CEPH_CONF", default_value = "humboldt-data/ceph.conf")]
    pub conf: PathBuf,
    /// The client's name; it must be allowed to change the CRUSH map, if that is asked for.
    #[arg(long, short = 'n', default_value = "client.admin")]
    pub name: String,
    /// Convert the CRUSH map: a bucket for each device, and rules that choose among devices. Data move.
    #[arg(long)]
    pub yes_i_really_mean_it: bool,
}

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct OsdArgs {
    #[command(subcommand)]
    pub action: Option<OsdAction>,
    /// The cluster's ceph.conf.
    #[arg(long, short = 'c', env = "CEPH_CONF")]
    pub conf: Option<PathBuf>,
    /// The OSD's number.
    #[arg(long, short = 'i', required = true)]
    pub id: Option<i32>,
    /// Make the OSD's data folder and end; `ceph osd new` gives the number to --osd-uuid before or after.
    #[arg(long)]
    pub mkfs: bool,
    /// The OSD's UUID (with --mkfs). Default: a random one.
    #[arg(long, requires = "mkfs")]
    pub osd_uuid: Option<String>,
    /// Make a key for it, in the file `keyring` of its folder (with --mkfs).
    #[arg(long, requires = "mkfs")]
    pub mkkey: bool,
    /// CRUSH device class (with --mkfs). Default: detected from the device.
    #[arg(long, requires = "mkfs")]
    pub device_class: Option<String>,
    /// The OSD's data folder. Default: `osd data` of ceph.conf.
    #[arg(long)]
    pub osd_data: Option<PathBuf>,
    /// For stores in memory: make the placement groups again, empty, whose only copy ended with this OSD's last process.
    #[arg(long)]
    pub start_empty: bool,
    /// The file with this OSD's key. Default: `keyring` of ceph.conf.
    #[arg(long)]
    pub keyring: Option<PathBuf>,
    /// The file with the key of a client that may register OSDs. Default: that of client.admin in ceph.conf.
    #[arg(long)]
    pub admin_keyring: Option<PathBuf>,
    /// Where objects are kept (with --mkfs). Without a data folder, `mem` starts an empty OSD in memory at each start.
    #[arg(long, value_enum, default_value_t = StoreKind::Block)]
    pub store: StoreKind,
    #[command(flatten)]
    pub devices: Devices,
    /// Register with the admin's key although there is a data folder, and say when it is up.
    #[arg(long, hide = true)]
    pub register: bool,
    /// Where the OSD stands in the CRUSH map (`device=a host=b root=default`), in place of `crush location` of ceph.conf.
    #[arg(long, hide = true, value_name = "PLACE")]
    pub crush_location: Option<String>,
    /// Run on these CPUs alone, such as 0-3,8: those of the device's NUMA node.
    #[arg(long, hide = true, value_name = "CPUS")]
    pub cpus: Option<String>,
    /// The address to listen on. Default: by `public addr` or `public network` of ceph.conf, else the one that reaches the monitor.
    #[arg(long)]
    pub listen: Option<IpAddr>,
    /// Memory of this OSD, such as 1G. A store on disk uses it as cache (default: 128 MiB, or what --memory-limit leaves), a store in
    /// memory as room for objects (default: `memstore device bytes` of ceph.conf, or 4 GiB, or what --memory-limit leaves).
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Keep the whole process to this much memory, such as 512M: caches give way to all else, then clients wait. If logs, maps and lists of
    /// missing objects need more, the process goes beyond it, and the log says so.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory_limit: Option<u64>,
    /// Microseconds for which an idle OSD polls for work before it sleeps: lower latency for more CPU time.
    #[arg(long, default_value_t = 0)]
    pub spin_us: u64,
    /// Answer from what a request says and keep nothing.
    #[arg(long, hide = true)]
    pub null: bool,
}

#[derive(Debug, clap::Args)]
pub struct Bench {
    /// `write`: new objects. `seq`, `rand`: read them, in order or at random. `overwrite` (with --store only): write blocks of existing objects.
    #[arg(value_parser = ["write", "seq", "rand", "overwrite"])]
    pub mode: String,
    /// Load a store alone, made for it, instead of a cluster: no network, no OSD.
    #[arg(long, value_enum)]
    pub store: Option<StoreKind>,
    /// With --store block: the folder for the store. It must not exist yet, and is removed in the end unless --keep is given.
    #[arg(long, default_value = "humboldt-bench-store", requires = "store")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub devices: Devices,
    /// With --store: bytes of all objects together; the first is written again when the last is full.
    #[arg(long, value_parser = parse_size, requires = "store")]
    pub span: Option<u64>,
    /// With --store block: size of its caches, such as 256M.
    #[arg(long, value_parser = parse_size, requires = "store")]
    pub memory: Option<u64>,
    /// The cluster's ceph.conf.
    #[arg(long, short = 'c', env = "CEPH_CONF", default_value = "humboldt-data/ceph.conf")]
    pub conf: PathBuf,
    /// The client's name; its key is in a keyring that ceph.conf names.
    #[arg(long, short = 'n', default_value = "client.admin")]
    pub name: String,
    /// The pool. It must exist; only `bench` is made if it is not there.
    #[arg(long, short = 'p', default_value = "bench")]
    pub pool: String,
    /// Copies of each object, if the pool is made. Default: the cluster's `osd_pool_default_size`.
    #[arg(long, conflicts_with = "store", value_parser = clap::value_parser!(u32).range(1..=10))]
    pub replicas: Option<u32>,
    /// How long the load lasts.
    #[arg(long, short = 's', default_value_t = 10.0)]
    pub seconds: f64,
    /// Size of an operation: 4096, or 4K.
    #[arg(long, short = 'b', default_value = "4096", value_parser = parse_size)]
    pub block: u64,
    /// Operations under way at the same time.
    #[arg(long, short = 't', default_value_t = 16)]
    pub depth: usize,
    /// Load the cluster as so many clients, each with connections of its own. Operations are dealt to them in turn.
    #[arg(long, default_value_t = 1, hide_default_value = true, conflicts_with = "store", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// Size of an object. Default: one block, or 4M where --store reads or overwrites.
    #[arg(long, default_value = "0", hide_default_value = true, value_parser = parse_size)]
    pub object_size: u64,
    /// Number of objects; after the last comes the first again. Default: as many as there is time for; to read, 1024.
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub objects: u64,
    /// Seconds of load before the measured part.
    #[arg(long, default_value_t = 0.0)]
    pub warm: f64,
    /// With --json: say on a line of its own when the measured part begins and ends, and wait behind the second for a line on standard input.
    #[arg(long, hide = true, requires = "json")]
    pub marks: bool,
    /// Keep the objects for a later `seq` or `rand`; with --store, keep the store.
    #[arg(long)]
    pub keep: bool,
    /// Print the result as one line of JSON: operations, errors, latencies in microseconds. Progress goes to standard error. A failure is a line
    /// with `error`.
    #[arg(long)]
    pub json: bool,
}
