//! Secret keys, and what is sealed with them.
//!
//! A key of type `aes` encrypts with AES-128-CBC, PKCS#7 padding and an initial vector that never changes. A sealed value is
//! encrypted behind a version byte and a magic number, which is how a reader knows that it has the right key:
//!
//! ```text
//! AES-128-CBC( u8 version = 1 | u64 0xff009cad8826aa55 | value )
//! ```
//!
//! That is all the integrity which type `aes` has (CVE-2025-30156). Type `aes256k` can be read and written but not used yet.

use crate::{Entropy, KeyError, base64};
use aes::Aes128;
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
    /// A new key of type `aes`.
    pub fn generate(now: UTime, entropy: &mut dyn Entropy) -> Self {
        let mut secret = vec![0; AES_KEY_LEN];
        entropy.fill(&mut secret);
        Self { kind: KeyType::AES, created: now, secret }
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
        match key.kind {
            KeyType::AES if key.secret.len() < AES_KEY_LEN => Err(KeyError::Short(key.secret.len())),
            KeyType::NONE | KeyType::AES | KeyType::AES256K => Ok(key),
            KeyType(other) => Err(KeyError::UnknownType(other)),
        }
    }

    /// The 16 bytes that AES-128 uses, or why this key can't be used.
    fn aes(&self) -> Result<&[u8; AES_KEY_LEN], KeyError> {
        match self.kind {
            KeyType::AES => {
                let head = self.secret.get(..AES_KEY_LEN).ok_or(KeyError::Short(self.secret.len()))?;
                Ok(head.try_into().expect("the slice has a key's length"))
            }
            KeyType::NONE => Err(KeyError::Empty),
            KeyType::AES256K => Err(KeyError::Aes256k),
            KeyType(other) => Err(KeyError::UnknownType(other)),
        }
    }
    pub fn encrypt(&self, plain: &[u8]) -> Result<Vec<u8>, KeyError> {
        Ok(cbc::Encryptor::<Aes128>::new(self.aes()?.into(), AES_IV.into()).encrypt_padded_vec::<Pkcs7>(plain))
    }
    pub fn decrypt(&self, sealed: &[u8]) -> Result<Vec<u8>, KeyError> {
        let cipher = cbc::Decryptor::<Aes128>::new(self.aes()?.into(), AES_IV.into());
        cipher.decrypt_padded_vec::<Pkcs7>(sealed).map_err(|_| KeyError::Decrypt)
    }

    /// Encrypts a value behind its version and magic.
    pub fn seal<T: Denc>(&self, value: &T) -> Result<Bytes, KeyError> {
        let mut e = Encoder::new(denc::ALL_FEATURES);
        e.u8(1);
        e.u64(MAGIC);
        value.encode(&mut e);
        Ok(self.encrypt(e.as_slice())?.into())
    }
    /// Decrypts a value and looks at its magic.
    pub fn open<T: Denc>(&self, sealed: &[u8]) -> Result<T, KeyError> {
        let mut d = Decoder::new(self.decrypt(sealed)?.into());
        // Whatever is wrong with the envelope, the key was most likely another one.
        d.u8().map_err(|_| KeyError::Decrypt)?;
        if d.u64().map_err(|_| KeyError::Decrypt)? != MAGIC {
            return Err(KeyError::Decrypt);
        }
        Ok(T::decode(&mut d)?)
    }
    /// Appends a length and the sealed value.
    pub fn seal_into<T: Denc>(&self, value: &T, e: &mut Encoder) -> Result<(), KeyError> {
        e.blob(&self.seal(value)?);
        Ok(())
    }
    /// Reads a length and the sealed value.
    pub fn open_from<T: Denc>(&self, d: &mut Decoder) -> Result<T, KeyError> {
        let sealed = d.blob()?;
        self.open(&sealed)
    }

    /// What proves that one knows the key: both challenges sealed, with their length in front, folded to 64 bits.
    pub fn proof(&self, server_challenge: u64, client_challenge: u64) -> Result<u64, KeyError> {
        let mut e = Encoder::new(0);
        self.seal_into(&(server_challenge, client_challenge), &mut e)?;
        let words = e.as_slice().chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("a word has 8 bytes")));
        Ok(words.fold(0, |acc, w| acc ^ w))
    }
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

    #[test]
    fn a_stock_key_comes_back_and_seals() {
        let text = "AQBMcgFrN+yCDxAAzvqrhEhGZxuB45rELl9uFw==";
        let key = CryptoKey::from_base64(text).unwrap();
        assert_eq!((key.kind, key.secret.len()), (KeyType::AES, 16));
        assert_eq!(key.to_base64(), text);
        let sealed = key.seal(&"hello".to_string()).unwrap();
        assert_eq!(sealed.len(), 32);
        assert_eq!(key.open::<String>(&sealed).unwrap(), "hello");
        let mut other = key.clone();
        other.secret[3] ^= 1;
        assert!(other.open::<String>(&sealed).is_err());
        assert!(key.open::<String>(&sealed[..31]).is_err());
        assert!(key.open::<String>(&[]).is_err());
    }

    #[test]
    fn aes256k_is_read_and_refused() {
        let key = CryptoKey { kind: KeyType::AES256K, created: UTime::ZERO, secret: vec![7; 32] };
        let again = CryptoKey::from_base64(&key.to_base64()).unwrap();
        assert_eq!(again, key);
        assert_eq!(again.proof(1, 2), Err(KeyError::Aes256k));
    }
}
