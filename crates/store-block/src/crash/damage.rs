//! Bytes that were stored change behind the store's back: a flipped bit, an old block in place of a new one, a block of another place. The store
//! may refuse what it can't trust; it never gives something else than what was stored.

use super::check::{Wrong, check};
use super::life::Life;
use crate::layout::{DATA, META, WAL};
use base::Rng;
use disk::{BLOCK_BYTES, CrashStates, Disks, Event, Image, MemDisks};

/// Damages one block that has ever been written; tells what it did.
fn damage(disks: &MemDisks, before: &Image, rng: &mut Rng) -> Option<String> {
    let now = disks.image();
    // Most blocks are data; what matters most is not.
    let dev = [DATA, WAL, WAL, META][rng.below(4) as usize];
    let blocks = disks.len_bytes(dev) / BLOCK_BYTES as u64;
    let mut block = rng.below(blocks);
    for _ in 0..16 {
        if now.block(dev, block).is_some() {
            break;
        }
        block = rng.below(blocks);
    }
    let bytes = now.block(dev, block)?;
    let what = match rng.below(4) {
        0 => {
            let old = before.block(dev, block).filter(|old| *old != bytes)?;
            disks.damage(dev, block * BLOCK_BYTES as u64, |b| b.copy_from_slice(old));
            "as it was before"
        }
        1 => {
            let other = now.block(dev, rng.below(blocks)).filter(|other| *other != bytes)?;
            disks.damage(dev, block * BLOCK_BYTES as u64, |b| b.copy_from_slice(other));
            "another block's content"
        }
        _ => {
            // Headers are in front, and the rest of many blocks is zeros that nobody looks at.
            let bytes = if rng.chance(1, 2) { 512 } else { BLOCK_BYTES as u64 };
            let bit = rng.below(8 * bytes) as usize;
            disks.damage(dev, block * BLOCK_BYTES as u64, |b| b[bit / 8] ^= 1 << (bit % 8));
            "one bit"
        }
    };
    Some(format!("device {} block {block}: {what}", dev.0))
}

/// Damages of what one life left; how many there were, and how many were refused.
pub fn one_life(seed: u64, times: u64) -> Result<(u64, u64), String> {
    let mut rng = Rng::new(seed ^ 0xdada);
    let mut life = Life::new(seed);
    life.calm_end = true;
    let (history, end) = life.run(&mut rng, &[]);
    end.map_err(|e| format!("seed {seed}: {e}"))?;
    let mut states = CrashStates::new(&history.recording);
    let middle = history.recording.events().len() / 2;
    let mut before = None;
    while let Some(event) = states.step() {
        if let Event::Note(mark) = event {
            history.note(mark);
        }
        if states.at() >= middle && before.is_none() {
            before = Some(states.state(&mut rng, disk::Tear::Never).image());
        }
    }
    let before = before.expect("a life has a middle");
    let (mut done, mut refused) = (0, 0);
    for _ in 0..times {
        let disks = MemDisks::with(history.last.clone());
        let Some(what) = damage(&disks, &before, &mut rng) else { continue };
        done += 1;
        // Nothing says that the very last record was durable, if it is that one that is damaged.
        history.forgive(1);
        match check(&disks, &history, &mut rng, true) {
            Ok(_) => {}
            Err(Wrong::Refused(_)) => refused += 1,
            Err(e) => return Err(format!("seed {seed}, {what}: {e}")),
        }
    }
    Ok((done, refused))
}

#[test]
fn damage_is_never_given_out() {
    let seeds = super::from_env("DAMAGE_SEEDS").unwrap_or(8);
    let (mut done, mut refused) = (0, 0);
    for seed in 0..seeds {
        let (d, r) = one_life(seed, 1500).unwrap_or_else(|e| panic!("{e}"));
        (done, refused) = (done + d, refused + r);
    }
    println!("{done} damages, {refused} refused");
    assert!(done > 100 && refused > 10, "{done} damages, {refused} refused");
}
