//! A store's way to this version of the layout: one that an older program made stays readable by it until somebody asks for this.
//!
//! Holds the step alone. What a version has is in [`crate::open::layout`]; what a store of an older one goes without, where it is decided.

use crate::open::layout::VERSION;
use crate::rows::key;
use crate::rows::meta::layer::Val;
use crate::state::Core;

/// Makes the store one of this version; false if it is one. Waits: for tools, before anything is submitted.
pub fn finalize(core: &mut Core) -> Result<bool, String> {
    if core.sb.is_final() {
        return Ok(false);
    }
    let had_places = core.sb.has_places();
    core.finish_checkpoints()?;
    core.sb.version = VERSION;
    // Both superblocks say so before anything of this version is written: either may be lost.
    for _ in 0..2 {
        // Until the checkpoint puts the counters there, it has something to do.
        core.table.put(&[key::COUNTERS], Val::Del);
        core.generations.want();
        core.finish_checkpoints()?;
    }
    if !had_places {
        core.alloc.take_in_pieces();
    }
    Ok(true)
}
