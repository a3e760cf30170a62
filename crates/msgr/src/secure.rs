//! The cipher of secure mode: AES-128-GCM with a nonce that counts, one each way.
//!
//! The connection secret is key (16) | one side's nonce (12) | the other's (12): the dialling side receives with the first nonce and
//! sends with the second. A nonce is a fixed u32 and a u64 that counts up.
//!
//! Source of the facts: Ceph 18.2 `src/msg/async/crypto_onwire.cc`.

use crate::MsgrError;
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// Bytes that a secret must have; monitors hand out 64.
pub const SECRET_MIN: usize = 40;
/// Bytes of the connection secrets that Ceph makes for secure mode.
pub const SECRET: usize = 64;

/// One direction.
pub struct Cipher {
    key: LessSafeKey,
    fixed: [u8; 4],
    counter: u64,
    first: u64,
    used: bool,
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cipher")
    }
}

impl Cipher {
    /// The ciphers to receive and to send with.
    pub fn pair(secret: &[u8], dialled: bool) -> Result<(Cipher, Cipher), MsgrError> {
        if secret.len() < SECRET_MIN {
            return Err(MsgrError::SecretTooShort(secret.len()));
        }
        let (key, first, second) = (&secret[..16], &secret[16..28], &secret[28..40]);
        let (rx, tx) = if dialled { (first, second) } else { (second, first) };
        Ok((Self::new(key, rx), Self::new(key, tx)))
    }
    fn new(key: &[u8], nonce: &[u8]) -> Self {
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key).expect("the key has 16 bytes"));
        let counter = u64::from_le_bytes(nonce[4..12].try_into().expect("eight bytes"));
        Self { key, fixed: nonce[..4].try_into().expect("four bytes"), counter, first: counter, used: false }
    }
    fn nonce(&mut self) -> Result<Nonce, MsgrError> {
        if self.counter == self.first && std::mem::replace(&mut self.used, true) {
            return Err(MsgrError::NoncesUsedUp);
        }
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.fixed);
        nonce[4..].copy_from_slice(&self.counter.to_le_bytes());
        self.counter = self.counter.wrapping_add(1);
        Ok(Nonce::assume_unique_for_key(nonce))
    }
    /// Encrypts `out[from..]` and puts the tag behind it.
    pub fn seal(&mut self, out: &mut Vec<u8>, from: usize) -> Result<(), MsgrError> {
        let nonce = self.nonce()?;
        let tag =
            self.key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut out[from..]).expect("a frame is far below GCM's limit of 64 GiB");
        out.extend_from_slice(tag.as_ref());
        Ok(())
    }
    /// Decrypts in place; the last 16 bytes are the tag.
    pub fn open(&mut self, sealed: &mut [u8]) -> Result<(), MsgrError> {
        let nonce = self.nonce()?;
        self.key.open_in_place(nonce, Aad::empty(), sealed).map(drop).map_err(|_| MsgrError::Tampered)
    }
}
