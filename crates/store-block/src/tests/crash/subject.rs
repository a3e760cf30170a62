//! The block store as the crash-state judge drives it.

use super::bugs::BUGS;
use super::setting::{self, Opening, Setting};
use crate::BlockStore;
use crate::open::layout::{DATA, META, WAL};
use crate::planted::{self, Bug};
use base::Rng;
use disk::{Dev, Disks};
use std::time::Duration;
use store::StoreHints;
use store::crash::Subject;

/// The subject: see [`Subject`].
pub struct Block;

impl Subject for Block {
    type Store = BlockStore;
    type Opening = Opening;
    type Bug = Bug;

    // Most blocks are data; what matters most is not.
    const DAMAGED: &'static [Dev] = &[DATA, WAL, WAL, META];
    /// Nothing says that the very last record was durable, if it is that one that is damaged.
    const DAMAGE_MAY_TAKE: usize = 1;
    const BUGS: &'static [(Bug, u64, u64)] = &BUGS;

    fn setting(seed: u64) -> Setting {
        match seed {
            setting::DISCARDS.. => setting::discarding(seed - setting::DISCARDS),
            setting::PACED.. => setting::paced(seed - setting::PACED),
            _ => setting::of(seed),
        }
    }
    fn make(disks: Box<dyn Disks>, seed: u64) {
        let uuid = [seed as u8 | 1; 16];
        // Stores that nobody has finalized live on.
        let made = if seed % 5 == 4 { BlockStore::mkfs_before(disks, uuid) } else { BlockStore::mkfs(disks, uuid) };
        made.expect("a new store");
    }
    fn open(disks: Box<dyn Disks>, rng: &mut Rng, life: Option<&Setting>) -> Result<BlockStore, String> {
        let config = match life {
            Some(setting) => setting::living(setting, rng),
            None => setting::config(rng),
        };
        let mut store = BlockStore::open(config, disks).map_err(|e| e.to_string())?;
        store.gives_back(life.is_some_and(|setting| setting.opening.gives_back));
        Ok(store)
    }

    fn poll(store: &mut BlockStore) {
        store.poll();
        // As fast as it can.
        store.give_back(Duration::ZERO);
    }
    fn is_idle(store: &BlockStore) -> bool {
        store.stats().idle && !store.is_checkpointing()
    }
    fn checkpoint(store: &mut BlockStore) {
        store.checkpoint();
    }
    fn fsck(store: &mut BlockStore) -> Vec<String> {
        store.fsck(false).errors
    }
    fn is_damaged(store: &BlockStore) -> bool {
        store.damage().leaves > 0
    }
    fn stand(store: &BlockStore) -> String {
        format!("{:?}, {}", store.stats(), store.stand())
    }

    fn with_bug<T>(bug: Bug, f: impl FnOnce() -> T) -> T {
        planted::with(bug, f)
    }
}
