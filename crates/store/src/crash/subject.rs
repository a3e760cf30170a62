//! What the judge must know of a durable store: how it is made, opened and driven, what damage may take from it, and which promises can be broken.

use super::Setting;
use crate::ObjectStore;
use base::Rng;
use disk::{Dev, Disks};
use std::fmt::Debug;

/// A durable store that is judged. A second one implements this and calls the judge's functions from tests; nothing else of the judge is a store's own.
pub trait Subject: 'static {
    type Store: ObjectStore;
    /// What a setting fixes of how the store is opened while it lives; the rest is by chance.
    type Opening: Copy + Debug;
    /// A promise of the store that tests can break.
    type Bug: Copy + Debug + Eq + Send + Sync;

    /// Devices of which damage takes a block, one of them by chance: name one twice to have it hit twice as often.
    const DAMAGED: &'static [Dev];
    /// So many of the newest transactions may be gone without a word when damage has hit the store, though they were acknowledged: nothing stored
    /// vouches for them yet.
    const DAMAGE_MAY_TAKE: usize;
    /// Planted bugs, each with a seed whose setting provokes it soonest, and the number of seeds after which that setting comes again.
    const BUGS: &'static [(Self::Bug, u64, u64)];

    /// The life of a seed: sizes of devices, kind of transactions, what lags behind.
    fn setting(seed: u64) -> Setting<Self::Opening>;
    /// A new store on devices of zeros.
    fn make(disks: Box<dyn Disks>, seed: u64);
    /// Opens what is on the devices: as `life` has it, or any way if it comes up after a crash. Each call takes the same numbers of `rng`.
    fn open(disks: Box<dyn Disks>, rng: &mut Rng, life: Option<&Setting<Self::Opening>>) -> Result<Self::Store, String>;

    /// Takes in what the devices have completed.
    fn poll(store: &mut Self::Store);
    /// True if nothing waits and nothing is under way: another turn would change nothing.
    fn is_idle(store: &Self::Store) -> bool;
    /// Asks for what the store does seldom and by itself, such as a checkpoint; nothing if it has none.
    fn checkpoint(store: &mut Self::Store);
    /// What is wrong with the store by its own check of all that it keeps, one sentence each.
    fn fsck(store: &mut Self::Store) -> Vec<String>;
    /// True if the store knows that something is damaged, and serves the rest.
    fn is_damaged(store: &Self::Store) -> bool;
    /// What the store is busy with, for the message of a life that never comes to rest.
    fn stand(store: &Self::Store) -> String;

    /// Runs `f` with a promise broken, on this thread only.
    fn with_bug<T>(bug: Self::Bug, f: impl FnOnce() -> T) -> T;
}
