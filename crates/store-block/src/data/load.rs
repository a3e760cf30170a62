//! How many ask at a time: measured here, once, and told to whatever does one thing for a client that waits for each answer and another for a crowd.
//!
//! | seen from | load | what follows |
//! |---|---|---|
//! | transactions of a record | lone | its blocks stay in memory: they are read next ([`crate::data::commit`]) |
//! | | many | what is new goes directly to its place: what lies together is one write then ([`crate::data::write`]) |
//! | reads under way together, lately | lone, few | blocks stay as far as there is room, in memory that is cold ([`crate::data::reads`]) |
//! | | many | few blocks stay, in memory that is still in the processor's cache |

/// How many ask at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    Lone,
    Few,
    Many,
}

/// Transactions of a record, and blocks of a run, of one client that waits for each.
pub const LONE_TXNS: usize = 2;
/// Transactions of a record from which on writes that lie together are one.
const MANY_TXNS: usize = 8;
/// Reads that may be under way together while few ask, and reads and records of a span.
const FEW_READS: u32 = 4;
const SPAN: u32 = 64;
const _: () = assert!(LONE_TXNS < MANY_TXNS && FEW_READS < SPAN);

impl Load {
    /// By the transactions of a record.
    pub fn of_record(txns: usize) -> Self {
        match txns {
            0..=LONE_TXNS => Self::Lone,
            n if n < MANY_TXNS => Self::Few,
            _ => Self::Many,
        }
    }
    pub fn is_many(self) -> bool {
        self == Self::Many
    }
}

/// Reads that are under way, and how many were lately. A crowd is remembered for a span: a lone client after it is seen soon.
#[derive(Debug, Default)]
pub struct Readers {
    under_way: u32,
    /// The most that were under way in this span and in the one before it.
    most: [u32; 2],
    span: u32,
}

impl Readers {
    pub fn begin(&mut self) {
        self.under_way += 1;
        self.most[0] = self.most[0].max(self.under_way);
    }
    pub fn end(&mut self) {
        self.under_way -= 1;
    }
    /// A read was started, or a record is on its way: true if a span ends with it.
    pub fn step(&mut self) -> bool {
        self.span += 1;
        let ends = self.span == SPAN;
        if ends {
            (self.span, self.most) = (0, [self.under_way, self.most[0]]);
        }
        ends
    }
    pub fn load(&self) -> Load {
        match self.most[0].max(self.most[1]) {
            0..=1 => Load::Lone,
            2..=FEW_READS => Load::Few,
            _ => Load::Many,
        }
    }
    #[cfg(test)]
    pub fn under_way(&self) -> usize {
        self.under_way as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_remembered_for_a_span() {
        let mut readers = Readers::default();
        assert_eq!(readers.load(), Load::Lone);
        let loads: Vec<Load> = (0..6)
            .map(|_| {
                readers.begin();
                readers.load()
            })
            .collect();
        assert_eq!(loads, [Load::Lone, Load::Few, Load::Few, Load::Few, Load::Many, Load::Many]);
        (0..6).for_each(|_| readers.end());
        let mut steps = 0;
        while readers.load().is_many() {
            readers.step();
            steps += 1;
        }
        assert_eq!((readers.load(), steps), (Load::Lone, 2 * SPAN));
        assert_eq!([0, 2, 3, 7, 8, 100].map(Load::of_record), [Load::Lone, Load::Lone, Load::Few, Load::Few, Load::Many, Load::Many]);
    }
}
