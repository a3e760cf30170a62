//! The command line of `cargo xtask`, as types.

use crate::arch::Arch;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// The project's chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub chore: Chore,
}

#[derive(Debug, clap::Args)]
pub struct CasesArgs {
    /// Cases that can't run here don't fail the command.
    #[arg(long)]
    pub allow_skips: bool,
    /// Cases with this in their name.
    #[arg(long)]
    pub only: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct TestArgs {
    /// Run everything. Without --all: a part that rotates, which the run names at the beginning.
    #[arg(long)]
    pub all: bool,
    /// The share of what rotates: 1, 2 or 3. By the change that the tree is, unless given.
    #[arg(long, conflicts_with = "all", value_parser = clap::value_parser!(u64).range(1..=3))]
    pub share: Option<u64>,
    /// Cases with this in their name, and the tests of the crate that is called so; builds only what they need.
    #[arg(long)]
    pub only: Option<String>,
    /// Cases that can't run here don't fail the command.
    #[arg(long)]
    pub allow_skips: bool,
    /// Beside two busy loops and a writer to the same disk: no case of ours may fail.
    #[arg(long)]
    pub beside_load: bool,
}

#[derive(Debug, clap::Args)]
pub struct ConformanceArgs {
    /// The suite; all of them unless given. Suite rgw includes s3, and cephfs includes posix and workunits.
    #[arg(value_parser = ["rados", "cls", "rbd", "luks", "model", "rgw", "s3", "cephfs", "posix", "workunits", "mirror", "multisite", "python", "go-ceph", "workunits-rbd", "nfs", "smb"])]
    pub suite: Option<String>,
    /// That of clients and gateways, such as 20.2. Those that a suite has unless it is given; 18.2 alone for suites that are no list of programs.
    #[arg(long, visible_alias = "with")]
    pub release: Option<String>,
    /// Programs or cases with this in their name.
    #[arg(long)]
    pub only: Option<String>,
    /// RBD_FEATURES of suite rbd (61); `unset`: images of the old format.
    #[arg(long)]
    pub features: Option<String>,
    /// The OSDs' store: `mem` (default) or `block`. With --among-stock, `both` runs the suite with each.
    #[arg(long)]
    pub store: Option<String>,
    /// OSDs of ours under stock monitors and a stock manager, instead of `humboldt up`.
    #[arg(long)]
    pub among_stock: bool,
    /// With --among-stock: the release of those daemons. With 20.2 the programs are of 20.2, too, and suites with gateways are left out.
    #[arg(long, requires = "among_stock", default_value = "18.2", value_parser = ["18.2", "20.2"])]
    pub daemons: String,
    /// A stock cluster, with an OSD of the release, and nothing of ours: what a suite passes there.
    #[arg(long, conflicts_with_all = ["among_stock", "copies"])]
    pub stock: bool,
    /// Copies of each object, on that many OSDs of `humboldt up`.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3), conflicts_with = "among_stock")]
    pub copies: u8,
    /// For suite mirror: how often each image is taken by force and copied anew.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub failovers: u32,
    /// Run nothing: put COMPATIBILITY.md and docs/conformance into their form.
    #[arg(long)]
    pub rewrite: bool,
    /// For suite s3: a checkout of ceph/s3-tests, branch ceph-reef.
    #[arg(long, value_name = "DIR")]
    pub s3_tests: Option<PathBuf>,
    /// For suite s3: all tests, also those that upstream's own runs leave out; in a section of its own.
    #[arg(long, requires = "s3_tests")]
    pub s3_whole: bool,
    /// For suite posix: a checkout of pjd/pjdfstest.
    #[arg(long, value_name = "DIR")]
    pub pjdfstest: Option<PathBuf>,
    /// For suite posix: a checkout of kdave/xfstests, for its fsx.
    #[arg(long, value_name = "DIR")]
    pub xfstests: Option<PathBuf>,
    /// For suites workunits, workunits-rbd and python: the source of Ceph 18.2, unpacked.
    #[arg(long, value_name = "DIR")]
    pub ceph_source: Option<PathBuf>,
    /// For suite go-ceph: a checkout of ceph/go-ceph, in which `go mod vendor` has run.
    #[arg(long, value_name = "DIR")]
    pub go_ceph: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct VectorsArgs {
    /// The ceph.conf of a stock cluster.
    #[arg(long, value_name = "CONF")]
    pub stock: PathBuf,
    /// That of a cluster of ours; without it one is started.
    #[arg(long, value_name = "CONF")]
    pub ours: Option<PathBuf>,
    /// Cases: objects, each with a few vectors.
    #[arg(long, default_value_t = 1000)]
    pub count: u64,
    /// What draws the first of them; the others follow.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Clients, each with a case under way.
    #[arg(long, default_value_t = 4)]
    pub senders: usize,
}

#[derive(Debug, clap::Args)]
pub struct FiguresArgs {
    /// The store to measure: `mem` beside memstore, `block` beside BlueStore.
    #[arg(long, default_value = "mem", value_parser = ["mem", "block"])]
    pub store: String,
    /// Few short rounds, to see that all of it runs.
    #[arg(long)]
    pub quick: bool,
    /// Keep the result in docs/figures.json, and draw the pictures and tables from it.
    #[arg(long, conflicts_with = "quick")]
    pub keep: bool,
    /// Measure nothing: draw the pictures and tables from docs/figures.json.
    #[arg(long)]
    pub draw: bool,
    /// Measure beside another build of ours instead of stock: a commit, which is built first, or a program. Nine rows take ten minutes;
    /// --keep adds the rows to docs/drift.json.
    #[arg(long, value_name = "COMMIT|PROGRAM", conflicts_with_all = ["draw", "store"])]
    pub against: Option<String>,
    /// Measure groups of three that ours and stock OSDs of 20.2 share, beside three stock ones: processor time a write, latency at depth 1,
    /// how fast a member is filled.
    #[arg(long, conflicts_with_all = ["draw", "store", "against"])]
    pub shared_group: bool,
    /// With --against or --shared-group: interleaved pairs of each row.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub rounds: u64,
    /// With --against or --shared-group: how long a load is.
    #[arg(long, default_value_t = 4.0)]
    pub seconds: f64,
}

#[derive(Debug, clap::Args)]
pub struct GatewayFiguresArgs {
    /// Interleaved pairs.
    #[arg(long, default_value_t = 5)]
    pub pairs: usize,
    /// How long a load is, in seconds of a machine of two cores.
    #[arg(long, default_value_t = 8)]
    pub seconds: u32,
    /// Measure the CPU of an idle gateway for so many seconds; 0 leaves that out.
    #[arg(long, default_value_t = 60)]
    pub idle: u32,
    /// Loads with this in their name.
    #[arg(long)]
    pub only: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Chore {
    /// All unit tests, then stock clients against a build of ours; at the end a table of times, and a line with how many passed.
    Test(TestArgs),
    /// Check that cores use nothing that clippy.toml bans.
    Lint,
    /// The cases with stock clients alone, on target/ci/humboldt.
    Clients(CasesArgs),
    /// Upstream's test programs; writes COMPATIBILITY.md and docs/conformance.
    Conformance(ConformanceArgs),
    /// Run the cases that mix stock daemons with ours: under either's monitor, with cut networks, full stores, deaths in any order.
    StockDaemons {
        /// Cases that take longer than CI has, too.
        #[arg(long)]
        long: bool,
        #[arg(long)]
        only: Option<String>,
    },
    /// Record what a stock cluster answers to the script in suites/src/commands.rs.
    RecordCommands { conf: String, out: String },
    /// Record what a stock cluster allows by which capability (suites/src/cases/caps.py).
    RecordCaps { conf: String, out: String },
    /// Decoders and handshakes under random input.
    Fuzz {
        #[arg(default_value_t = 60)]
        seconds: u64,
    },
    /// A peer with weak keys: each operation with its numbers at their bounds, each flag by itself; many samples of each, where the tests make a few.
    Rogue {
        #[arg(default_value_t = 200)]
        samples: u64,
    },
    /// Send random frames, messages and requests over real sockets, as peers with weak keys: so many times what the tests send.
    LiveFuzz {
        #[arg(default_value_t = 100)]
        times: u64,
    },
    /// Runs applications that nobody here wrote (restic, rclone, s3cmd, s3fs, boto3; PostgreSQL; SQLite, git, tar) while an OSD is killed, the server is
    /// killed, and a disk is lost and replaced.
    Applications {
        /// Only this one.
        #[arg(long)]
        only: Option<String>,
    },
    /// Open connections that never log in, at every port of a cluster of three OSDs, and print a good client's p99 with and without them.
    Crowd {
        /// How long they come, altogether.
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(2..=600))]
        seconds: u64,
        /// A second, to all ports in turn.
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000))]
        rate: u64,
    },
    /// Large reads by two clients beside six busy loops, with little memory for what is under way: none may stand still.
    LoadedReads {
        #[arg(long, default_value_t = 300)]
        runs: u64,
    },
    /// Crash states of the block store; a run goes on with the seed that the last one named.
    CrashStates {
        #[arg(long)]
        from: Option<u64>,
        /// 1,000,000 states, or 20 seeds with `--faults`, unless given.
        #[arg(long)]
        count: Option<u64>,
        /// The planted bugs instead: each must be noticed.
        #[arg(long)]
        bugs: bool,
        /// Faults at each operation of each seed's life instead.
        #[arg(long)]
        faults: bool,
    },
    /// Damage one block of a store or of the monitor's database, many times; all other data must be served.
    RotMatrix {
        #[arg(long, default_value_t = 50)]
        count: u64,
        /// Leave out the 20 times as many on devices in memory.
        #[arg(long)]
        servers: bool,
    },
    /// Send random vectors of operations to our cluster and a stock one, compare answers and objects, and reduce each difference.
    Vectors(VectorsArgs),
    /// The cluster simulator: --from SEED, --count N (1,000), --seed SEED [--trace] [--shrink]; --bugs [--only WORD]: promises that are broken on purpose;
    /// --figure [N]: seeds a second.
    Sim {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// kill -9 under load, everything compared at the end.
    KillLoop {
        #[arg(long, default_value_t = 30)]
        cycles: u32,
    },
    /// The active ceph-mds, humboldt and radosgw killed with -9 in turns under writes to files and objects, everything compared at the end.
    KillInTurns {
        #[arg(long, default_value_t = 20)]
        rounds: u32,
    },
    /// Print the memory that a server of 512 MiB takes at most: at its start, with a million objects, in backfill, in recovery, in
    /// peering with full logs, and with 1,000 clients.
    Memory {
        /// The same scenes with a monitor, a manager and two OSDs of Ceph 18.2.
        #[arg(long)]
        stock: bool,
        /// Objects instead of a million.
        #[arg(long)]
        objects: Option<u64>,
    },
    /// Pools of three copies: one, two or three OSDs killed at a time, each copy compared.
    KillCopies {
        #[arg(long, default_value_t = 30)]
        cycles: usize,
    },
    /// Run upstream's random workload on three copies while OSDs die, hang and move, and the pool changes: no errors, clean in six minutes.
    Thrash {
        /// The mixes of operations by their letters.
        #[arg(long, default_value = "ABDE")]
        mixes: String,
        /// Operations of each mix; a twentieth of them where objects are big.
        #[arg(long, default_value_t = 20_000)]
        ops: u64,
        /// What draws the deeds.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// So many seeds, each on a cluster of its own.
        #[arg(long, default_value_t = 1)]
        count: u64,
        /// Nothing but kills, one every 5 to 10 s.
        #[arg(long)]
        only_kills: bool,
    },
    /// Copy the device below the store while clients write: each copy must come up whole.
    ImageCheck {
        #[arg(long, default_value_t = 20)]
        copies: u32,
    },
    /// Measure server CPU per operation and latency beside stock, in interleaved pairs.
    Figures(FiguresArgs),
    /// Kill, end, stop and continue members of groups that ours and stock OSDs of 20.2 share, beside three stock ones: no answer may be
    /// stale, wrong or missing, no pause longer than stock's.
    SharedStall {
        /// The program that watches: given a ceph.conf, `--pool`, `--seconds`, `--writers`, `--json FILE` and `--at SECONDS COMMAND`.
        program: PathBuf,
    },
    /// Measure the OSD's CPU per S3 request and per file operation, without that of radosgw, ceph-mds and the client, beside stock memstore.
    GatewayFigures(GatewayFiguresArgs),
    /// A Debian package and a tarball, in target/package; of the program in `HUMBOLDT_BINARY`, if that is set.
    Package {
        /// Install it in fresh chroots of Debian 12 and 13 as well, and serve a client from there.
        #[arg(long)]
        install: bool,
    },
    /// A release, in target/dist-ARCH: tarball, Debian package and images of a static build, bills of materials, licences, SHA256SUMS.
    /// Of the program in `HUMBOLDT_BINARY`, if that is set.
    Release {
        /// The kind of machine that it is for. Another than this one's is cross-compiled, without the image that has a stock radosgw.
        #[arg(long, value_enum, default_value = "amd64")]
        arch: Arch,
        /// Build and make it a second time in other folders: all must be equal byte for byte.
        #[arg(long)]
        again: bool,
    },
    /// Build the program for arm64 by cross compilation; run unit tests of it and a small cluster under emulation.
    Arm64,
    /// Print texts for users, drawn at random: help, health and errors, paragraphs of the guide. To be read as a stranger would.
    Samples {
        #[arg(long, default_value_t = 40)]
        count: usize,
        /// The same seed draws the same texts of the same tree.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Make the guide a book: links checked, mdBook run.
    Docs {
        /// Run the guide's blocks first, and put what they print into the pages.
        #[arg(long)]
        update: bool,
        /// With `--update`: pages with this in their name.
        #[arg(long, requires = "update")]
        only: Option<String>,
        /// Without mdBook, check the links alone.
        #[arg(long)]
        allow_skips: bool,
    },
}
