//! An order to scrub a whole group, and how.

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Order {
    pub deep: bool,
    pub repair: bool,
    /// Repairs by itself: not if there is more to repair than `osd_scrub_auto_repair_num_errors`.
    pub is_auto: bool,
    /// A shallow scrub with errors is followed by a deep one that repairs.
    pub deep_on_error: bool,
    /// An operator asked for it: flags of the map don't keep it away.
    pub is_requested: bool,
    /// Looks whether a repair has helped.
    pub is_check: bool,
}

impl Order {
    pub fn name(self) -> &'static str {
        match (self.repair && !self.is_auto, self.deep) {
            (true, _) => "repair",
            (false, true) => "deep-scrub",
            (false, false) => "scrub",
        }
    }
}
