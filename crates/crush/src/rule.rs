//! Rules: small programs that say how a mapping descends the tree.

use crate::ITEM_NONE;
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
    /// The pool type that it is for: 1 replicated, 3 erasure; 4 and 5 are rules of 19.2 and later that retry over several steps, see
    /// [`Rule::is_msr`].
    pub kind: u8,
    /// Sizes of pools that it was for; without meaning since Quincy, but part of the encoding.
    pub min_size: u8,
    pub max_size: u8,
    pub steps: Vec<RuleStep>,
}

impl Rule {
    pub const REPLICATED: u8 = 1;
    pub const ERASURE: u8 = 3;
    pub const MSR_FIRSTN: u8 = 4;
    pub const MSR_INDEP: u8 = 5;

    /// True for a rule whose steps are tried again together ("multi step retry"). Such rules keep their steps here and on their way to
    /// others, and map nothing: coded pools alone have them, which our OSDs leave to others.
    pub fn is_msr(&self) -> bool {
        matches!(self.kind, Self::MSR_FIRSTN | Self::MSR_INDEP)
    }
    /// The result of such a rule for so many copies.
    pub(crate) fn maps_nothing(&self, max: usize) -> Vec<i32> {
        vec![ITEM_NONE; if self.kind == Self::MSR_INDEP { max } else { 0 }]
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CrushMap, Scratch};

    /// The map with a rule as 20.2 makes it for a profile with several OSDs a failure domain: take, choose (operation 16) by domain and
    /// device, emit.
    fn with_msr(kind: u8) -> CrushMap {
        let step = |op, arg1, arg2| RuleStep { op, arg1, arg2 };
        let steps = vec![step(op::TAKE, -1, 0), step(16, 3, 1), step(16, 2, 0), step(op::EMIT, 0, 0)];
        CrushMap { rules: vec![Some(Rule { kind, min_size: 1, max_size: 100, steps })], ..CrushMap::default() }
    }

    #[test]
    fn a_rule_with_retries_over_several_steps_is_passed_on_and_maps_nothing() {
        for (kind, want) in [(Rule::MSR_INDEP, vec![ITEM_NONE; 6]), (Rule::MSR_FIRSTN, vec![])] {
            let map = with_msr(kind);
            let mut bytes = Encoder::new(denc::features::OSD_SUPPORTED);
            map.encode(&mut bytes);
            let back: CrushMap = Decoder::new(bytes.finish()).get().unwrap();
            assert_eq!(back.rules, map.rules);
            assert_eq!(back.do_rule(0, 17, 6, &[0x1_0000; 6], 1, &mut Scratch::default()), want);
        }
    }
}
