//! Secret keys, and what is sealed with them.
//!
//! A key of type `aes` encrypts with AES-128-CBC, PKCS#7 padding and an initial vector that never changes. A sealed value is
//! encrypted behind a version byte and a magic number, which is how a reader knows that it has the right key:
//!
//! ```text
//! AES-128-CBC( u8 version = 1 | u64 0xff009cad8826aa55 | value )
//! ```
//!
//! That is all the integrity which type `aes` has (CVE-2025-30156; [`crate::service`] looks at what is inside a ticket for it). A key of
//! type `aes256k` seals the same envelope as [`crate::aes256k`] says, by [`Usage`].

use crate::{Entropy, KeyError, Usage, aes256k, base64};
use aes::Aes128;
use aws_lc_rs::hmac;
use bytes::Bytes;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit, block_padding::Pkcs7};
use denc::{Decoder, Denc, DencError, Encoder};
use std::fmt;
use types::UTime;

const AES_KEY_LEN: usize = 16;
/// The vector that all keys of type `aes` share.
const AES_IV: &[u8; 16] = b"cephsageyudagreg";
const MAGIC: u64 = 0xff00_9cad_8826_aa55;

/// `CEPH_CRYPTO_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyType(pub u16);

impl KeyType {
    pub const NONE: Self = Self(0);
    pub const AES: Self = Self(1);
    /// AES256-CTS-HMAC-SHA384-192, in 19.2.6, 20.2.4 and later.
    pub const AES256K: Self = Self(2);

    /// As `--key-type` has it: `aes`, `aes256k`.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::AES, Self::AES256K].into_iter().find(|kind| kind.name() == name)
    }
    pub fn name(self) -> &'static str {
        match self {
            Self::NONE => "none",
            Self::AES => "aes",
            Self::AES256K => "aes256k",
            _ => "unknown",
        }
    }
    fn secret_len(self) -> usize {
        if self == Self::AES256K { aes256k::KEY_LEN } else { AES_KEY_LEN }
    }
}

/// A secret, its type, and when it was made. Printing one in a log shows no secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CryptoKey {
    pub kind: KeyType,
    pub created: UTime,
    pub secret: Vec<u8>,
}

impl Default for CryptoKey {
    fn default() -> Self {
        Self { kind: KeyType::NONE, created: UTime::ZERO, secret: Vec::new() }
    }
}

impl CryptoKey {
    /// A new key of type `aes`: what every release reads.
    pub fn generate(now: UTime, entropy: &mut dyn Entropy) -> Self {
        Self::generate_of(KeyType::AES, now, entropy)
    }
    /// A new key of a type that keys are made of.
    pub fn generate_of(kind: KeyType, now: UTime, entropy: &mut dyn Entropy) -> Self {
        assert!(kind == KeyType::AES || kind == KeyType::AES256K, "keys are made of these types only");
        let mut secret = vec![0; kind.secret_len()];
        entropy.fill(&mut secret);
        Self { kind, created: now, secret }
    }
    pub fn is_empty(&self) -> bool {
        self.secret.is_empty()
    }
    /// As keyrings and `ceph auth` show it.
    pub fn to_base64(&self) -> String {
        base64::encode(&self.to_bytes(0))
    }
    pub fn from_base64(text: &str) -> Result<Self, KeyError> {
        let bytes = Bytes::from(base64::decode(text).ok_or(KeyError::Base64)?);
        let mut d = Decoder::new(bytes);
        let key = Self { kind: KeyType(d.u16()?), created: d.get()?, secret: secret(&mut d)? };
        if key.kind != KeyType::NONE {
            key.usable()?;
        }
        Ok(key)
    }

    /// The bytes of the secret that count, or why this key can't be used.
    fn usable(&self) -> Result<&[u8], KeyError> {
        match self.kind {
            KeyType::AES | KeyType::AES256K => {
                let len = self.kind.secret_len();
                self.secret.get(..len).ok_or(KeyError::Short { kind: self.kind.name(), have: self.secret.len(), need: len })
            }
            KeyType::NONE => Err(KeyError::Empty),
            KeyType(other) => Err(KeyError::UnknownType(other)),
        }
    }
    fn encrypt(&self, usage: Usage, plain: &[u8], entropy: &mut dyn Entropy) -> Result<Vec<u8>, KeyError> {
        let secret = self.usable()?;
        if self.kind == KeyType::AES256K { Ok(aes256k::seal(&self.secret, usage.0, plain, entropy)) } else { Ok(aes_cbc(secret, plain)) }
    }
    fn decrypt(&self, usage: Usage, sealed: &[u8]) -> Result<Vec<u8>, KeyError> {
        let secret = self.usable()?;
        if self.kind == KeyType::AES256K {
            return aes256k::open(&self.secret, usage.0, sealed);
        }
        let cipher = cbc::Decryptor::<Aes128>::new_from_slices(secret, AES_IV).expect("the slices have their lengths");
        cipher.decrypt_padded_vec::<Pkcs7>(sealed).map_err(|_| KeyError::Decrypt)
    }

    /// Encrypts a value behind its version and magic.
    pub fn seal<T: Denc>(&self, usage: Usage, value: &T, entropy: &mut dyn Entropy) -> Result<Bytes, KeyError> {
        Ok(self.encrypt(usage, &enveloped(value), entropy)?.into())
    }
    /// Decrypts a value and looks at its magic.
    pub fn open<T: Denc>(&self, usage: Usage, sealed: &[u8]) -> Result<T, KeyError> {
        let mut d = Decoder::new(self.decrypt(usage, sealed)?.into());
        // Whatever is wrong with the envelope, the key was most likely another one.
        d.u8().map_err(|_| KeyError::Decrypt)?;
        if d.u64().map_err(|_| KeyError::Decrypt)? != MAGIC {
            return Err(KeyError::Decrypt);
        }
        Ok(T::decode(&mut d)?)
    }
    /// Appends a length and the sealed value.
    pub fn seal_into<T: Denc>(&self, usage: Usage, value: &T, entropy: &mut dyn Entropy, e: &mut Encoder) -> Result<(), KeyError> {
        e.blob(&self.seal(usage, value, entropy)?);
        Ok(())
    }
    /// Reads a length and the sealed value.
    pub fn open_from<T: Denc>(&self, usage: Usage, d: &mut Decoder) -> Result<T, KeyError> {
        let sealed = d.blob()?;
        self.open(usage, &sealed)
    }

    /// What proves that one knows the key, folded to 64 bits: both challenges sealed with their length in front (`aes`), or their
    /// HMAC-SHA256 (`aes256k`, whose sealed bytes differ each time).
    pub fn proof(&self, server_challenge: u64, client_challenge: u64) -> Result<u64, KeyError> {
        let secret = self.usable()?;
        let challenges = (server_challenge, client_challenge);
        let mut e = Encoder::new(0);
        if self.kind == KeyType::AES256K {
            challenges.encode(&mut e);
            let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.secret), e.as_slice());
            return Ok(fold(mac.as_ref()));
        }
        e.blob(&aes_cbc(secret, &enveloped(&challenges)));
        Ok(fold(e.as_slice()))
    }
}

fn enveloped<T: Denc>(value: &T) -> Bytes {
    let mut e = Encoder::new(denc::ALL_FEATURES);
    e.u8(1);
    e.u64(MAGIC);
    value.encode(&mut e);
    e.finish()
}
fn aes_cbc(secret: &[u8], plain: &[u8]) -> Vec<u8> {
    let cipher = cbc::Encryptor::<Aes128>::new_from_slices(secret, AES_IV).expect("the slices have their lengths");
    cipher.encrypt_padded_vec::<Pkcs7>(plain)
}
/// All whole words of 8 bytes, one on another.
fn fold(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("a word has 8 bytes")));
    words.fold(0, |acc, w| acc ^ w)
}

fn secret(d: &mut Decoder) -> Result<Vec<u8>, DencError> {
    let len = d.u16()? as usize;
    Ok(d.raw(len)?.to_vec())
}

/// Type, creation time, a 16-bit length and the secret; no frame.
impl Denc for CryptoKey {
    fn encode(&self, e: &mut Encoder) {
        e.u16(self.kind.0);
        self.created.encode(e);
        e.u16(u16::try_from(self.secret.len()).expect("a secret is shorter than 64 KiB"));
        e.raw(&self.secret);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Ok(Self { kind: KeyType(d.u16()?), created: d.get()?, secret: secret(d)? })
    }
}

impl fmt::Debug for CryptoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CryptoKey(type {}, {} bytes)", self.kind.0, self.secret.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    const USE: Usage = Usage::TICKET_SESSION_KEY;

    #[test]
    fn a_stock_key_comes_back_and_seals() {
        let text = "AQBMcgFrN+yCDxAAzvqrhEhGZxuB45rELl9uFw==";
        let key = CryptoKey::from_base64(text).unwrap();
        assert_eq!((key.kind, key.secret.len()), (KeyType::AES, 16));
        assert_eq!(key.to_base64(), text);
        let sealed = key.seal(USE, &"hello".to_string(), &mut Rng::new(1)).unwrap();
        assert_eq!(sealed.len(), 32);
        assert_eq!(key.open::<String>(USE, &sealed).unwrap(), "hello");
        let mut other = key.clone();
        other.secret[3] ^= 1;
        assert!(other.open::<String>(USE, &sealed).is_err());
        assert!(key.open::<String>(USE, &sealed[..31]).is_err());
        assert!(key.open::<String>(USE, &[]).is_err());
    }

    /// Made by `ceph-authtool --gen-print-key` of stock 20.2.4.
    #[test]
    fn a_stock_key_of_the_newer_type_does_the_same() {
        let text = "AgBNnQFrrkQcLiAAV37aQU3/LBzhWvdnYkeaO5xhnFX4x10avOCvhxzpA0E=";
        let (key, rng) = (CryptoKey::from_base64(text).unwrap(), &mut Rng::new(1));
        assert_eq!((key.kind, key.secret.len()), (KeyType::AES256K, 32));
        assert_eq!(key.to_base64(), text);
        let sealed = key.seal(USE, &"hello".to_string(), rng).unwrap();
        assert_eq!(key.open::<String>(USE, &sealed).unwrap(), "hello");
        assert_ne!(key.seal(USE, &"hello".to_string(), rng).unwrap(), sealed);
        assert!(key.open::<String>(Usage::TICKET_BLOB, &sealed).is_err());
        assert_eq!(key.proof(1, 2), key.proof(1, 2));
        let short = CryptoKey { secret: vec![7; 31], ..key };
        assert!(matches!(CryptoKey::from_base64(&short.to_base64()), Err(KeyError::Short { need: 32, .. })));
        assert!(short.proof(1, 2).is_err());
    }
}
