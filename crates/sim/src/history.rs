//! What clients asked and what they were answered, in the order in which it happened.

use crate::model::{Op, Outcome};

/// One operation of one client.
#[derive(Debug, Clone)]
pub struct Call {
    pub client: u32,
    pub object: u32,
    pub op: Op,
    /// The answer; `None`: it never came, so the operation may have taken effect at any time, or not at all.
    pub outcome: Option<Outcome>,
}

/// Something that a client saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Called(usize),
    Returned(usize),
}

/// See the module.
#[derive(Debug, Default, Clone)]
pub struct History {
    pub calls: Vec<Call>,
    pub moments: Vec<Moment>,
}

impl History {
    pub fn call(&mut self, client: u32, object: u32, op: Op) -> usize {
        self.calls.push(Call { client, object, op, outcome: None });
        self.moments.push(Moment::Called(self.calls.len() - 1));
        self.calls.len() - 1
    }
    /// # Panics
    /// When a call returns twice: a client hears one answer.
    pub fn returned(&mut self, call: usize, outcome: Outcome) {
        assert!(self.calls[call].outcome.is_none(), "call {call} is answered twice");
        self.calls[call].outcome = Some(outcome);
        self.moments.push(Moment::Returned(call));
    }
    pub fn answered(&self) -> usize {
        self.calls.iter().filter(|c| c.outcome.is_some()).count()
    }
}
