//! Being written.
use super::Command;
pub const COMMANDS: &[Command] = &[];
