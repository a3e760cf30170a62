//! The signature of a command: literal words and parameters, parsed from one line of text and given out as the JSON that the `ceph`
//! command line reads.
//!
//! Parameters behind `--` are given by name only. The line: `osd pool create name=pool,type=CephPoolname name=pg_num,type=CephInt,range=0,req=false`.
//! Source of the format: `get_command_descriptions` of 18.2, and `ceph_argparse.py` which reads it.

use serde_json::{Map, Value, json};
use types::features;

/// One parameter of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    pub name: &'static str,
    /// `CephInt`, `CephString`, ...
    pub kind: &'static str,
    pub required: bool,
    /// Takes any number of values.
    pub many: bool,
    /// True behind `--`: given by name only (`--key-type aes`).
    pub named: bool,
    /// Everything else, as written: `range`, `strings`, `goodchars`.
    pub extra: Vec<(&'static str, &'static str)>,
}

/// A parsed signature.
#[derive(Debug, Clone, PartialEq)]
pub struct Signature {
    /// The literal words, joined: what a request's `prefix` is compared with.
    pub prefix: String,
    pub params: Vec<Param>,
}

impl Signature {
    /// Parses a line of the tables in this crate; a malformed one is our own mistake.
    pub fn parse(line: &'static str) -> Self {
        let mut words = Vec::new();
        let mut params = Vec::new();
        let mut named = false;
        for token in line.split_whitespace() {
            if token.starts_with("name=") {
                params.push(Param { named, ..Param::parse(token) });
            } else if token == "--" {
                named = true;
            } else {
                assert!(params.is_empty(), "literal words of a command stand before its parameters: {line}");
                words.push(token);
            }
        }
        Self { prefix: words.join(" "), params }
    }
    pub fn param(&self, name: &str) -> Option<&Param> {
        self.params.iter().find(|p| p.name == name)
    }
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.params.iter().map(|p| p.name)
    }
    /// The `sig` array of `get_command_descriptions`, for a client with `features`.
    pub fn to_json(&self, features: u64) -> Value {
        let words = self.prefix.split(' ').map(Value::from);
        Value::Array(words.chain(self.params.iter().map(|p| p.to_json(features))).collect())
    }
}

impl Param {
    fn parse(token: &'static str) -> Self {
        let mut param = Param { name: "", kind: "CephString", required: true, many: false, named: false, extra: Vec::new() };
        for field in token.split(',') {
            let (key, value) = field.split_once('=').unwrap_or_else(|| panic!("a field of a parameter is key=value: {token}"));
            match key {
                "name" => param.name = value,
                "type" => param.kind = value,
                "req" => param.required = value != "false",
                "n" => param.many = value == "N",
                _ => param.extra.push((key, value)),
            }
        }
        assert!(!param.name.is_empty(), "a parameter has a name: {token}");
        param
    }
    fn to_json(&self, features: u64) -> Value {
        let mut map = Map::new();
        map.insert("name".into(), json!(self.name));
        map.insert("type".into(), json!(self.kind));
        if self.many {
            map.insert("n".into(), json!("N"));
        }
        if !self.required {
            map.insert("req".into(), json!(false));
        }
        // The command line of 16.2 fails on a word that it doesn't know.
        if self.named && features::has(features, features::SERVER_QUINCY) {
            map.insert("positional".into(), json!(false));
        }
        for (key, value) in &self.extra {
            map.insert((*key).into(), json!(value));
        }
        Value::Object(map)
    }
    /// What a number must lie in: `range=LEAST` or `range=LEAST|MOST`.
    pub fn range(&self) -> Option<(f64, f64)> {
        let (least, most) = match self.range_text().split_once('|') {
            Some((least, most)) => (least.parse().ok()?, most.parse().ok()?),
            None => (self.range_text().parse().ok()?, f64::INFINITY),
        };
        Some((least, most))
    }
    /// The same as it is written; empty if there is none.
    pub fn range_text(&self) -> &'static str {
        self.extra.iter().find(|(key, _)| *key == "range").map_or("", |(_, v)| v)
    }
    /// The choices of a `CephChoices`.
    pub fn choices(&self) -> Option<impl Iterator<Item = &'static str>> {
        self.extra.iter().find(|(key, _)| *key == "strings").map(|(_, v)| v.split('|'))
    }
}

/// The parameters that a line in this form declares.
pub fn params_of(line: &str) -> impl Iterator<Item = &str> {
    line.split_whitespace().filter_map(|word| word.split(',').find_map(|field| field.strip_prefix("name=")))
}

/// The `sig` array of a command that another daemon describes, by its line in the same form, for a client with `features`.
pub fn line_to_json(line: &str, features: u64) -> Value {
    let quincy = features::has(features, features::SERVER_QUINCY);
    let (mut out, mut named) = (Vec::new(), false);
    for word in line.split(' ').filter(|w| !w.is_empty()) {
        if word == "--" {
            named = true;
        } else if !word.contains([',', '=']) {
            out.push(json!(word));
        } else {
            let mut map = Map::new();
            for (key, value) in word.split(',').filter_map(|f| f.split_once('=')) {
                let yes = value.eq_ignore_ascii_case("true");
                match key {
                    // As in `Param::to_json`: what older command lines don't know, or know as a text.
                    "positional" if !quincy => {}
                    "positional" => drop(map.insert(key.into(), json!(yes))),
                    "req" if quincy => drop(map.insert(key.into(), json!(yes))),
                    _ => drop(map.insert(key.into(), json!(value))),
                }
            }
            if named && quincy {
                map.insert("positional".into(), json!(false));
            }
            out.push(Value::Object(map));
        }
    }
    Value::Array(out)
}

/// The literal words that a command's line begins with.
pub fn prefix_of(line: &str) -> String {
    line.split(' ').filter(|w| !w.is_empty()).take_while(|w| *w != "--" && !w.contains([',', '='])).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_what_the_command_line_reads() {
        let sig = Signature::parse("osd pool create name=pool,type=CephPoolname name=pg_num,type=CephInt,range=0,req=false");
        assert_eq!(sig.prefix, "osd pool create");
        assert_eq!(
            sig.to_json(0).to_string(),
            r#"["osd","pool","create",{"name":"pool","type":"CephPoolname"},{"name":"pg_num","type":"CephInt","req":false,"range":"0"}]"#
        );
        let sig = Signature::parse("auth rotate name=entity -- name=key_type,req=false");
        assert!(sig.to_json(features::SUPPORTED).to_string().contains(r#""req":false,"positional":false"#));
        assert!(!sig.to_json(0).to_string().contains("positional"));
    }
}
