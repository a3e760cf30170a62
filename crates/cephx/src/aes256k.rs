//! Encryption of type `aes256k`: AES256-CTS-HMAC-SHA384-192 of RFC 8009, with the tag over what is encrypted.
//!
//! ```text
//! Ke, Ki = the first 32 and 24 bytes of HMAC-SHA384(secret, u32be 1 | u32be usage | 0xaa or 0x55 | 0 | u32be bits)
//! sealed = c | the first 24 bytes of HMAC-SHA384(Ki, 16 zeros | c)      with c = AES-256-CBC-CTS(Ke, 16 chance bytes | plain)
//! ```
//!
//! CTS is the variant that always swaps the last two blocks (CS3), and the initial vector is zero: chance in front of the plain bytes
//! stands in for it. Holds no key's type and no envelope: those are [`crate::key`]'s.
//!
//! Sources of the facts: RFC 8009 (its test vectors are below) and RFC 3962; that Ceph uses it as it is: keys and logins of stock 20.2.4.

use crate::{Entropy, KeyError};
use aes::Aes256;
use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aws_lc_rs::hmac;

pub const KEY_LEN: usize = 32;
const BLOCK: usize = 16;
const TAG: usize = 24;
type Block = [u8; BLOCK];

/// A key for `usage`: `bits` of it.
fn derive(secret: &[u8], usage: u32, kind: u8, bits: u32) -> [u8; 48] {
    let mut text = [0; 14];
    text[3] = 1;
    text[4..8].copy_from_slice(&usage.to_be_bytes());
    text[8] = kind;
    text[10..].copy_from_slice(&bits.to_be_bytes());
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA384, secret), &text);
    tag.as_ref().try_into().expect("SHA-384 has 48 bytes")
}
fn cipher(secret: &[u8], usage: u32) -> Aes256 {
    let key = derive(secret, usage, 0xaa, 256);
    Aes256::new_from_slice(&key[..KEY_LEN]).expect("the slice has a key's length")
}
fn tag(secret: &[u8], usage: u32, sealed: &[u8]) -> hmac::Tag {
    let key = derive(secret, usage, 0x55, 192);
    let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA384, &key[..TAG]));
    mac.update(&[0; BLOCK]);
    mac.update(sealed);
    mac.sign()
}

pub fn seal(secret: &[u8], usage: u32, plain: &[u8], entropy: &mut dyn Entropy) -> Vec<u8> {
    let mut chance = [0; BLOCK];
    entropy.fill(&mut chance);
    seal_with(secret, usage, plain, &chance)
}
fn seal_with(secret: &[u8], usage: u32, plain: &[u8], chance: &Block) -> Vec<u8> {
    let mut out = Vec::with_capacity(BLOCK + plain.len() + BLOCK + TAG);
    out.extend_from_slice(chance);
    out.extend_from_slice(plain);
    encrypt_cts(&cipher(secret, usage), &mut out);
    let tag = tag(secret, usage, &out);
    out.extend_from_slice(&tag.as_ref()[..TAG]);
    out
}
pub fn open(secret: &[u8], usage: u32, sealed: &[u8]) -> Result<Vec<u8>, KeyError> {
    let body = sealed.len().checked_sub(TAG).filter(|n| *n >= BLOCK).ok_or(KeyError::Decrypt)?;
    let (body, theirs) = sealed.split_at(body);
    let ours = tag(secret, usage, body);
    aws_lc_rs::constant_time::verify_slices_are_equal(&ours.as_ref()[..TAG], theirs).map_err(|_| KeyError::Decrypt)?;
    let mut out = body.to_vec();
    decrypt_cts(&cipher(secret, usage), &mut out);
    out.drain(..BLOCK);
    Ok(out)
}

fn xor(a: &mut [u8], b: &[u8]) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a ^= b);
}
/// Encrypts one block or more in place; the length stays.
fn encrypt_cts(aes: &Aes256, data: &mut Vec<u8>) {
    let len = data.len();
    assert!(len >= BLOCK, "chance bytes come first");
    data.resize(len.next_multiple_of(BLOCK), 0);
    let mut last = [0; BLOCK];
    for block in data.chunks_exact_mut(BLOCK) {
        xor(block, &last);
        aes.encrypt_block(Array::from_mut_slice_checked(block));
        last.copy_from_slice(block);
    }
    let whole = data.len();
    if whole > BLOCK {
        let (before, end) = data[whole - 2 * BLOCK..].split_at_mut(BLOCK);
        before.swap_with_slice(end);
    }
    data.truncate(len);
}
/// The way back.
fn decrypt_cts(aes: &Aes256, data: &mut Vec<u8>) {
    let len = data.len();
    if len > BLOCK {
        // The block that was stolen from: decrypted, it has the end of the plain bytes and, behind them, what the last block lacks.
        let last = (len - 1) % BLOCK + 1;
        let swapped = len - last - BLOCK;
        let mut stolen: Block = data[swapped..swapped + BLOCK].try_into().expect("a block");
        let end = stolen;
        aes.decrypt_block(Array::from_mut_slice_checked(&mut stolen));
        stolen[..last].copy_from_slice(&data[len - last..]);
        data.truncate(swapped);
        data.extend_from_slice(&stolen);
        data.extend_from_slice(&end);
    }
    let mut before = [0; BLOCK];
    for block in data.chunks_exact_mut(BLOCK) {
        let sealed: Block = (&*block).try_into().expect("a block");
        aes.decrypt_block(Array::from_mut_slice_checked(block));
        xor(block, &before);
        before = sealed;
    }
    data.truncate(len);
}

trait Blocks {
    fn from_mut_slice_checked(slice: &mut [u8]) -> &mut Self;
}
impl Blocks for Array<u8, aes::cipher::consts::U16> {
    fn from_mut_slice_checked(slice: &mut [u8]) -> &mut Self {
        slice.try_into().expect("a block has 16 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
    }

    /// Appendix A of RFC 8009.
    #[test]
    fn the_vectors_of_the_rfc() {
        let base = hex("6D404D37FAF79F9DF0D33568D320669800EB4836472EA8A026D16B7182460C52");
        assert_eq!(derive(&base, 2, 0xaa, 256)[..32], hex("56AB22BEE63D82D7BC5227F6773F8EA7A5EB1C825160C38312980C442E5C7E49"));
        assert_eq!(derive(&base, 2, 0x55, 192)[..24], hex("69B16514E3CD8E56B82010D5C73012B622C4D00FFC23ED1F"));
        let rows = [
            ("F764E9FA15C276478B2C7D0C4E5F58E4", "", "41F53FA5BFE7026D91FAF9BE959195A058707273A96A40F0A01960621AC612748B9BBFBE7EB4CE3C"),
            (
                "B80D3251C1F6471494256FFE712D0B9A",
                "000102030405",
                "4ED7B37C2BCAC8F74F23C1CF07E62BC7B75FB3F637B9F559C7F664F69EAB7B6092237526EA0D1F61CB20D69D10F2",
            ),
            (
                "53BF8A0D105265D4E276428624CE5E63",
                "000102030405060708090A0B0C0D0E0F",
                "BC47FFEC7998EB91E8115CF8D19DAC4BBBE2E163E87DD37F49BECA92027764F68CF51F14D798C2273F35DF574D1F932E40C4FF255B36A266",
            ),
            (
                "763E65367E864F02F55153C7E3B58AF1",
                "000102030405060708090A0B0C0D0E0F1011121314",
                "40013E2DF58E8751957D2878BCD2D6FE101CCFD556CB1EAE79DB3C3EE86429F2B2A602AC86FEF6ECB647D6295FAE077A1FEB517508D2C16B4192E01F62",
            ),
        ];
        for (chance, plain, sealed) in rows {
            let (plain, sealed) = (hex(plain), hex(sealed));
            assert_eq!(seal_with(&base, 2, &plain, &hex(chance).try_into().unwrap()), sealed);
            assert_eq!(open(&base, 2, &sealed).unwrap(), plain);
        }
    }

    #[test]
    fn every_byte_is_under_the_tag_and_every_usage_has_its_own() {
        let rng = &mut Rng::new(7);
        for len in 0..70 {
            let plain = vec![len as u8; len];
            let sealed = seal(&[3; KEY_LEN], 0x30, &plain, rng);
            assert_eq!(open(&[3; KEY_LEN], 0x30, &sealed).unwrap(), plain);
            assert_ne!(seal(&[3; KEY_LEN], 0x30, &plain, rng), sealed);
            assert_eq!(open(&[3; KEY_LEN], 0x10, &sealed), Err(KeyError::Decrypt));
            for at in 0..sealed.len() {
                let mut bad = sealed.clone();
                bad[at] ^= 1;
                assert_eq!(open(&[3; KEY_LEN], 0x30, &bad), Err(KeyError::Decrypt));
            }
            for short in 0..sealed.len() {
                assert_eq!(open(&[3; KEY_LEN], 0x30, &sealed[..short]), Err(KeyError::Decrypt));
            }
        }
    }
}
