//! Recovery: members of a group get the objects that their logs have and their stores have not.
//!
//! | file | holds |
//! |---|---|
//! | [`kept`] | what a group has for it |
//! | [`traffic`] | recovery in its group: its messages, the requests that wait for it, what becomes of its changes |
//! | [`objects`] | what is recovered, by which member and when |
//! | [`gather`] | an object on its way here from the members that have it |
//! | [`host`] | what recovery needs of the group that it works for |
//! | [`apply`] | pushes become transactions |
//! | [`wire`] | what members tell each other, as messages |
//!
//! Of which member an object is had, which bytes are sent, and how it becomes pushes is the back end's ([`crate::pg::backend`]).

pub mod apply;
mod gather;
pub mod host;
pub(in crate::pg) mod kept;
pub mod objects;
mod traffic;
pub mod wire;

#[cfg(test)]
mod tests;
