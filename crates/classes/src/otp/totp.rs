//! Time-based one-time passwords of RFC 6238, with HMAC-SHA-1.

use super::records::Secret;
use super::sha1::{BLOCK, sha1};
use types::UTime;

/// Wider windows are cut: each step costs a hash.
const WINDOW_MAX: u64 = 100;

/// The step whose password this is, counted as radosgw's clients are used to: also a step before the present one counts as so many behind
/// it. None if it is none within the window.
pub fn matching_step(secret: &Secret, now: UTime, password: &[u8]) -> Option<u64> {
    let since_start = u64::try_from(i64::from(now.sec) - i64::from(secret.start_s)).ok()?;
    let present = since_start.checked_div(secret.step_s.into())?;
    (6..=8).contains(&password.len()).then_some(())?;
    let is_of = |step: u64| code(&secret.bytes, step, password.len() as u32).as_bytes() == password;
    (0..=u64::from(secret.window).min(WINDOW_MAX))
        .find(|away| is_of(present + away) || present.checked_sub(*away).is_some_and(is_of))
        .map(|away| present + away)
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 20] {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..20].copy_from_slice(&sha1(key))
    } else {
        block[..key.len()].copy_from_slice(key)
    }
    let inner = sha1(&[&block.map(|b| b ^ 0x36)[..], message].concat());
    sha1(&[&block.map(|b| b ^ 0x5c)[..], &inner].concat())
}

/// The password of a step (RFC 4226, 5.3).
fn code(key: &[u8], step: u64, digits: u32) -> String {
    let hash = hmac(key, &step.to_be_bytes());
    let at = usize::from(hash[19] & 15);
    let number = u32::from_be_bytes([hash[at] & 0x7f, hash[at + 1], hash[at + 2], hash[at + 3]]);
    format!("{:0width$}", number % 10_u32.pow(digits), width = digits as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4226, appendix D, and RFC 6238, appendix B.
    #[test]
    fn passwords_are_those_of_the_rfcs() {
        let key = b"12345678901234567890";
        for (step, password) in [(0, "755224"), (1, "287082"), (9, "520489")] {
            assert_eq!(code(key, step, 6), password);
        }
        for (time, password) in [(59, "94287082"), (1111111109, "07081804"), (20000000000_u64, "65353130")] {
            assert_eq!(code(key, time / 30, 8), password);
        }
    }

    /// RFC 2202, cases 2 and 6.
    #[test]
    fn hmac_is_that_of_the_rfc() {
        assert_eq!(hmac(b"Jefe", b"what do ya want for nothing?")[..4], [0xef, 0xfc, 0xdf, 0x6a]);
        assert_eq!(hmac(&[0xaa; 80], b"Test Using Larger Than Block-Size Key - Hash Key First")[..4], [0xaa, 0x4a, 0xe5, 0xe1]);
    }
}
