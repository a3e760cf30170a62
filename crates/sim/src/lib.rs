//! A whole cluster in one thread, from one seed: monitor, OSDs and clients on a virtual network, virtual disks and virtual time.
//!
//! What runs is what ships: [`mon_core::Mon`], [`osd_core::Daemon`], [`objecter::Objecter`] and [`objecter::MonClient`], on `store-mem` or on
//! `store-block` over [`disk::MemDisks`], in a share of the seeds joined by [`msgr::Connection`]s. What the shell of clients decides (redials) is a model of a few lines in [`client`], named there. The same
//! seed gives the same events in the same order, and the same [`Report::trace`].
//!
//! ```text
//!   plan     what a seed draws: sizes, which faults and how often (swarm)
//!     │      themes: a share of the seeds is about one situation
//!     │
//!   cluster  one queue of events by virtual time; hands each to its process
//!     │        monitor · osd · client     processes: a core and the model of its shell
//!     │        net                        links: delay, order, cuts, partitions
//!     │        wire                       links of some seeds: real `msgr` connections over byte pipes
//!     │        drive                      what an OSD's store lies on; a kill may be a power cut
//!     │
//!     │        faults                     what goes wrong, and what operators do
//!     │        harm                       what goes wrong with disks for good, and how operators mend it
//!     │        silent                     one member's copy is changed, with right checksums
//!     │        kinds                      kinds of faults, in one table
//!     │        devices                    OSDs that are added, emptied or lost, and the operator who replaces them
//!     │        crowd                      stores of different size that fill, also in recovery
//!     │        vanish                     stores that vanish, fail or are swapped, while their OSDs run or at their starts
//!     │        hostile                    clients that send what is malformed or forged
//!     │        followers                  reads straight at members that follow, while it matters
//!     │        fence                      primaries that are cut off or stopped, with a client that knows no other
//!     │        barred                     clients that others shut out while they write
//!     │        watching                   clients that watch and notify over links that are cut; what is asked of that
//!     │        gaps                       clients and OSDs that hear of no map until what they need next is trimmed
//!     │        away                       OSDs that are away for minutes, and come back with all that they had
//!     │        exchange                   all members of a group exchanged at once, and the old ones dead at the next acknowledgement
//!     │
//!     ├─────> acks      what is acknowledged lies on every member, durably (durable), at the moment of the answer
//!     ├─────> serving   no two OSDs would serve one object now
//!     ├─────> alike     members of an active group have what their primary takes them to have
//!     ├─────> chains    logs go on from where the interval before ended, and know each acknowledged request
//!     ├─────> one_version   an object that is sent to a member in parts is not written meanwhile
//!     ├─────> former    what was said in a former interval changes nothing
//!     ├─────> rules     what maps say, one after the other; a quiet minute is quiet
//!     ├─────> purge     what the monitor calls purged no member keeps
//!     ├─────> places    reservations are asked for, granted and given back as stock OSDs take it, and never too many
//!     ├─────> seen      what of the cores was reached
//!   history ──> linear    every object's operations have an order that explains each answer, snapshots too
//!               rest      the healed cluster: groups clean, nothing unanswered
//!               agree     what lies on the disks of a group's members is the same, and each object by itself (itself) what its record says
//! ```
//! The checkers share no code with the cores. Absent: sockets, files, clocks, threads; cephx: sessions open without tickets, most of them without a
//! handshake.

#![forbid(unsafe_code)]

/// A seed allocates all the time: with the system's allocator that is a tenth of it. The program that ships has this one, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub mod acks;
pub mod agree;
mod alike;
mod away;
mod barred;
mod chains;
pub mod client;
pub mod cluster;
mod crowd;
mod devices;
pub mod drive;
mod durable;
mod exchange;
mod faults;
mod fence;
mod followers;
mod former;
mod gaps;
mod harm;
pub mod history;
mod hostile;
mod itself;
mod judge;
pub mod kinds;
pub mod linear;
pub mod model;
pub mod monitor;
pub mod net;
mod one_version;
mod online_checks;
pub mod osd;
mod places;
pub mod plan;
pub mod planted;
mod purge;
pub mod rest;
mod rules;
pub mod seen;
mod serving;
mod silent;
mod themes;
pub mod trace;
mod vanish;
mod watching;
mod wire;

pub use cluster::{Cluster, Report, run, run_deep};
pub use plan::Plan;
pub use planted::Planted;
pub use rest::Rest;
pub use seen::Seen;

/// Nanoseconds of virtual time in a millisecond and in a second.
pub const MS: u64 = 1_000_000;
pub const SEC: u64 = 1_000 * MS;
