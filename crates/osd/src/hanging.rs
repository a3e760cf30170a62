//! An operation that the disk does not answer: said early, and then the OSD leaves the cluster, so that others serve what it has.
//!
//! The loop turns all the while; it is the store's oldest operation that does not move on ([`store::StoreHints::oldest_io`]). Stock Ceph's OSD answers no
//! heartbeat once a thread of it stands for `osd_op_thread_timeout`, and its peers report it `osd_heartbeat_grace` later. This one leaves at that very time:
//! its connections close, and its keeper hears of it ([`crate::Stands::Disk`]). It can't end before the kernel gives back the memory of the operation; when
//! the disk answers after all, it ends, and is started again. Both times the monitor hears of it, by the cluster log.
//!
//! Absent: loops that stand, which are [`crate::watchdog`]'s.

use crate::shell::{Shell, Status};
use crate::watchdog::{LOOK, Verdict, Watch};
use osd_core::Level;
use osd_core::daemon::Event;
use std::rc::Rc;
use std::time::Instant;

/// Watches the store's operations until the shell's end. `disk`: what they are on, for people.
pub(crate) async fn watch(shell: Rc<Shell>, disk: String) {
    let (mut watch, mut last) = (Watch::default(), Instant::now());
    loop {
        tokio::time::sleep(LOOK).await;
        let passed_ms = last.elapsed().as_millis() as u64;
        last = Instant::now();
        let (oldest, text) = shell.oldest_io();
        match watch.look(oldest, passed_ms, shell.io_limits()) {
            Verdict::Nothing => {}
            Verdict::Stands(ms) => {
                let text = format!("{text} has not ended for {} s{disk}: look at dmesg, and at the disk's cables", ms / 1000);
                shell.event(Event::Seen { level: Level::Warn, text });
            }
            Verdict::TurnsAgain(ms) => {
                let text = format!("its disk answers again, after {} s", ms / 1000);
                shell.event(Event::Seen { level: Level::Warn, text });
            }
            Verdict::End(ms) => {
                shell.hangs.set(true);
                shell.set_status(Status::Ended(Some(format!("{text} has not ended for {} s{disk}: {HANGS}", ms / 1000))));
                return;
            }
        }
    }
}

/// By these words the line is known that an OSD says which has left the cluster for its disk's sake.
pub const HANGS: &str = "its disk hangs";
