//! Copies: every member has all of each object, and the same transaction makes a change at each.
//!
//! | file | holds |
//! |---|---|
//! | [`write`] | a change as members get it, and as a member takes it |
//! | [`acting`] | which members serve |
//! | [`rewind`] | what becomes of an object that was written in a history that does not count |
//! | [`subset`], [`cut`] | which bytes a member that lacks an object is sent, and the object as pushes |
//! | [`compare`] | members' copies compared: which one counts, what is wrong with the others |

pub mod acting;
pub mod compare;
pub mod cut;
pub mod rewind;
pub mod subset;
pub mod write;
