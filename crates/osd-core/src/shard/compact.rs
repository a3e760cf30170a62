//! `tell osd.N compact`: answered when the store has its smallest form, with the time that this took. Absent: when a store compacts by itself.

use crate::answer::pretty;
use crate::event::{ConnId, Effect};
use crate::shared::EventCx;
use base::Stamp;
use messages::{MCommandReply, Message};
use serde_json::json;
use store::ObjectStore;
use types::features;

/// Commands that wait for compactions.
#[derive(Debug, Default)]
pub struct Compactions(Vec<Compaction>);

#[derive(Debug)]
struct Compaction {
    conn: ConnId,
    tid: u64,
    /// The store's number of it.
    number: u64,
    since: Stamp,
}

impl Compactions {
    /// Has the store begin; `asked` is the command that waits, if one does.
    pub fn begin(&mut self, store: &mut dyn ObjectStore, asked: Option<(ConnId, u64)>, cx: &mut EventCx<'_>) {
        let number = store.compact();
        let since = cx.clock.mono;
        self.0.extend(asked.map(|(conn, tid)| Compaction { conn, tid, number, since }));
        // It begins with the store's turn.
        store.turn_end();
        self.answer(store, cx);
    }
    /// Answers what the store is through with.
    pub fn answer(&mut self, store: &dyn ObjectStore, cx: &mut EventCx<'_>) {
        self.0.retain(|one| {
            let is_done = store.is_compacted(one.number);
            if is_done {
                let elapsed_s = cx.clock.mono.since(one.since).as_secs_f64();
                let data = pretty(&json!({ "elapsed_time": elapsed_s })).into();
                let reply = MCommandReply { tid: one.tid, result: 0, status: String::new(), data };
                cx.out.push(Effect::Send { conn: one.conn, msg: reply.encode(features::SUPPORTED) });
            }
            !is_done
        });
    }
}
