//! A machine that has more to do: busy loops, and a writer to the disk that the cases use. Goes on for as long as the value lives.

use crate::clients::SHARED;
use anyhow::Result;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Busy loops, at the priority of all else.
const LOOPS: usize = 2;
/// The writer goes round in so much of the disk.
const FILE_BYTES: u64 = 256 << 20;
const PIECE_BYTES: usize = 1 << 20;

pub struct Load {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub fn begin() -> Self {
        let mut load = Self::loops(LOOPS);
        load.start(|over| {
            if let Err(e) = write(over) {
                println!("the writer beside the cases ended: {e:#}");
            }
        });
        println!("beside {LOOPS} busy loops and a writer to {SHARED}");
        load
    }
    /// So many busy loops alone.
    pub fn loops(count: usize) -> Self {
        let mut load = Self { over: Arc::default(), threads: Vec::new() };
        (0..count).for_each(|_| load.start(spin));
        load
    }
    fn start(&mut self, work: fn(&AtomicBool)) {
        let over = self.over.clone();
        self.threads.push(std::thread::spawn(move || work(&over)));
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // A thread of it that panicked has said so.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn spin(over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

/// Pieces that must be on the disk, one after the other.
fn write(over: &AtomicBool) -> Result<()> {
    std::fs::create_dir_all(SHARED)?;
    let path = Path::new(SHARED).join(format!("load-{}", std::process::id()));
    let mut file = File::create(&path)?;
    // Its name goes at once: nothing is left of it, however this program ends.
    std::fs::remove_file(&path)?;
    let piece = vec![0xa5; PIECE_BYTES];
    while !over.load(Ordering::Relaxed) {
        if file.stream_position()? >= FILE_BYTES {
            file.rewind()?;
        }
        file.write_all(&piece)?;
        file.sync_data()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_with_its_value() {
        let load = Load::begin();
        let over = load.over.clone();
        assert_eq!(load.threads.len(), LOOPS + 1);
        drop(load);
        assert!(over.load(Ordering::Relaxed));
        assert_eq!(Arc::strong_count(&over), 1, "no thread has it any more");
    }
}
