//! What is kept of a secret: itself, and the attempts of the present step.

use super::totp;
use crate::rest::{Rest, kept};
use denc::{ByteStr, Bytes};
use types::UTime;

const SEED_BASE32: u8 = 2;

const UNKNOWN: u8 = 0;
const SUCCESS: u8 = 1;
const FAIL: u8 = 2;

/// More attempts in one step are not looked at.
const ATTEMPTS_PER_STEP: usize = 5;

/// `otp_info_t`.
#[derive(Debug, Clone, Default)]
pub struct Secret {
    /// 2, time-based, is the only one that clients write.
    pub kind: u8,
    pub id: ByteStr,
    pub seed: ByteStr,
    /// How the seed is written: 2 for base32, all else hexadecimal.
    pub seed_kind: u8,
    /// The seed's bytes, worked out here.
    pub bytes: Bytes,
    /// Where counting starts, seconds since 1970.
    pub start_s: i32,
    pub step_s: u32,
    /// Passwords of so many steps before and behind the present one are right too.
    pub window: u32,
    pub rest: Rest,
}
kept!(Secret, v 1, compat 1, { kind, id, seed, seed_kind, bytes, start_s, step_s, window });

impl Secret {
    /// The seed's bytes; None if it is not written as its kind says.
    pub fn parsed(&self) -> Option<Vec<u8>> {
        if self.seed_kind == SEED_BASE32 { base32(self.seed.as_slice()) } else { hex(self.seed.as_slice()) }
    }
}

fn hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    let (pairs, rest) = text.as_chunks::<2>();
    rest.is_empty().then_some(())?;
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// Small letters, blanks between the letters and a missing padding are all right.
fn base32(text: &[u8]) -> Option<Vec<u8>> {
    let letters: Vec<u8> = text.iter().copied().filter(|b| *b != b' ').collect();
    let end = letters.iter().rposition(|b| *b != b'=').map_or(0, |at| at + 1);
    let (mut out, mut held, mut bits) = (Vec::new(), 0_u32, 0);
    for b in &letters[..end] {
        let value = match b.to_ascii_uppercase() {
            b @ b'A'..=b'Z' => b - b'A',
            b @ b'2'..=b'7' => b - b'2' + 26,
            _ => return None,
        };
        held = held << 5 | u32::from(value);
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    Some(out)
}

/// `otp_check_t`.
#[derive(Debug, Clone, Default)]
pub struct Attempt {
    pub token: ByteStr,
    pub at: UTime,
    pub outcome: u8,
    pub rest: Rest,
}
kept!(Attempt, v 1, compat 1, { token, at, outcome });

/// `otp_instance`.
#[derive(Debug, Clone, Default)]
pub struct Instance {
    pub secret: Secret,
    /// Oldest first.
    pub attempts: Vec<Attempt>,
    /// The step of the last password that was right: it and older ones are not right again.
    pub last_success: u64,
    pub rest: Rest,
}
kept!(Instance, v 1, compat 1, { secret, attempts, last_success });

impl Instance {
    /// Attempts of the last step.
    fn recent(&self, now: UTime) -> &[Attempt] {
        let start = now.wall_ns().saturating_sub(u64::from(self.secret.step_s) * 1_000_000_000);
        let old = self.attempts.iter().take_while(|a| a.at.wall_ns() < start).count();
        &self.attempts[old..]
    }
    /// Tries a password. False if there were too many: then nothing has changed.
    pub fn attempt(&mut self, now: UTime, token: ByteStr, password: &[u8]) -> bool {
        let mut attempts = self.recent(now).to_vec();
        if attempts.len() >= ATTEMPTS_PER_STEP {
            return false;
        }
        let outcome = match totp::matching_step(&self.secret, now, password) {
            Some(step) if step > self.last_success => {
                self.last_success = step;
                SUCCESS
            }
            _ => FAIL,
        };
        attempts.push(Attempt { token, at: now, outcome, rest: Rest::default() });
        self.attempts = attempts;
        true
    }
    /// What came out of the attempt of that name.
    pub fn outcome(&self, now: UTime, token: ByteStr) -> Attempt {
        let found = self.recent(now).iter().rfind(|a| a.token == token).cloned();
        found.unwrap_or(Attempt { token, at: now, outcome: UNKNOWN, rest: Rest::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read() {
        assert_eq!(base32(b"MZXW6YTBOI======").unwrap(), b"foobar");
        assert_eq!(base32(b"mzxw 6ytb oi").unwrap(), b"foobar");
        assert_eq!(base32(b"MZXW1"), None);
        assert_eq!(hex(b"00fF").unwrap(), [0, 0xff]);
        assert_eq!((hex(b"0"), hex(b"0g")), (None, None));
    }

    #[test]
    fn a_password_is_right_once_and_five_attempts_are_all() {
        let secret = Secret {
            kind: 2,
            id: "id".into(),
            seed: ByteStr::new(),
            seed_kind: 1,
            bytes: Bytes::from_static(b"12345678901234567890"),
            start_s: 0,
            step_s: 30,
            window: 2,
            rest: Rest::default(),
        };
        let mut instance = Instance { secret, attempts: Vec::new(), last_success: 0, rest: Rest::default() };
        // RFC 6238, appendix B.
        let now = UTime { sec: 1111111109, nsec: 0 };
        for (token, password, outcome) in [("a", "07081804", SUCCESS), ("b", "07081804", FAIL), ("c", "12345678", FAIL)] {
            assert!(instance.attempt(now, token.into(), password.as_bytes()));
            assert_eq!(instance.outcome(now, token.into()).outcome, outcome);
        }
        assert!(instance.attempt(now, "d".into(), b"") && instance.attempt(now, "e".into(), b"1"));
        assert!(!instance.attempt(now, "f".into(), b"07081804"));
        assert_eq!(instance.outcome(now, "f".into()).outcome, UNKNOWN);
        let later = UTime { sec: now.sec + 31, nsec: 0 };
        assert!(instance.attempt(later, "g".into(), b"00000000"));
    }
}
