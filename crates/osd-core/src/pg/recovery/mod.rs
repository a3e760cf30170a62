//! Recovery: members of a group get the objects that their logs have and their stores have not.
//!
//! | file | holds |
//! |---|---|
//! | [`subset`] | which bytes are sent, and which the other member has already |
//! | [`cut`] | an object becomes pushes |
//! | [`apply`] | pushes become transactions |

pub mod apply;
pub mod cut;
pub mod subset;

#[cfg(test)]
mod tests;
