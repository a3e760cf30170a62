//! A pass over more pages than one turn has time for, or than the store's caches hold.
//!
//! A call that begins anew whenever the store has to fetch a page never ends where the first pages are forgotten before the last are read; and one
//! whose pages are all at hand keeps others from their answers. So a pass keeps how far it has come, and gives others their turn. What it adds up
//! is its caller's.

use crate::view::{ClsError, ClsResult, ObjectView};

/// Pages of one turn: a few milliseconds.
const TURN_PAGES: u32 = 8;

/// Calls `page` until it says with false that nothing follows, and gives what came of it. A page that has to wait is called again, with what it
/// had put into the state by then.
///
/// A call has one pass at most. Keys in the state are to be cut off from the page that they came in ([`denc::ByteStr::detach`]).
pub fn in_turns<S: Clone + Default + Send + 'static>(
    obj: &mut dyn ObjectView,
    mut page: impl FnMut(&mut dyn ObjectView, &mut S) -> ClsResult<bool>,
) -> ClsResult<S> {
    let begun = obj.kept().and_then(|kept| kept.downcast::<(S, bool)>().ok());
    let (mut state, mut more) = begun.map_or_else(|| (S::default(), true), |kept| *kept);
    let mut pages = 0;
    while more {
        let paused = if pages == TURN_PAGES { obj.pause() } else { None };
        more = match paused.map_or_else(|| page(obj, &mut state), Err) {
            Err(ClsError::Wait) => {
                obj.keep(Box::new((state, true)));
                return Err(ClsError::Wait);
            }
            more => more?,
        };
        pages += 1;
    }
    // What the call does with it may have to wait, too.
    obj.keep(Box::new((state.clone(), false)));
    Ok(state)
}
