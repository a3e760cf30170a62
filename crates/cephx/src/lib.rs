//! CephX: keys, keyrings, tickets, authorizers, and the capabilities that tickets carry. Also the payloads of `auth none`.
//!
//! Holds both sides of every exchange as values: bytes in, bytes out; time and randomness are arguments. Holds no frame of the
//! messenger (`msgr` carries these payloads) and no auth database (the monitor's; it is asked through [`server::AuthDb`]).
//!
//! Source of the facts: Ceph 18.2 `src/auth/` (`Crypto`, `cephx/CephxProtocol`, `cephx/CephxServiceHandler`, `Auth.h`) and
//! `doc/dev/cephx_protocol.rst`; for `aes256k` Ceph 20.2.4.

#![forbid(unsafe_code)]

mod aes256k;
pub mod base64;
pub mod caps;
pub mod client;
mod error;
pub mod identity;
pub mod key;
pub mod keyring;
pub mod mode;
pub mod none;
pub mod proto;
pub mod rotating;
pub mod server;
pub mod service;
mod usage;

pub use client::{Authorizer, ClientAuth, Secrets};
pub use error::{KeyError, Refusal};
pub use identity::Identity;
pub use key::{CryptoKey, KeyType};
pub use keyring::{EntityAuth, Keyring};
pub use proto::{AuthCapsInfo, AuthTicket};
pub use rotating::{RotatingSecrets, RotatingTable};
pub use server::{AuthDb, ServerSession};
pub use service::{ServiceKeys, ServiceSession, Verdict};
pub use usage::Usage;

/// A source of bytes that nobody can guess: the operating system's in shells, a seeded one in tests.
pub trait Entropy {
    fn fill(&mut self, out: &mut [u8]);
    fn u64(&mut self) -> u64 {
        let mut b = [0; 8];
        self.fill(&mut b);
        u64::from_le_bytes(b)
    }
}

/// For tests and simulations only: its secrets can be computed from the seed.
impl Entropy for base::Rng {
    fn fill(&mut self, out: &mut [u8]) {
        base::Rng::fill(self, out);
    }
}

/// Any function that fills a slice, such as the system's random source.
pub struct FromFn<F: FnMut(&mut [u8])>(pub F);
impl<F: FnMut(&mut [u8])> Entropy for FromFn<F> {
    fn fill(&mut self, out: &mut [u8]) {
        (self.0)(out);
    }
}
