//! Values of axes, points of their product, and filters over points such as `store=mem,depth=256`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One value of an axis.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Flag(bool),
    Number(i64),
    Text(String),
}

impl Value {
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// One value for each axis.
pub type Point = BTreeMap<String, Value>;

/// `depth=1, op=write`: how a point is printed.
pub fn show(point: &Point) -> String {
    point.iter().map(|(axis, value)| format!("{axis}={value}")).collect::<Vec<_>>().join(", ")
}

/// One condition: an axis has a value, or has another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    axis: String,
    is: bool,
    value: String,
}

/// Conditions on points: all of them must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter(Vec<Term>);

impl Filter {
    /// Of `axis=value,axis!=value`; an empty text holds everywhere.
    pub fn parse(text: &str) -> Result<Self, String> {
        let term = |t: &str| {
            let (axis, is, value) = match (t.split_once("!="), t.split_once('=')) {
                (Some((axis, value)), _) => (axis.trim(), false, value.trim()),
                (None, Some((axis, value))) => (axis.trim(), true, value.trim()),
                (None, None) => ("", true, ""),
            };
            match axis.is_empty() || value.is_empty() {
                true => Err(format!("`{t}` is no condition: axis=value or axis!=value is wanted")),
                false => Ok(Term { axis: axis.into(), is, value: value.into() }),
            }
        };
        text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(term).collect::<Result<_, _>>().map(Self)
    }
    /// True if the point fulfils each condition; an axis that it lacks is not met.
    pub fn holds(&self, point: &Point) -> bool {
        self.0.iter().all(|t| point.get(&t.axis).is_some_and(|v| (v.to_string() == t.value) == t.is))
    }
    /// The same, but conditions on axes other than the point's are ignored.
    pub fn allows(&self, point: &Point) -> bool {
        self.0.iter().all(|t| point.get(&t.axis).is_none_or(|v| (v.to_string() == t.value) == t.is))
    }
    /// The value that an axis must have.
    pub fn get(&self, axis: &str) -> Option<&str> {
        self.0.iter().find(|t| t.is && t.axis == axis).map(|t| t.value.as_str())
    }
}

/// Bytes: `4096`, `4 KiB`, `4k`, `2G`. Suffixes are powers of 1024, with or without `iB`; `kB`, `MB` and `GB` are not taken, since they mean
/// either.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().map_err(|_| format!("`{text}` is no size: a number with K, M, G or T is wanted"))?;
    let shift = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        other => return Err(format!("`{text}`: {other} is no unit: KiB, MiB, GiB or TiB is wanted")),
    };
    number.checked_mul(1 << shift).filter(|n| *n > 0).ok_or_else(|| format!("`{text}` is 0 or too much"))
}

/// `4 KiB`: the largest unit that leaves no rest.
pub fn show_size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift)) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024_and_nothing_vague() {
        assert_eq!(parse_size("4 KiB"), Ok(4096));
        assert_eq!(parse_size("4k"), Ok(4096));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        for bad in ["", "k", "4 kB", "1 GB", "0", "-1", "99999999 TiB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
        assert_eq!(show_size(4096), "4 KiB");
        assert_eq!(show_size(4097), "4097 B");
    }

    #[test]
    fn a_filter_wants_each_of_its_values() {
        let point: Point = [("depth".to_string(), Value::Number(1)), ("op".into(), Value::Text("write".into()))].into();
        assert!(Filter::parse("op=write, depth=1").unwrap().holds(&point));
        assert!(!Filter::parse("op=read").unwrap().holds(&point));
        assert!(!Filter::parse("store=mem").unwrap().holds(&point));
        assert!(Filter::parse("store=mem").unwrap().allows(&point));
        assert!(Filter::parse("op!=read").unwrap().holds(&point) && !Filter::parse("op!=write").unwrap().allows(&point));
        assert!(Filter::parse("op").is_err() && Filter::parse("op!=").is_err());
    }
}
