//! Is there an order of an object's operations that explains every answer, in which each takes effect between its call and its return?
//!
//! Walks through the moments and keeps every explanation so far: a state, and which of the open calls have taken effect in it. A return must find
//! its call among them. A call without an answer stays open for ever: it may take effect at any later moment, or never; but one that expires has taken
//! effect by then, or never does.

use crate::history::{History, Moment};
use crate::model::{Op, State, With, apply};
use std::collections::BTreeSet;

/// Explanations that are kept at one moment; more of them are a history that is too wild for this checker, not a wrong one.
const EXPLANATIONS_MAX: usize = 3_000;

/// One explanation: what the object is now, and which open calls have taken effect.
type Explanation = (State, BTreeSet<usize>);

/// The first answer that no order explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unexplained {
    pub object: u32,
    pub call: usize,
    pub text: String,
}

/// Checks each object; the number of objects whose histories were too wild is returned beside.
pub fn check(history: &History, objects: u32) -> Result<u32, Unexplained> {
    let mut wild = 0;
    for object in 0..objects {
        wild += u32::from(!check_object(history, object)?);
    }
    Ok(wild)
}

/// False: too many explanations to follow.
fn check_object(history: &History, object: u32) -> Result<bool, Unexplained> {
    let mut explanations: BTreeSet<Explanation> = BTreeSet::from([(State::default(), BTreeSet::new())]);
    let mut open: BTreeSet<usize> = BTreeSet::new();
    for moment in &history.moments {
        match *moment {
            Moment::Called(call) if counts(history, object, call) => drop(open.insert(call)),
            Moment::Returned(call) if open.contains(&call) => {
                let Some(kept) = until(history, &open, &explanations, call) else { return Ok(false) };
                if kept.is_empty() {
                    return Err(Unexplained { object, call, text: tell(history, &explanations, &open, call) });
                }
                open.remove(&call);
                explanations = kept;
            }
            Moment::Expired(call) if open.contains(&call) => {
                let Some(mut kept) = until(history, &open, &explanations, call) else { return Ok(false) };
                // An answer that is still on its way tells of what was done before.
                if history.calls[call].outcome.is_none() {
                    kept.extend(explanations.into_iter().filter(|(_, effective)| !effective.contains(&call)));
                }
                if kept.is_empty() {
                    let text = format!("call {call} is answered as if it had an effect, and its client was shut out before");
                    return Err(Unexplained { object, call, text });
                }
                open.remove(&call);
                explanations = kept;
            }
            _ => {}
        }
    }
    Ok(true)
}

/// True if a call says something of the object: not if it reads a snapshot that is going to be removed, nor if it reads and has no answer.
fn counts(history: &History, object: u32, call: usize) -> bool {
    let call = &history.calls[call];
    let is_vague = match call.op {
        Op::ReadAt(snap) => history.snaps.removed.contains(&snap) || call.outcome.is_none(),
        Op::Read => call.outcome.is_none(),
        _ => false,
    };
    call.object == object && !is_vague && !call.is_barred
}

/// All ways to go on from these explanations until `call` has taken effect; `None` when there are too many.
fn until(history: &History, open: &BTreeSet<usize>, from: &BTreeSet<Explanation>, call: usize) -> Option<BTreeSet<Explanation>> {
    let mut kept = BTreeSet::new();
    let mut seen: BTreeSet<Explanation> = from.clone();
    let mut stack: Vec<Explanation> = from.iter().cloned().collect();
    while let Some((state, effective)) = stack.pop() {
        if seen.len() + kept.len() > EXPLANATIONS_MAX {
            return None;
        }
        if effective.contains(&call) {
            let mut rest = effective;
            rest.remove(&call);
            kept.insert((state, rest));
            continue;
        }
        for next in open.iter().filter(|c| !effective.contains(*c)) {
            let made = &history.calls[*next];
            let with = With { mtime_ns: made.mtime_ns, snaps: &made.snaps };
            for (outcome, after) in apply(&made.op, with, &state, &history.snaps.removed) {
                if made.outcome.as_ref().is_none_or(|told| *told == outcome) {
                    let mut more = effective.clone();
                    more.insert(*next);
                    let explanation = (after, more);
                    if seen.insert(explanation.clone()) {
                        stack.push(explanation);
                    }
                }
            }
        }
    }
    Some(kept)
}

fn tell(history: &History, explanations: &BTreeSet<Explanation>, open: &BTreeSet<usize>, call: usize) -> String {
    let short =
        |c: usize| format!("call {c} of client {}: {:?} -> {:?}", history.calls[c].client, history.calls[c].op, history.calls[c].outcome);
    let mut text = format!("{}\n  open besides:", short(call));
    open.iter().filter(|c| **c != call).for_each(|c| text += &format!("\n    {}", short(*c)));
    text += "\n  the object could be:";
    explanations.iter().take(4).for_each(|(state, effective)| text += &format!("\n    {state:?} with {effective:?} in effect"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Object, Outcome};
    use bytes::Bytes;
    use std::rc::Rc;

    fn read(data: &[u8]) -> Outcome {
        Outcome::Read(Rc::new(Object { data: data.to_vec(), ..Object::default() }))
    }
    fn put(h: &mut History, text: &'static str) -> usize {
        h.call(0, 0, Op::WriteFull(Bytes::from_static(text.as_bytes())))
    }

    #[test]
    fn a_read_after_an_acknowledged_write_must_see_it() {
        let mut h = History::default();
        let w = put(&mut h, "a");
        h.returned(w, Outcome::Done, 0);
        let r = h.call(1, 0, Op::Read);
        let mut stale = h.clone();
        h.returned(r, read(b"a"), 0);
        assert_eq!(check(&h, 1), Ok(0));
        stale.returned(r, Outcome::Error(2), 0);
        assert!(check(&stale, 1).is_err());
    }

    #[test]
    fn a_write_that_has_expired_shows_before_or_never() {
        let mut h = History::default();
        let (a, b) = (put(&mut h, "a"), put(&mut h, "b"));
        let r = h.call(1, 0, Op::Read);
        h.returned(r, Outcome::Error(2), 0);
        h.expires(a);
        let later = |mut h: History, outcome: Outcome| {
            let r = h.call(1, 0, Op::Read);
            h.returned(r, outcome, 0);
            check(&h, 1).is_ok()
        };
        // It may have taken effect just before, which no read has seen; or it never does.
        assert!(later(h.clone(), read(b"a")) && later(h.clone(), read(b"b")) && later(h.clone(), Outcome::Error(2)));
        let mut gone = h.clone();
        let r = gone.call(1, 0, Op::Read);
        gone.returned(r, Outcome::Error(2), 0);
        assert!(!later(gone.clone(), read(b"a")) && later(gone.clone(), read(b"b")));
        // Its answer may be late, and says that it was done in time.
        gone.returned(a, Outcome::Done, 0);
        assert!(check(&gone, 1).is_err());
        h.returned(a, Outcome::Done, 0);
        assert!(!later(h.clone(), Outcome::Error(2)) && later(h.clone(), read(b"a")));
        let _ = b;
        // One that was called too late is nothing, and must not succeed.
        let c = put(&mut h, "c");
        h.bars(c);
        assert!(!later(h.clone(), read(b"c")) && h.got_past.is_none());
        h.returned(c, Outcome::Done, 0);
        assert!(h.got_past.is_some());
    }

    #[test]
    fn an_unanswered_write_may_show_late_but_not_go_again() {
        let mut h = History::default();
        put(&mut h, "a");
        for seen in [Outcome::Error(2), read(b"a"), read(b"a")] {
            let r = h.call(1, 0, Op::Read);
            h.returned(r, seen, 0);
        }
        assert_eq!(check(&h, 1), Ok(0));
        let r = h.call(1, 0, Op::Read);
        h.returned(r, Outcome::Error(2), 0);
        assert!(check(&h, 1).is_err());
    }

    #[test]
    fn an_append_that_takes_effect_twice_is_found() {
        let mut h = History::default();
        let a = h.call(0, 0, Op::Append(Bytes::from_static(b"x")));
        h.returned(a, Outcome::Done, 0);
        let r = h.call(0, 0, Op::Read);
        h.returned(r, read(b"xx"), 0);
        assert_eq!(check(&h, 1).unwrap_err().call, 1);
    }

    #[test]
    fn writes_at_the_same_time_take_effect_in_one_order_for_every_reader() {
        let mut h = History::default();
        let (a, b) = (put(&mut h, "a"), put(&mut h, "b"));
        for seen in ["a", "b"] {
            let r = h.call(1, 0, Op::Read);
            h.returned(r, read(seen.as_bytes()), 0);
        }
        h.returned(a, Outcome::Done, 0);
        h.returned(b, Outcome::Done, 0);
        assert_eq!(check(&h, 1), Ok(0));
        let r = h.call(1, 0, Op::Read);
        h.returned(r, read(b"a"), 0);
        assert!(check(&h, 1).is_err());
    }

    #[test]
    fn a_snapshot_reads_as_it_was_until_it_is_removed() {
        let mut h = History::default();
        let at = |snap: u64, seen: Outcome, h: &mut History| {
            let r = h.call(1, 0, Op::ReadAt(snap));
            h.returned(r, seen, 0);
        };
        let w = put(&mut h, "a");
        h.returned(w, Outcome::Done, 0);
        h.snaps.made(2).expect("the first of this number");
        assert!(h.snaps.made(2).is_err());
        let w = put(&mut h, "b");
        h.returned(w, Outcome::Done, 0);
        at(2, read(b"a"), &mut h);
        assert_eq!(check(&h, 1), Ok(0));
        let mut wrong = h.clone();
        at(2, read(b"b"), &mut wrong);
        assert!(check(&wrong, 1).is_err());
        wrong.removes(2);
        assert_eq!(check(&wrong, 1), Ok(0));
        let back = h.call(0, 0, Op::Rollback(2));
        h.returned(back, Outcome::Done, 0);
        let r = h.call(1, 0, Op::Read);
        h.returned(r, read(b"a"), 0);
        assert_eq!(check(&h, 1), Ok(0));
    }
}
