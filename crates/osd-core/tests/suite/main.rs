//! An OSD's core as clients, monitors and other OSDs see it, in one program: a program for each file would build and link the same
//! helpers two dozen times, which takes longer than the tests.
//!
//! [`world`] is one OSD and the monitor's half of its cluster, [`cluster`] several OSDs, [`replay`] a recorded conversation. What measures memory has a
//! program of its own, with its own allocator: `bounds` and `costs`.

#[path = "../cluster/mod.rs"]
mod cluster;
#[path = "../../../messages/tests/conversation/mod.rs"]
mod conversation;
#[path = "../replay/mod.rs"]
mod replay;
#[path = "../world/mod.rs"]
mod world;

mod as_stock_did;
mod as_stock_peers_did;
mod as_stock_told_its_manager;
mod backfill;
mod background_work;
mod balanced;
mod client_addrs;
mod commands;
mod copies;
mod daemon;
mod entries_alone;
mod faults;
mod foreign;
mod in_flight;
mod leases;
mod map_gaps;
mod maps_spread;
mod marked_down;
mod names;
mod notify_cuts;
mod object_order;
mod one_osd;
mod peering;
mod recovery;
mod recovery_full;
mod replicas;
mod restart;
mod scrub;
mod unfound;
mod waiting;
