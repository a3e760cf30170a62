//! Bytes that were stored change behind the store's back: a flipped bit, an old block in place of a new one, a block of another place. The store
//! may refuse what it can't trust; it never gives something else than what was stored.

use super::Subject;
use super::check::{Wrong, check};
use super::life::Life;
use base::Rng;
use disk::{BLOCK_BYTES, CrashStates, Disks, Event, Image, MemDisks};

/// Damages one block that has ever been written; tells what it did.
fn damage<S: Subject>(disks: &MemDisks, before: &Image, rng: &mut Rng) -> Option<String> {
    let now = disks.image();
    let dev = S::DAMAGED[rng.below(S::DAMAGED.len() as u64) as usize];
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
            // Headers are in front, and the rest of many blocks is zeros without a meaning.
            let bytes = if rng.chance(1, 2) { 512 } else { BLOCK_BYTES as u64 };
            let bit = rng.below(8 * bytes) as usize;
            disks.damage(dev, block * BLOCK_BYTES as u64, |b| b[bit / 8] ^= 1 << (bit % 8));
            "one bit"
        }
    };
    Some(format!("device {} block {block}: {what}", dev.0))
}

/// Damages of what one life left; how many there were, and how many were refused.
pub fn one_life<S: Subject>(seed: u64, times: u64) -> Result<(u64, u64), String> {
    let mut rng = Rng::new(seed ^ 0xdada);
    let mut life = Life::<S>::new(seed);
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
        let Some(what) = damage::<S>(&disks, &before, &mut rng) else { continue };
        done += 1;
        history.forgive(S::DAMAGE_MAY_TAKE);
        match check::<S>(&disks, &history, &mut rng, true) {
            Ok(_) => {}
            Err(Wrong::Refused(_)) => refused += 1,
            Err(e) => return Err(format!("seed {seed}, {what}: {e}")),
        }
    }
    Ok((done, refused))
}

/// `times` damages for each seed; how many there were, and how many were refused. Panics with what was wrong first.
pub fn run<S: Subject>(seeds: u64, times: u64) -> (u64, u64) {
    let (mut done, mut refused) = (0, 0);
    for seed in 0..seeds {
        let (d, r) = one_life::<S>(seed, times).unwrap_or_else(|e| panic!("{e}"));
        (done, refused) = (done + d, refused + r);
    }
    println!("{done} damages, {refused} refused");
    (done, refused)
}
