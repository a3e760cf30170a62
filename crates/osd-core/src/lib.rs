//! The OSD as a value: messages, maps, time and the store's commits go in, effects come out.
//!
//! Holds no socket, clock, thread or file: the shell `osd` has those. What one operation does to an object is in [`op`]; all the rest (maps,
//! placement groups, order, duplicates, watches, statistics, commands) is here.

#![forbid(unsafe_code)]

mod answer;
mod clocks;
mod command;
pub mod config;
mod connections;
mod control;
mod crumb;
pub mod daemon;
mod event;
mod fetch;
mod figures;
mod found;
mod history;
mod inquiry;
mod joint;
mod late;
mod load;
mod map_cache;
pub mod op;
mod osd;
mod outbound;
pub mod perf;
mod perf_queries;
mod persist;
pub mod pg;
pub mod planted;
mod request;
mod reserver;
mod session;
mod setup;
mod shard;
mod shared;
mod timed_store;
mod way_back;
mod work;

pub use command::{RELEASE, VERSION, command_output};
pub use crumb::crumb_text;
pub use daemon::Daemon;
pub use event::{BootInfo, ConnId, DeviceQuestion, Effect, Event, HbNet, Level, Peer};
pub use osd::Osd;
pub use request::answer_bytes;
pub use setup::OsdSetup;
