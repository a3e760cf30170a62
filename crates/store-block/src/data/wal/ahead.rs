//! Zeros in front of the log's end, until the ring was gone round once: a place that was written before costs a durable write no change of the
//! file system. Holds positions as [`super::Ring`] has them, and starts no write itself.

/// How far the first lap is written ahead.
///
/// ```text
///   tail … head … | records may go here | under way: none may | holes
///                                        zeroed                         end
/// ```
#[derive(Debug)]
pub struct Ahead {
    /// Positions before this were written, with records or zeros.
    zeroed: u64,
    /// Blocks behind `zeroed` that are being written.
    under_way: u64,
    /// Positions from here on are of later laps.
    end: u64,
}

/// Blocks of one write of zeros; tests shall see many.
const PIECE: u64 = if cfg!(test) { 16 } else { 256 };
/// So far in front of the log's end zeros are written at once; farther only while there is nothing else to do, and in a log that is in use: what
/// was only tried out shall not cost a whole ring.
const AHEAD: u64 = if cfg!(test) { 64 } else { 2048 };
const IN_USE: u64 = PIECE;

impl Ahead {
    /// For a ring of so many blocks; 0 if all of it was written before.
    pub fn new(blocks: u64) -> Self {
        Self { zeroed: 0, under_way: 0, end: blocks }
    }
    /// What is to be written next, if anything: position and blocks. Records go no farther than `head` now. One piece at a time.
    pub fn next(&mut self, head: u64, is_calm: bool) -> Option<(u64, u64)> {
        if self.under_way > 0 {
            return None;
        }
        self.zeroed = self.zeroed.max(head);
        let is_far = self.zeroed - head >= AHEAD && !(is_calm && head >= IN_USE);
        if self.zeroed >= self.end || is_far {
            return None;
        }
        self.under_way = PIECE.min(self.end - self.zeroed);
        Some((self.zeroed, self.under_way))
    }
    /// The piece is written.
    pub fn done(&mut self) {
        self.zeroed += std::mem::take(&mut self.under_way);
    }
    /// It could not be written: records go into the holes then.
    pub fn give_up(&mut self) {
        (self.under_way, self.end) = (0, 0);
    }
    /// True if zeros are being written where a record would go.
    pub fn is_in_the_way(&self, at: u64, blocks: u64) -> bool {
        at < self.zeroed + self.under_way && self.zeroed < at + blocks && self.under_way > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lap_is_written_once_and_never_under_a_record() {
        let mut ahead = Ahead::new(200);
        let mut head = 10;
        assert_eq!(ahead.next(head, false), Some((10, 16)));
        assert!(ahead.next(head, true).is_none() && ahead.is_in_the_way(9, 2) && ahead.is_in_the_way(25, 1) && !ahead.is_in_the_way(26, 9));
        ahead.done();
        assert!(!ahead.is_in_the_way(10, 16));
        // A record went beyond what was written.
        head = 30;
        assert_eq!(ahead.next(head, false), Some((30, 16)));
        let mut end = 30;
        loop {
            ahead.done();
            let Some((at, n)) = ahead.next(head, false) else { break };
            assert_eq!(at, end + 16);
            end = at + n - 16;
        }
        assert_eq!(end + 16, head + AHEAD, "farther only when it is calm");
        while let Some((at, n)) = ahead.next(head, true) {
            assert_eq!(at, end + 16);
            end = at + n - 16;
            ahead.done();
        }
        assert_eq!(end + 16, 200);
        assert!(Ahead::new(0).next(0, true).is_none() && ahead.next(500, true).is_none());
    }
}
