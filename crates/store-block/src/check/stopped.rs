//! Why a store has stopped, if it has: it does nothing from then on, and says why to all that ask.

use store::{StoreError, StoreResult};

#[derive(Debug, Default)]
pub struct Stopped {
    why: Option<String>,
    /// At a change that needs what is damaged.
    at_damage: bool,
}

impl Stopped {
    pub fn why(&self) -> Option<&String> {
        self.why.as_ref()
    }
    pub fn at_damage(&self) -> bool {
        self.at_damage
    }
    pub fn alive(&self) -> StoreResult<()> {
        match &self.why {
            None => Ok(()),
            Some(why) => Err(StoreError::Stopped(why.clone())),
        }
    }
    /// It stops for this reason; false if it had before, for the reason that stays.
    pub fn stop(&mut self, why: String, at_damage: bool) -> bool {
        let is_first = self.why.is_none();
        if is_first {
            (self.why, self.at_damage) = (Some(why), at_damage);
        }
        is_first
    }
}
