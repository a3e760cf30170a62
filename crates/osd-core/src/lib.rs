//! The OSD as a value: messages, maps, time and the store's commits go in, effects come out.
//!
//! Holds no socket, clock, thread or file: the shell `osd` has those. What one operation does to an object is in [`op`]; all the rest (maps,
//! placement groups, order, duplicates, watches, statistics, commands) is here.

#![forbid(unsafe_code)]

pub mod op;
