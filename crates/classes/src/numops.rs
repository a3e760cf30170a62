//! Class `numops`: arithmetic on numbers that stand as decimal text in an object's omap.
//!
//! Numbers are read as C reads decimal floating point (no hexadecimal) and written with ten significant digits.
//!
//! Source of the encodings, errnos and rules: Ceph 18.2 `src/cls/numops/*`.

use crate::registry::{Class, Method};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, done, errno};
use denc::{ByteStr, Bytes};
use types::errno::{EBADMSG, EINVAL, ENOENT};

pub static CLASS: Class = Class { name: "numops", families: &[&[Method::writes("add", add), Method::writes("mul", mul)]] };

const DIGITS: i32 = 10;

fn add(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    change(obj, &input, |value, by| value + by)
}

fn mul(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    change(obj, &input, |value, by| value * by)
}

/// Input: a key and a number as text. A key that is not there counts as zero.
fn change(obj: &mut dyn ObjectView, input: &Bytes, operation: fn(f64, f64) -> f64) -> ClsResult<ClsReply> {
    let mut input = Input::new(input);
    let (key, text): (ByteStr, ByteStr) = (input.get()?, input.get()?);
    let Some(operand) = parse(text.as_slice()) else { return errno(EINVAL) };
    let value = match obj.omap_val(key.as_slice()) {
        Err(e) if e.is(ENOENT) => 0.0,
        other => match parse(&other?) {
            Some(value) => value,
            None => return errno(EBADMSG),
        },
    };
    obj.omap_set(vec![(key, print(operation(value, operand)).into())])?;
    done()
}

/// The number that the whole text is; nothing at all is zero. Text ends at a NUL, blanks before the number don't count.
fn parse(text: &[u8]) -> Option<f64> {
    let text = text.split(|b| *b == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    std::str::from_utf8(text.trim_ascii_start()).ok()?.parse().ok()
}

/// C's `%.10g`.
fn print(value: f64) -> String {
    if !value.is_finite() {
        let sign = if value.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{}", if value.is_nan() { "nan" } else { "inf" });
    }
    let scientific = format!("{value:.*e}", (DIGITS - 1) as usize);
    let (mantissa, exponent) = scientific.split_once('e').expect("that is how the format ends");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if !(-4..DIGITS).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    trimmed(&format!("{value:.*}", (DIGITS - 1 - exponent) as usize)).into()
}

/// Without zeros at the end of a fraction.
fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_c_prints_them() {
        let cases = [
            (0.0, "0"),
            (-2.5, "-2.5"),
            (3.0, "3"),
            (1e9, "1000000000"),
            (1e10, "1e+10"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.0 / 3.0, "0.3333333333"),
            (123456789.125, "123456789.1"),
            (9999999999.9, "1e+10"),
            (-1.5e-300, "-1.5e-300"),
            (f64::INFINITY, "inf"),
        ];
        for (value, text) in cases {
            assert_eq!(print(value), text);
        }
    }

    #[test]
    fn text_is_read_as_c_reads_it() {
        let cases: &[(&[u8], Option<f64>)] =
            &[(b"", Some(0.0)), (b" 2", Some(2.0)), (b"1e3", Some(1000.0)), (b"+.5", Some(0.5)), (b"2\0x", Some(2.0)), (b"2x", None)];
        for (text, value) in cases {
            assert_eq!(parse(text), *value, "{}", text.escape_ascii());
        }
    }
}
