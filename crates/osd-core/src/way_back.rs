//! The way back from maps of a future that never came.
//!
//! Other OSDs may lead this one some epochs beyond what its monitor has named (see [`crate::control::maps`]). If the monitor never has those epochs,
//! because they were made up, or because they went with a monitor that no majority had heard, the OSD can't boot: its maps are newer than the
//! monitor's. Then:
//!
//! ```text
//!   the monitor's newest map stays older than ours, and it never named a newer one
//!        │ meta/back_to = that epoch; the OSD ends
//!   the next start: maps beyond it are left out, and groups begin at it
//!        │ the groups' records, then the superblock; the maps and the mark go
//!   the OSD boots as if it had never heard of them
//! ```
//! [`crate::load`] reads the mark and does all that. A group whose history has one of those epochs, as an interval or in its log, can't forget it: then
//! the OSD says so and ends. It ends, too, where the monitor did name those epochs once: that monitor's store is lost or old, and no OSD can say what
//! went with it.

use types::Epoch;

/// What a start does that goes back.
#[derive(Debug, Default)]
pub(crate) struct WayBack {
    /// The last map that counts.
    pub to: Epoch,
    /// Maps beyond it: epoch, and whether it is a whole one.
    pub beyond: Vec<(Epoch, bool)>,
}
