//! Sizes as people write them: `4096`, `4K`, `1.5G`, `64MiB`, `1_G`. The one parser of units for command lines, ceph.conf and options.
//!
//! A suffix is K, M, G, T, P or E, in either case, with `i`, `B` or `iB` behind it or not. Which multiples it means is for the asker to say; `Ki` is always
//! 1024.

/// The digits, the power of the unit (K is 1), and true where the unit is binary by itself (`Ki`).
pub fn split(text: &str) -> Option<(&str, u32, bool)> {
    let text = text.trim();
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(at);
    let digits = digits.trim_end_matches(['_', ' ']);
    let unit = unit.trim_end_matches('B');
    let (unit, is_binary) = unit.strip_suffix('i').map_or((unit, false), |unit| (unit, true));
    let power = match unit.to_ascii_uppercase().as_str() {
        "" if !is_binary => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        "E" => 6,
        _ => return None,
    };
    Some((digits, power, is_binary))
}

/// Whole bytes, units of 1024.
pub fn bytes(text: &str) -> Option<u64> {
    let (digits, power, _) = split(text)?;
    digits.parse::<u64>().ok()?.checked_mul(1024_u64.checked_pow(power)?)
}

/// A number that may have a fraction, units of 1024.
pub fn number(text: &str) -> Option<f64> {
    let (digits, power, _) = split(text)?;
    digits.parse::<f64>().ok().filter(|n| n.is_finite()).map(|n| n * 1024_f64.powi(power as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, n) in [("4096", 4096), ("4K", 4096), ("4k", 4096), ("1_G", 1 << 30), ("64MiB", 64 << 20), ("2 TB", 2 << 40), (" 0 ", 0)]
        {
            assert_eq!(bytes(text), Some(n), "{text}");
        }
        for text in ["", "G", "4X", "4KK", "-1", "1.5G", "16777216T", "4i"] {
            assert_eq!(bytes(text), None, "{text}");
        }
        assert_eq!((number("1.5K"), number("-1"), number("inf")), (Some(1536.0), Some(-1.0), None));
        assert_eq!((split("4Ki"), split("4K")), (Some(("4", 1, true)), Some(("4", 1, false))));
    }
}
