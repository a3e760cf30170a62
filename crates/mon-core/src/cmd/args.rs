//! The arguments of a command as a client sent them: a JSON object, read leniently, since scripts send numbers as texts and back.

use super::{CmdError, sig::Signature};
use serde_json::{Map, Value};
use types::{PgId, Uuid, errno};

/// A request's parameters by name.
#[derive(Debug, Clone, Default)]
pub struct Args(pub Map<String, Value>);

impl Args {
    /// Parses the words of an MMonCommand or MCommand: they are joined to one JSON object.
    pub fn parse(words: &[String]) -> Result<Self, CmdError> {
        let text = words.concat();
        match serde_json::from_str(&text) {
            Ok(Value::Object(map)) if map.contains_key("prefix") => Ok(Self(map)),
            Ok(Value::Object(_)) => Err(CmdError::new(errno::EINVAL, "command has no prefix")),
            // Ceph's clients before JSON sent plain words; none that we serve does.
            _ => Err(CmdError::new(errno::EINVAL, format!("command not understood: {}", text.chars().take(200).collect::<String>()))),
        }
    }
    pub fn prefix(&self) -> &str {
        self.0.get("prefix").and_then(Value::as_str).unwrap_or_default()
    }
    /// `plain` unless the client asked for another.
    pub fn format(&self) -> &str {
        self.0.get("format").and_then(Value::as_str).filter(|f| !f.is_empty()).unwrap_or("plain")
    }
    /// True if the client asked for JSON or XML: what `out::formatted` makes is the answer then, and no text.
    pub fn asks_for_fields(&self) -> bool {
        ["json", "xml"].iter().any(|form| self.format().starts_with(form))
    }
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
    /// Texts as they are, numbers and booleans as written.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Value::String(s) => Some(s.clone()),
            Value::Array(a) if a.len() == 1 => text_of(&a[0]),
            other => text_of(other),
        }
    }
    pub fn need(&self, name: &str) -> Result<String, CmdError> {
        self.text(name).ok_or_else(|| CmdError::new(errno::EINVAL, format!("missing required parameter {name}")))
    }
    pub fn int(&self, name: &str) -> Result<Option<i64>, CmdError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let bad = || CmdError::new(errno::EINVAL, format!("{name}={text} is not an integer"));
        match text.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16).map(Some).map_err(|_| bad()),
            None => text.parse().map(Some).map_err(|_| bad()),
        }
    }
    pub fn need_int(&self, name: &str) -> Result<i64, CmdError> {
        self.int(name)?.ok_or_else(|| CmdError::new(errno::EINVAL, format!("missing required parameter {name}")))
    }
    pub fn float(&self, name: &str) -> Result<Option<f64>, CmdError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse::<f64>() {
            Ok(v) if v.is_finite() => Ok(Some(v)),
            _ => Err(CmdError::new(errno::EINVAL, format!("{name}={text} is not a number"))),
        }
    }
    /// True for `true`, for `1`, and for the older form in which the flag's own text is the value (`--yes-i-really-mean-it`).
    pub fn flag(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Bool(b)) => *b,
            Some(Value::Number(n)) => n.as_i64() != Some(0),
            Some(Value::String(s)) => {
                let s = s.trim_start_matches('-').replace('-', "_");
                s == name || matches!(s.as_str(), "true" | "yes" | "on" | "1")
            }
            _ => false,
        }
    }
    /// A list, or one value as a list of one.
    pub fn list(&self, name: &str) -> Vec<String> {
        match self.0.get(name) {
            Some(Value::Array(a)) => a.iter().filter_map(text_of).collect(),
            Some(other) => text_of(other).into_iter().collect(),
            None => Vec::new(),
        }
    }
    pub fn pgid(&self, name: &str) -> Result<PgId, CmdError> {
        let text = self.need(name)?;
        PgId::parse(&text).ok_or_else(|| CmdError::new(errno::EINVAL, format!("invalid pgid '{text}'")))
    }
    pub fn uuid(&self, name: &str) -> Result<Option<Uuid>, CmdError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        Uuid::parse(&text).map(Some).ok_or_else(|| CmdError::new(errno::EINVAL, format!("invalid uuid '{text}'")))
    }
    /// `osd.3` or `3`.
    pub fn osd(&self, name: &str) -> Result<Option<i32>, CmdError> {
        self.text(name).map(|text| parse_osd(&text)).transpose()
    }
    pub fn need_osd(&self, name: &str) -> Result<i32, CmdError> {
        parse_osd(&self.need(name)?)
    }
    /// Refuses a request that lacks what its signature requires or chooses what it doesn't offer.
    pub fn check(&self, sig: &Signature) -> Result<(), CmdError> {
        for param in &sig.params {
            if !self.has(param.name) {
                if param.required && param.kind != "CephBool" {
                    return Err(CmdError::new(errno::EINVAL, format!("missing required parameter {}", param.name)));
                }
                continue;
            }
            if let Some((least, most)) = param.range() {
                for value in self.list(param.name) {
                    // What is no number is the command's to refuse: some take a word, too.
                    if value.parse::<f64>().is_ok_and(|n| !(least..=most).contains(&n)) {
                        return Err(CmdError::new(errno::EINVAL, format!("{}={value} is not in range {}", param.name, param.range_text())));
                    }
                }
            }
            if let Some(choices) = param.choices() {
                let offered: Vec<_> = choices.collect();
                for value in self.list(param.name) {
                    // An empty text chooses nothing, which is right where nothing has to be chosen.
                    if !offered.contains(&value.as_str()) && !UNDESCRIBED.contains(&value.as_str()) && (param.required || !value.is_empty())
                    {
                        return Err(CmdError::new(errno::EINVAL, format!("{value} not in {}", offered.join("|"))));
                    }
                }
            }
        }
        Ok(())
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}

/// Choices that are taken and, as with Ceph, not offered: managers' steps.
const UNDESCRIBED: [&str; 1] = ["pg_num_actual"];

/// An OSD as people name it.
pub fn parse_osd(text: &str) -> Result<i32, CmdError> {
    let digits = text.strip_prefix("osd.").unwrap_or(text);
    match digits.parse::<i32>() {
        Ok(id) if id >= 0 => Ok(id),
        _ => Err(CmdError::new(errno::EINVAL, format!("invalid osd id '{text}'"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Args {
        Args::parse(&[text.to_string()]).unwrap()
    }

    #[test]
    fn reads_what_scripts_send() {
        let a = args(
            r#"{"prefix":"x","n":"7","m":8,"yes":true,"yes_i_really_mean_it":"--yes-i-really-mean-it","ids":["1","osd.2"],"id":"osd.3"}"#,
        );
        assert_eq!((a.int("n").unwrap(), a.int("m").unwrap(), a.int("o").unwrap()), (Some(7), Some(8), None));
        assert!(a.flag("yes") && a.flag("yes_i_really_mean_it") && !a.flag("no"));
        assert_eq!(a.list("ids"), ["1", "osd.2"]);
        assert_eq!(a.need_osd("id").unwrap(), 3);
        assert!(Args::parse(&["no json".into()]).is_err());
    }

    #[test]
    fn a_signature_is_held() {
        let sig = Signature::parse("osd set name=key,type=CephChoices,strings=full|pause");
        assert!(args(r#"{"prefix":"osd set","key":"full"}"#).check(&sig).is_ok());
        assert!(args(r#"{"prefix":"osd set","key":"x"}"#).check(&sig).is_err());
        assert!(args(r#"{"prefix":"osd set"}"#).check(&sig).is_err());
    }
}
