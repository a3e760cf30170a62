//! The acceptance suites: stock clients, daemons and upstream's test programs against the program under test, and what they need to run.
//!
//! ```text
//!   cases        what stock programs must see, by subject; `order` says in which lane and which runs
//!   conformance  upstream's own suites, and what is known of them
//!   vectors      random operations sent to two clusters
//!     │
//!   clients      stock releases: installed, run
//!   cluster      the program under test: built, started, stopped
//!   shared_group figures and pauses of groups that stock OSDs and ours share
//!   stock        stock daemons · gateway, mds: those above them
//!   oci          our container images, written and filled
//!   run, pace, netns, loops, folders, story    programs with a limit, networks and devices of their own, what a failure tells
//! ```
//! Knows our server only as a program: it uses none of its crates. Absent: chores, and the test programs of our crates (`xtask`).

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a shell: it has clocks, files and threads

pub mod applications;
pub mod browser;
pub mod cases;
pub mod clients;
pub mod cluster;
mod commands;
pub mod compare;
pub mod conformance;
pub mod crowd;
pub mod folders;
pub mod gateway;
pub mod guide;
pub mod lanes;
pub mod load;
pub mod loaded_reads;
mod loops;
mod mds;
pub mod netns;
pub mod oci;
pub mod pace;
mod persistent_client;
pub mod programs;
pub mod run;
mod script;
pub mod share;
pub mod shared_group;
mod stock;
mod story;
mod troubleshooting;
pub mod vectors;
mod workload;
