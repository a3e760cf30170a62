//! The monitor of a cluster of one machine, and its manager endpoint, as deterministic functions of what happens to them.
//!
//! Holds the services of a Ceph monitor (maps, auth, config, log, health), the command framework and the commands. Holds no socket, disk,
//! clock or entropy: `Mon::handle(event, clock, &mut effects)` gets time and randomness and returns what is to be stored and sent.

#![forbid(unsafe_code)]
