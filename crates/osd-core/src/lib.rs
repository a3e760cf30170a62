//! The OSD as a value: messages, maps, time and the store's commits go in, effects come out.
//!
//! Holds no socket, clock, thread or file: the shell `osd` has those. What one operation does to an object is in [`op`]; all the rest (maps,
//! placement groups, order, duplicates, watches, statistics, commands) is here.

#![forbid(unsafe_code)]

mod advance;
mod bench;
mod boot;
mod catch_up;
mod clocks;
mod command;
pub mod config;
mod copying;
mod crumb;
pub mod daemon;
mod event;
mod fullness;
mod heartbeat;
mod history;
mod load;
mod map_cache;
mod merging;
mod mgr;
pub mod op;
mod osd;
mod peers;
pub mod perf;
mod perf_queries;
mod persist;
pub mod pg;
mod pg_commands;
pub mod planted;
mod remove;
mod request;
mod reserver;
mod session;
mod shared;
mod work;

pub use command::{RELEASE, VERSION, command_output};
pub use crumb::crumb_text;
pub use daemon::Daemon;
pub use event::{BootInfo, ConnId, DeviceQuestion, Effect, Event, HbNet, Level, Peer};
pub use osd::{Osd, OsdSetup};
pub use request::answer_bytes;
