//! Rules: small programs that say how a mapping descends the tree.

use denc::{Decoder, Denc, DencError, Encoder};

/// Operations of a step.
pub mod op {
    pub const NOOP: u32 = 0;
    /// arg1: where to start.
    pub const TAKE: u32 = 1;
    /// arg1: how many (0: as many as wanted; below 0: that many fewer), arg2: of which type.
    pub const CHOOSE_FIRSTN: u32 = 2;
    pub const CHOOSE_INDEP: u32 = 3;
    pub const EMIT: u32 = 4;
    /// As choose, then one device below each.
    pub const CHOOSELEAF_FIRSTN: u32 = 6;
    pub const CHOOSELEAF_INDEP: u32 = 7;
    /// The `SET_` operations override a tunable for this rule by arg1.
    pub const SET_CHOOSE_TRIES: u32 = 8;
    pub const SET_CHOOSELEAF_TRIES: u32 = 9;
    pub const SET_CHOOSE_LOCAL_TRIES: u32 = 10;
    pub const SET_CHOOSE_LOCAL_FALLBACK_TRIES: u32 = 11;
    pub const SET_CHOOSELEAF_VARY_R: u32 = 12;
    pub const SET_CHOOSELEAF_STABLE: u32 = 13;
}

/// `crush_rule_step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleStep {
    pub op: u32,
    pub arg1: i32,
    pub arg2: i32,
}
denc::denc_struct!(RuleStep, bare, { op, arg1, arg2 });

/// `crush_rule`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// The pool type that it is for: 1 replicated, 3 erasure.
    pub kind: u8,
    /// Sizes of pools that it was for; without meaning since Quincy, but part of the encoding.
    pub min_size: u8,
    pub max_size: u8,
    pub steps: Vec<RuleStep>,
}

impl Rule {
    pub const REPLICATED: u8 = 1;
    pub const ERASURE: u8 = 3;

    /// What `osd crush rule create-replicated` makes: one device under each of as many buckets of type `kind` below `root` as wanted.
    pub fn replicated(root: i32, kind: i32) -> Self {
        let choose = if kind == 0 { op::CHOOSE_FIRSTN } else { op::CHOOSELEAF_FIRSTN };
        Self {
            kind: Self::REPLICATED,
            min_size: 1,
            max_size: 100,
            steps: vec![
                RuleStep { op: op::TAKE, arg1: root, arg2: 0 },
                RuleStep { op: choose, arg1: 0, arg2: kind },
                RuleStep { op: op::EMIT, arg1: 0, arg2: 0 },
            ],
        }
    }

    pub(crate) fn encode(&self, id: usize, quincy: bool, e: &mut Encoder) {
        e.count(self.steps.len());
        e.u8(id as u8);
        e.u8(self.kind);
        let (min, max) = if quincy { (1, 100) } else { (self.min_size, self.max_size) };
        e.u8(min);
        e.u8(max);
        for step in &self.steps {
            step.encode(e);
        }
    }
    pub(crate) fn decode(id: usize, d: &mut Decoder) -> Result<Self, DencError> {
        let n = d.u32()? as usize;
        if usize::from(d.u8()?) != id {
            return Err(d.invalid("a CRUSH rule's ruleset is not its number"));
        }
        let (kind, min_size, max_size) = (d.u8()?, d.u8()?, d.u8()?);
        if n.saturating_mul(12) > d.remaining() {
            return Err(d.invalid("a CRUSH rule has more steps than bytes"));
        }
        let steps = (0..n).map(|_| d.get()).collect::<Result<_, _>>()?;
        Ok(Self { kind, min_size, max_size, steps })
    }
}
