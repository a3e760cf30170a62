//! What is subscribed to, and from which version on.

use messages::SubscribeItem;
use std::collections::BTreeMap;

/// Subscriptions not sent yet and those that the monitor knows of.
#[derive(Debug, Default)]
pub struct Subs {
    new: BTreeMap<String, SubscribeItem>,
    sent: BTreeMap<String, SubscribeItem>,
}

impl Subs {
    /// False if the same is asked for already.
    pub fn want(&mut self, what: &str, start: u64, flags: u8) -> bool {
        let item = SubscribeItem { start, flags };
        if self.new.get(what) == Some(&item) || !self.new.contains_key(what) && self.sent.get(what) == Some(&item) {
            return false;
        }
        self.new.insert(what.into(), item);
        true
    }
    pub fn unwant(&mut self, what: &str) {
        self.new.remove(what);
        self.sent.remove(what);
    }
    /// One that is wanted once is done with; another goes on behind `have`.
    pub fn got(&mut self, what: &str, have: u64) {
        for set in [&mut self.new, &mut self.sent] {
            if let Some(item) = set.get_mut(what)
                && item.start <= have
            {
                if item.onetime() {
                    set.remove(what);
                } else {
                    item.start = have + 1;
                }
                return;
            }
        }
    }
    /// What is to be sent now; the monitor knows of it then.
    pub fn take_new(&mut self) -> BTreeMap<String, SubscribeItem> {
        let new = std::mem::take(&mut self.new);
        self.sent.extend(new.iter().map(|(k, v)| (k.clone(), *v)));
        new
    }
    /// A new monitor knows of nothing.
    pub fn renew(&mut self) {
        for (what, item) in std::mem::take(&mut self.sent) {
            self.new.entry(what).or_insert(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_session_goes_on_where_the_last_one_stood() {
        let mut s = Subs::default();
        assert!(s.want("osdmap", 5, 0) && !s.want("osdmap", 5, 0));
        assert!(s.want("config", 0, 0) && s.want("mgrmap", 0, messages::mon_client::SUBSCRIBE_ONETIME));
        assert_eq!(s.take_new().len(), 3);
        s.got("osdmap", 9);
        s.got("mgrmap", 2);
        assert!(s.take_new().is_empty());
        s.renew();
        let again = s.take_new();
        assert_eq!(again.keys().collect::<Vec<_>>(), ["config", "osdmap"]);
        assert_eq!(again["osdmap"].start, 10);
        // Wanting an older version again is a new wish.
        assert!(s.want("osdmap", 3, 0));
    }
}
