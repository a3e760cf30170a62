//! The types of parameters: what a word must look like, and the JSON value that it becomes.

use serde_json::{Value, json};
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// What a parameter takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Int(RangeInclusive<i64>),
    Float(RangeInclusive<f64>),
    /// With the characters that it may have, as a class of a regular expression.
    Text(Option<String>),
    Choices(Vec<String>),
    Bool,
    PgId,
    /// `osd.1`, `mon.a`, `mgr`.
    Name,
    /// `1`, `osd.1`.
    OsdName,
    /// An address with a port and a nonce, if it has them.
    Addr,
    Uuid,
    /// A fragment of a directory: `0x1/3`.
    Fragment,
    /// Any text: the name of a pool, an object, a file.
    Any,
}

/// `lowest|highest` or `lowest`.
fn range<T: std::str::FromStr + Copy>(text: Option<&str>, min: T, max: T) -> RangeInclusive<T> {
    let Some(text) = text else { return min..=max };
    let (low, high) = text.split_once('|').unwrap_or((text, ""));
    low.trim().parse().unwrap_or(min)..=high.trim().parse().unwrap_or(max)
}

/// A decimal number, or a hexadecimal one behind `0x`.
fn int(word: &str) -> Option<i64> {
    let (sign, digits) = word.strip_prefix('-').map_or((1, word.strip_prefix('+').unwrap_or(word)), |rest| (-1, rest));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(sign * value)
}

/// Whether a class of characters like `[A-Za-z0-9-_. ]` has this one.
fn in_class(class: &str, c: char) -> bool {
    let set: Vec<char> = class.trim_start_matches('[').trim_end_matches(']').chars().collect();
    let mut i = 0;
    while i < set.len() {
        if set[i] == '\\' && i + 1 < set.len() {
            i += 1;
        }
        match (set.get(i + 1), set.get(i + 2)) {
            (Some('-'), Some(last)) if set[i] <= *last && set[i].is_alphanumeric() => {
                if (set[i]..=*last).contains(&c) {
                    return true;
                }
                i += 3;
            }
            _ => {
                if set[i] == c {
                    return true;
                }
                i += 1;
            }
        }
    }
    false
}

/// An address, bracketed or not, with `:port` and `/nonce` or without.
fn is_addr(word: &str) -> bool {
    let (word, nonce) = word.split_once('/').map_or((word, None), |(word, nonce)| (word, Some(nonce)));
    let word = ["v1:", "v2:", "any:"].iter().find_map(|p| word.strip_prefix(p)).unwrap_or(word);
    let bare = word.trim_start_matches('[').trim_end_matches(']');
    let is_host = bare.parse::<IpAddr>().is_ok() || word.parse::<std::net::SocketAddr>().is_ok();
    is_host && nonce.is_none_or(|n| n.parse::<u32>().is_ok())
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36 && word.char_indices().all(|(i, c)| if [8, 13, 18, 23].contains(&i) { c == '-' } else { c.is_ascii_hexdigit() })
}

fn is_pgid(word: &str) -> bool {
    word.split_once('.').is_some_and(|(pool, seed)| pool.parse::<i64>().is_ok() && u32::from_str_radix(seed, 16).is_ok())
}

fn is_name(word: &str) -> bool {
    match word.split_once('.') {
        Some(("osd", id)) => id == "*" || id.parse::<u32>().is_ok(),
        Some((kind, _)) => ["mon", "client", "mds", "mgr"].contains(&kind),
        None => ["*", "mgr", "mon"].contains(&word),
    }
}

impl Kind {
    /// By the type's name and the other fields of its description.
    pub(super) fn of<'a>(name: &str, field: &impl Fn(&str) -> Option<&'a str>) -> Self {
        match name {
            "CephInt" => Self::Int(range(field("range"), i64::MIN, i64::MAX)),
            "CephFloat" => Self::Float(range(field("range"), f64::NEG_INFINITY, f64::INFINITY)),
            "CephString" => Self::Text(field("goodchars").map(String::from)),
            "CephChoices" => Self::Choices(field("strings").unwrap_or_default().split('|').map(String::from).collect()),
            "CephBool" => Self::Bool,
            "CephPgid" => Self::PgId,
            "CephName" => Self::Name,
            "CephOsdName" => Self::OsdName,
            "CephEntityAddr" | "CephIPAddr" => Self::Addr,
            "CephUUID" => Self::Uuid,
            "CephFragment" => Self::Fragment,
            _ => Self::Any,
        }
    }

    /// The value of a word, or what is wrong with it.
    pub fn value(&self, word: &str) -> Result<Value, String> {
        let text = |good: bool, what: &str| if good { Ok(json!(word)) } else { Err(format!("{word}: {what}")) };
        match self {
            Self::Int(range) => {
                let n = int(word).ok_or_else(|| format!("{word} doesn't represent an int"))?;
                if range.contains(&n) { Ok(json!(n)) } else { Err(format!("{n} not in range {}", bounds(range))) }
            }
            Self::Float(range) => {
                let n: f64 = word.parse().map_err(|_| format!("{word} doesn't represent a float"))?;
                if range.contains(&n) { Ok(json!(n)) } else { Err(format!("{n} not in range {}", bounds(range))) }
            }
            Self::Text(class) => {
                let bad: String = class.iter().flat_map(|class| word.chars().filter(|c| !in_class(class, *c))).collect();
                if bad.is_empty() { Ok(json!(word)) } else { Err(format!("invalid chars {bad} in {word}")) }
            }
            Self::Choices(all) => {
                if all.iter().any(|s| s == word) {
                    Ok(json!(word))
                } else {
                    Err(format!("{word} not in {}", all.join("|")))
                }
            }
            Self::Bool => match word.to_ascii_lowercase().as_str() {
                "true" | "1" => Ok(json!(true)),
                "false" | "0" => Ok(json!(false)),
                _ => Err(format!("{word} not one of 'true', 'false'")),
            },
            Self::PgId => text(is_pgid(word), "a placement group is POOL.SEED, as 1.2f"),
            Self::Name => text(is_name(word), "a name is TYPE.ID, as osd.0"),
            Self::OsdName => match word.strip_prefix("osd.").unwrap_or(word) {
                "*" => Ok(json!("*")),
                id => id.parse::<u32>().map(|n| json!(n)).map_err(|_| format!("osd id {id} not integer")),
            },
            Self::Addr => text(is_addr(word), "not an address"),
            Self::Uuid => text(is_uuid(word), "not a UUID"),
            Self::Fragment => text(word.contains('/'), "no /"),
            Self::Any => Ok(json!(word)),
        }
    }

    /// What stands for the value where a parameter is missing: `<int>`, `<poolname>`.
    pub fn shown(&self) -> String {
        match self {
            Self::Int(_) => "<int>".into(),
            Self::Float(_) => "<float>".into(),
            Self::Text(Some(class)) => format!("<string(goodchars {class})>"),
            Self::Text(None) => "<string>".into(),
            Self::Choices(all) if all.len() == 1 => all[0].clone(),
            Self::Choices(all) => all.join("|"),
            Self::Bool => "<bool>".into(),
            Self::PgId => "<pgid>".into(),
            Self::Name => "<name (type.id)>".into(),
            Self::OsdName => "<osdname (id|osd.id)>".into(),
            Self::Addr => "<EntityAddr>".into(),
            Self::Uuid => "<uuid>".into(),
            Self::Fragment => "<fragment>".into(),
            Self::Any => "<name>".into(),
        }
    }
}

fn bounds<T: std::fmt::Display>(range: &RangeInclusive<T>) -> String {
    format!("[{}, {}]", range.start(), range.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_values_or_say_what_is_wrong() {
        let kind = |name: &str, extra: Option<(&'static str, &'static str)>| {
            Kind::of(name, &move |key: &str| extra.filter(|(k, _)| *k == key).map(|(_, v)| v))
        };
        assert_eq!(kind("CephInt", None).value("0x10"), Ok(json!(16)));
        assert_eq!(kind("CephInt", Some(("range", "0|12"))).value("12"), Ok(json!(12)));
        assert!(kind("CephInt", Some(("range", "0|12"))).value("13").is_err());
        assert!(kind("CephInt", Some(("range", "1"))).value("0").is_err());
        assert_eq!(kind("CephFloat", None).value("0.5"), Ok(json!(0.5)));
        assert!(kind("CephFloat", Some(("range", "0.0|1.0"))).value("1.5").is_err());
        let named = kind("CephString", Some(("goodchars", "[A-Za-z0-9-_. ]")));
        assert_eq!((named.value("a-B_9. c"), named.value("a/b").is_err()), (Ok(json!("a-B_9. c")), true));
        assert_eq!(kind("CephOsdName", None).value("osd.3"), Ok(json!(3)));
        assert!(kind("CephOsdName", None).value("mon.a").is_err());
        assert_eq!(kind("CephBool", None).value("TRUE"), Ok(json!(true)));
        for good in ["1.2f", "3.0"] {
            assert_eq!(kind("CephPgid", None).value(good), Ok(json!(good)));
        }
        assert!(kind("CephPgid", None).value("rbd").is_err());
        for good in ["10.0.0.1", "10.0.0.1:6789", "10.0.0.1:6789/12", "[::1]:3300/7", "v2:127.0.0.1:3300/0"] {
            assert_eq!(kind("CephEntityAddr", None).value(good), Ok(json!(good)));
        }
        assert!(kind("CephEntityAddr", None).value("host").is_err());
        assert!(kind("CephUUID", None).value("f3dfb6a5-6e3f-4b9d-8f3e-0d2f4a1b7c11").is_ok());
    }
}
