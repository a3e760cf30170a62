//! What damage has taken of a store: what opening had to leave out, what follows from that later, and whether rows have copies against the next time.

#[derive(Debug, Default)]
pub struct Salvage {
    /// What opening had to leave out, a sentence each, if it was told to.
    left_out: Vec<String>,
    /// Put right while it was opened, a sentence each.
    made_good: Vec<String>,
    /// The log must be whole up to before this record: 0, unless an older checkpoint than the newest one had to be taken.
    reach: u64,
    /// One superblock was found: the other may have been of the next epoch.
    is_root_alone: bool,
    /// Layers have rows of objects that are not in memory: after damage, some are put there as they are.
    has_bare_rows: bool,
    /// The rows of collections and groups have copies: see [`crate::check::damaged`].
    has_copies: bool,
}

impl Salvage {
    pub fn new(left_out: Vec<String>, reach: u64, is_root_alone: bool) -> Self {
        Self { left_out, reach, is_root_alone, ..Self::default() }
    }
    pub fn is_root_alone(&self) -> bool {
        self.is_root_alone
    }
    pub fn leave_out(&mut self, what: String) {
        self.left_out.push(what);
    }
    /// What was left out, told once.
    pub fn take_left_out(&mut self) -> Vec<String> {
        std::mem::take(&mut self.left_out)
    }
    pub fn make_good(&mut self, what: String) {
        self.made_good.push(what);
    }
    /// Sentences of what was put right, told once.
    pub fn take_made_good(&mut self) -> Vec<String> {
        std::mem::take(&mut self.made_good)
    }
    pub fn reach(&self) -> u64 {
        self.reach
    }
    /// From now on an object's row may be in a layer while the object is not in memory.
    pub fn puts_bare_rows(&mut self) {
        self.has_bare_rows = true;
    }
    pub fn has_bare_rows(&self) -> bool {
        self.has_bare_rows
    }
    pub fn set_copies(&mut self, has_copies: bool) {
        self.has_copies = has_copies;
    }
    pub fn has_copies(&self) -> bool {
        self.has_copies
    }
}
