//! What a grant demands of a command's arguments: `k=v`, `k prefix v`, `k regex v`.

use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    Equal(String),
    Prefix(String),
    /// An extended regular expression that the whole value must match; one that can't be read matches nothing.
    Regex(String),
}

impl Constraint {
    pub fn accepts(&self, value: &str) -> bool {
        match self {
            Self::Equal(want) => value == want,
            Self::Prefix(want) => value.starts_with(want.as_str()),
            Self::Regex(pattern) => regex_lite::Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|re| re.is_match(value)),
        }
    }
}

/// True if every constraint has an argument that it accepts.
pub(super) fn all_accept(constraints: &BTreeMap<String, Constraint>, args: &BTreeMap<String, String>) -> bool {
    constraints.iter().all(|(key, c)| args.get(key).is_some_and(|value| c.accepts(value)))
}
