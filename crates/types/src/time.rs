//! `utime_t`: wall-clock seconds and nanoseconds, 32 bits each.

use denc::{Decoder, Denc, DencError, Encoder, Row};
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UTime {
    pub sec: u32,
    pub nsec: u32,
}
impl Denc for UTime {
    fn encode(&self, e: &mut Encoder) {
        Row::<8>::new().put_u32(self.sec).put_u32(self.nsec).encode(e);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let mut row = d.row::<8>()?;
        Ok(Self { sec: row.u32(), nsec: row.u32() })
    }
}

impl UTime {
    pub const ZERO: UTime = UTime { sec: 0, nsec: 0 };

    /// From nanoseconds since 1970. A time that the form can't hold (from 2106 on) is its last one.
    pub fn from_wall_ns(ns: u64) -> Self {
        Self { sec: (ns / 1_000_000_000).min(u64::from(u32::MAX)) as u32, nsec: (ns % 1_000_000_000) as u32 }
    }
    pub fn wall_ns(self) -> u64 {
        self.sec as u64 * 1_000_000_000 + self.nsec as u64
    }
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
    pub fn as_secs_f64(self) -> f64 {
        self.sec as f64 + self.nsec as f64 * 1e-9
    }
    /// The basic form of ISO 8601, in whole seconds of UTC: `20261121T100700Z`.
    pub fn basic_iso(self) -> String {
        let ((y, m, d), [hour, minute, second]) = self.date_and_time();
        format!("{y:04}{m:02}{d:02}T{hour:02}{minute:02}{second:02}Z")
    }
    /// Year, month and day; hour, minute and second.
    fn date_and_time(self) -> ((i64, u32, u32), [u32; 3]) {
        let secs = self.sec % 86400;
        (civil((self.sec / 86400).into()), [secs / 3600, secs / 60 % 60, secs % 60])
    }
}

/// As Ceph prints a time in JSON: `2026-11-21T10:07:00.123456+0000`; times before 2004 or so are spans and print as seconds.
impl fmt::Display for UTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.nsec / 1000;
        if self.sec < 60 * 60 * 24 * 365 * 10 {
            return write!(f, "{}.{micros:06}", self.sec);
        }
        let ((y, m, d), [hour, minute, second]) = self.date_and_time();
        write!(f, "{y:04}-{m:02}-{d:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+0000")
    }
}

/// Year, month and day of a day counted from 1970 (Gregorian; the year is taken to start in March, so that leap days end it).
fn civil(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month + 2) / 5 + 1) as u32;
    let month = if month < 10 { month + 3 } else { month - 9 } as u32;
    (year_of_era + era * 400 + (month <= 2) as i64, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_dates_and_spans() {
        assert_eq!(UTime { sec: 1_709_164_800, nsec: 5000 }.to_string(), "2024-02-29T00:00:00.000005+0000");
        assert_eq!(UTime::ZERO.to_string(), "0.000000");
        assert_eq!(UTime::from_wall_ns(u64::MAX).sec, u32::MAX, "never a time of the past");
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (sec, at) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (4_107_542_400, "21000301T000000Z"),
            (1_796_000_461, "20261130T010101Z"),
        ] {
            assert_eq!(UTime { sec, nsec: 0 }.basic_iso(), at);
        }
    }
}
