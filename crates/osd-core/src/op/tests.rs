//! Requests as stock answers them, over the memory store.

mod bench;
mod listing;
mod recorded;
mod requests;
mod snapshots;
mod vectors;
