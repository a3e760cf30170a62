//! `--name value` pairs of the fakes' command lines.

use anyhow::{Result, ensure};
use std::collections::BTreeMap;

pub struct Words(BTreeMap<String, String>);

impl Words {
    pub fn parse(args: &[String]) -> Result<Self> {
        ensure!(args.len().is_multiple_of(2), "options come in pairs: {args:?}");
        let pair = |p: &[String]| Some((p[0].strip_prefix("--")?.to_string(), p[1].clone()));
        let all: Option<BTreeMap<_, _>> = args.chunks(2).map(pair).collect();
        ensure!(all.is_some(), "options begin with --: {args:?}");
        Ok(Self(all.unwrap_or_default()))
    }
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
    pub fn number(&self, name: &str, unless: f64) -> f64 {
        self.text(name).and_then(|t| t.parse().ok()).unwrap_or(unless)
    }
}
