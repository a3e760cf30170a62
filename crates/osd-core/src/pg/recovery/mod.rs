//! Recovery: members of a group get the objects that their logs have and their stores have not.
//!
//! | file | holds |
//! |---|---|
//! | [`room`] | what a group has for it |
//! | [`run`] | what is recovered, by which member and when |
//! | [`host`] | what recovery needs of the group that it works for |
//! | [`subset`] | which bytes are sent, and which the other member has already |
//! | [`cut`] | an object becomes pushes |
//! | [`apply`] | pushes become transactions |
//! | [`wire`] | what members tell each other, as messages |

pub mod apply;
pub mod cut;
pub mod host;
pub(super) mod room;
pub mod run;
pub mod subset;
pub mod wire;

#[cfg(test)]
mod tests;
