//! What a grant demands of a command's arguments: `k=v`, `k prefix v`, `k regex v`. Profiles demand more than a text can say.

use super::osd::is_of_profiles;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    Equal(String),
    Prefix(String),
    /// An extended regular expression that the whole value must match; one that can't be read matches nothing.
    Regex(String),
    /// Absent, or one of these. Of profiles alone.
    IfGiven(&'static [&'static str]),
    /// A capability that consists of profiles for images. Of profiles alone.
    RbdProfiles {
        required: bool,
    },
}

impl Constraint {
    /// True if an argument of that value, or its absence, is what the grant demands.
    pub fn accepts(&self, value: Option<&str>) -> bool {
        let Some(value) = value else { return matches!(self, Self::IfGiven(_) | Self::RbdProfiles { required: false }) };
        match self {
            Self::Equal(want) => value == want,
            Self::Prefix(want) => value.starts_with(want.as_str()),
            Self::Regex(pattern) => regex_lite::Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|re| re.is_match(value)),
            Self::IfGiven(offered) => offered.contains(&value),
            Self::RbdProfiles { .. } => is_of_profiles(value, |name| name.starts_with("rbd")),
        }
    }
}

/// True if every constraint accepts its argument.
pub(super) fn all_accept(constraints: &BTreeMap<String, Constraint>, args: &BTreeMap<String, String>) -> bool {
    constraints.iter().all(|(key, c)| c.accepts(args.get(key).map(String::as_str)))
}
