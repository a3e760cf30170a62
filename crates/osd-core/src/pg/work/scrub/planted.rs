//! Promises that tests break on purpose, one at a time, to see that they notice. In every other build none is ever broken.

/// A promise, by what happens when it is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub enum Bug {
    /// The data that most copies have counts, whatever object_info says.
    TrustMajority,
    /// Omaps are not compared.
    SkipOmap,
    /// One member is not asked.
    SkipMember,
    /// A chunk that was written meanwhile is compared all the same.
    KeepDisturbed,
    /// A repair takes the copy that is bad for the good one.
    MendFromBad,
    /// A clone that no head names is no finding.
    IgnoreExtra,
}

base::planted_bugs!(Bug, test);
