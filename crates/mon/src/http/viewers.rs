//! The viewers of the page: each gets what changes, a few times a minute at most for the past and once a second for the state.
//!
//! The state is put together once for all of them, and only while there is one: the first viewer starts the pulse, and the last one that leaves ends it.

use crate::run::Shared;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::spawn_local;

/// How often the state is looked at.
const PULSE: Duration = Duration::from_secs(1);
/// Pulses after which something is sent even if nothing changed: a viewer notices when the server is gone.
const SILENT_MAX: u32 = 15;
/// Viewers at a time.
const VIEWERS_MAX: usize = 48;
/// Events that wait for a slow viewer; what comes meanwhile it misses, since the next state says all.
const WAITING_MAX: usize = 4;

/// Events for one viewer; none once the server ends.
pub type Events = mpsc::Receiver<Bytes>;

/// See the module.
#[derive(Clone)]
pub struct Viewers(Rc<Inner>);

struct Inner {
    shared: Rc<Shared>,
    all: RefCell<Vec<mpsc::Sender<Bytes>>>,
    beats: Cell<bool>,
}

/// An event of that name; its data is one line.
fn event(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

impl Viewers {
    pub fn new(shared: Rc<Shared>) -> Self {
        Self(Rc::new(Inner { shared, all: RefCell::default(), beats: Cell::new(false) }))
    }

    /// One more; `None` if there are too many.
    pub fn join(&self) -> Option<Events> {
        let inner = &self.0;
        inner.leave();
        if inner.all.borrow().len() >= VIEWERS_MAX {
            return None;
        }
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        for (name, data) in [("past", inner.shared.past(0)?), ("state", inner.shared.view()?)] {
            // There is room for the first ones.
            let _ = sender.try_send(event(name, &data));
        }
        inner.all.borrow_mut().push(sender);
        if !inner.beats.replace(true) {
            inner.shared.watched(true);
            let inner = inner.clone();
            spawn_local(async move { inner.pulse().await });
        }
        Some(receiver)
    }
}

impl Inner {
    /// Forgets those that are gone.
    fn leave(&self) {
        self.all.borrow_mut().retain(|viewer| !viewer.is_closed());
    }
    fn tell(&self, event: &Bytes) {
        for viewer in self.all.borrow().iter() {
            // A slow one misses this one.
            let _ = viewer.try_send(event.clone());
        }
    }
    /// Tells all viewers what is new, until there is none.
    async fn pulse(&self) {
        let (mut last, mut silent, mut newest_s) = (String::new(), 0, self.shared.newest_point_s());
        loop {
            tokio::time::sleep(PULSE).await;
            self.leave();
            if self.all.borrow().is_empty() {
                break;
            }
            silent += 1;
            if self.shared.newest_point_s() > newest_s
                && let Some(past) = self.shared.past(newest_s)
            {
                newest_s = self.shared.newest_point_s();
                self.tell(&event("past", &past));
            }
            let Some(state) = self.shared.view() else { continue };
            if changed(&last, &state) || silent >= SILENT_MAX {
                self.tell(&event("state", &state));
                (last, silent) = (state, 0);
            }
        }
        self.beats.set(false);
        self.shared.watched(false);
    }
}

/// True if more than the clock differs.
fn changed(a: &str, b: &str) -> bool {
    let without = |text: &str| match text.find("\"now_s\":") {
        Some(at) => (text[..at].to_string(), text[at..].split_once(',').map_or(String::new(), |(_, rest)| rest.to_string())),
        None => (text.to_string(), String::new()),
    };
    without(a) != without(b)
}

#[cfg(test)]
mod tests {
    use super::changed;

    #[test]
    fn the_clock_alone_is_no_change() {
        let at = |now: u32, up: u32| format!("{{\"fsid\":\"x\",\"now_s\":{now},\"up\":{up}}}");
        assert!(!changed(&at(1, 3), &at(2, 3)));
        assert!(changed(&at(1, 3), &at(1, 2)));
        assert!(changed("", &at(1, 2)));
    }
}
