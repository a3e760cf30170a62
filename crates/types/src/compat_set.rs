//! `CompatSet`: which on-disk features something has, and whether a program with other features may write it.
//!
//! Source of the facts: Ceph 18.2 `src/include/CompatSet.h`, `src/mds/MDSMap.{h,cc}` (the features of file systems).

use denc::{Decoder, Denc, DencError, Encoder, denc_struct};
use std::collections::BTreeMap;
use std::fmt;

/// `CompatSet::FeatureSet`: features by number (bit `n` of the mask for number `n`; bit 0 is never encoded), with names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeatureSet {
    pub names: BTreeMap<u64, String>,
}

impl FeatureSet {
    pub fn mask(&self) -> u64 {
        self.names.keys().filter(|id| (1..64).contains(*id)).fold(0, |mask, id| mask | 1 << id)
    }
    pub fn contains(&self, id: u64) -> bool {
        self.names.contains_key(&id)
    }
}
impl Denc for FeatureSet {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.mask());
        self.names.encode(e);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.skip(8)?;
        Ok(Self { names: d.get()? })
    }
}
impl<const N: usize> From<[(u64, &str); N]> for FeatureSet {
    fn from(features: [(u64, &str); N]) -> Self {
        Self { names: features.into_iter().map(|(id, name)| (id, name.into())).collect() }
    }
}
/// `{1=base v0.20,2=client writeable ranges}`.
impl fmt::Display for FeatureSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<String> = self.names.iter().map(|(id, name)| format!("{id}={name}")).collect();
        write!(f, "{{{}}}", list.join(","))
    }
}

/// `CompatSet`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompatSet {
    pub compat: FeatureSet,
    /// Whoever lacks one of these may read, and not write.
    pub ro_compat: FeatureSet,
    /// Whoever lacks one of these must not touch the data.
    pub incompat: FeatureSet,
}
denc_struct!(CompatSet, bare, { compat, ro_compat, incompat });

impl CompatSet {
    /// What a new file system gets.
    pub fn mds_default() -> Self {
        Self {
            incompat: FeatureSet::from([
                (1, "base v0.20"),
                (2, "client writeable ranges"),
                (3, "default file layouts on dirs"),
                (4, "dir inode in separate object"),
                (5, "mds uses versioned encoding"),
                (6, "dirfrag is stored in omap"),
                (8, "no anchor table"),
                (9, "file layout v2"),
                (10, "snaprealm v2"),
            ]),
            ..Self::default()
        }
    }
    /// What a metadata server has that doesn't say (those before 16.2.5).
    pub fn mds_unsaid() -> Self {
        let mut set = Self::mds_default();
        set.add_inline();
        set
    }
    /// Adds what every metadata server since 14 has: stock monitors add it to each set that they read.
    pub fn add_inline(&mut self) {
        self.incompat.names.insert(7, "mds uses inline data".into());
    }
    fn masks(&self) -> [u64; 3] {
        [self.compat.mask(), self.ro_compat.mask(), self.incompat.mask()]
    }
    pub fn is_empty(&self) -> bool {
        self.masks() == [0; 3]
    }
    /// True if the two have the same features, whatever their names.
    pub fn same_features(&self, other: &Self) -> bool {
        self.masks() == other.masks()
    }
    /// True if a program with these features may write what has `other`'s.
    pub fn writeable(&self, other: &Self) -> bool {
        let ([_, ro, inc], [_, other_ro, other_inc]) = (self.masks(), other.masks());
        other_inc & !inc == 0 && other_ro & !ro == 0
    }
    /// Takes over what `other` has more.
    pub fn merge(&mut self, other: &Self) {
        let Self { compat, ro_compat, incompat } = self;
        for (to, from) in [(compat, &other.compat), (ro_compat, &other.ro_compat), (incompat, &other.incompat)] {
            for (id, name) in &from.names {
                to.names.entry(*id).or_insert_with(|| name.clone());
            }
        }
    }
    /// The masks as `{c=[1],r=[1],i=[7ff]}`; bit 0 is always set.
    pub fn masks_text(&self) -> String {
        let [compat, ro, inc] = self.masks().map(|mask| mask | 1);
        format!("{{c=[{compat:x}],r=[{ro:x}],i=[{inc:x}]}}")
    }
}
impl fmt::Display for CompatSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "compat={},rocompat={},incompat={}", self.compat, self.ro_compat, self.incompat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_writes_what_has_no_more_than_it() {
        let (old, new) = (CompatSet::mds_default(), CompatSet::mds_unsaid());
        assert!(new.writeable(&old) && !old.writeable(&new) && !old.same_features(&new));
        let mut merged = old.clone();
        merged.merge(&new);
        assert_eq!(merged, new);
        assert_eq!(new.masks_text(), "{c=[1],r=[1],i=[7ff]}");
        assert!(CompatSet::default().is_empty() && !old.is_empty());
    }
}
