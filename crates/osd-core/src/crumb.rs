//! Where the loop stands, in words: what [`base::breadcrumb`] keeps as numbers.

use crate::event::Event;
use base::breadcrumb::Breadcrumb;

/// Names of events; the number of an event is its place, from 1.
const NAMES: [&str; 8] = [
    "a request",
    "a message",
    "a message of the monitor",
    "a message of the manager",
    "a heartbeat",
    "the end of a turn",
    "a tick",
    "another event",
];
/// Messages' numbers stand above the event's.
const KIND_SHIFT: u32 = 8;

/// An event as a number for the breadcrumb.
pub(crate) fn event_code(event: &Event) -> u64 {
    let (name, kind) = match event {
        Event::Request { msg, .. } => (1, msg.kind),
        Event::Message { msg, .. } | Event::Osd { msg, .. } => (2, msg.kind),
        Event::Mon(msg) => (3, msg.kind),
        Event::Mgr(msg) => (4, msg.kind),
        Event::Heartbeat { msg, .. } => (5, msg.kind),
        Event::TurnEnd => (6, 0),
        Event::Tick | Event::Due => (7, 0),
        _ => (8, 0),
    };
    name | u64::from(kind) << KIND_SHIFT
}

/// What the loop is at, for a line of the log.
pub fn crumb_text(crumb: &Breadcrumb) -> String {
    let code = crumb.current_event();
    let at = match (code & 0xff) as usize {
        0 => "it is between two events".to_string(),
        n => {
            let kind = (code >> KIND_SHIFT) as u16;
            let kind = if kind == 0 { String::new() } else { format!(" ({})", messages::kind_name(kind)) };
            format!("it is at {}{kind}", NAMES.get(n - 1).unwrap_or(&"another event"))
        }
    };
    match crumb.last_op() {
        Some(op) => format!("{at}; the last request taken up is {}:{} on {:?} in {}.{:x}", op.client, op.tid, op.name, op.pool, op.seed),
        None => format!("{at}; no request was taken up yet"),
    }
}
