//! The laboratory: studies as files, run on Humboldt, on stock Ceph and on bare devices, with an instrument that is proven each time.
//!
//! | module | holds |
//! |---|---|
//! | [`study`] | the study file: its format, its checks, the product of its axes, the studies that are shipped |
//! | [`plan`] | cells, rows and the order of their rounds on this machine; what can't run and why |
//! | [`target`], [`load`] | what is measured, and the tools that load it |
//! | [`sample`], [`machine`] | what servers, clients and the machine have used |
//! | [`run`] | the visits, whether a round is to be believed, and the results folder |
//! | [`trace`], [`profile`] | what a target's devices were given, and where its CPU went, in rounds that don't count |
//! | [`model`] | devices that behave as a data sheet says |
//! | [`stats`], [`results`], [`claims`] | from rounds to figures, words and answers |
//! | [`lasting`] | a load's last tenth beside its first, its slowest second beside its mean |
//! | [`report`] | the page, and two folders side by side |
//! | [`import`] | CBT's YAML and ceph.conf |
//! | [`selftest`] | the proof of the instrument |
//!
//! Absent: RADOS. Servers and clients are programs here, ours too, so that the CPU of each can be told apart.

#![deny(unsafe_code)]

mod cgroup;
pub mod claims;
pub mod import;
pub mod lasting;
mod leftovers;
pub mod load;
pub mod machine;
pub mod metric;
pub mod model;
pub mod plan;
pub mod profile;
pub mod report;
pub mod results;
pub mod run;
pub mod sample;
pub mod selftest;
pub mod stats;
pub mod study;
mod sys;
pub mod target;
pub mod trace;
pub mod value;
