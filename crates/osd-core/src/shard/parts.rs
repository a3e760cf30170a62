//! A shard's part of the commands to its OSD. What is made of the parts is [`crate::command`]'s.

use super::Shard;
use crate::inquiry::{Asked, Inquiry, Part, Said, Wanted};
use crate::joint::ToControl;
use crate::perf::Perf;
use crate::shared::EventCx;
use serde_json::{Value, json};

impl Shard {
    /// Answered as [`ToControl::Said`].
    pub(super) fn inquired(&mut self, inquiry: Inquiry, cx: &mut EventCx<'_>) {
        let Inquiry { asked, wanted } = inquiry;
        let part = self.part_of(&asked, wanted, cx);
        self.sh.wishes.tell(ToControl::Said(Box::new(Said { asked, part })));
    }
    fn part_of(&mut self, asked: &Asked, wanted: Wanted, cx: &mut EventCx<'_>) -> Part {
        Part::Shown(match wanted {
            Wanted::Pg { verb } => return Part::Answer(self.pg_command(&verb, &asked.cmd, cx)),
            Wanted::Bench => return self.bench_part(asked, cx),
            Wanted::Stats => return Part::Stats(Box::new(self.tell_stats(cx))),
            Wanted::Counters { pinged } => {
                self.refresh_gauges(pinged);
                return Part::Counters(Box::new(self.told().perf().clone()));
            }
            Wanted::NumPgs => return Part::NumPgs(self.told().num_pgs()),
            Wanted::Work => return Part::Work(self.told().tell_work().collect()),
            Wanted::ResetPerf => {
                self.sh.counters.perf = Perf::default();
                json!({ "success": format!("perf reset {}", asked.text("var")) })
            }
            Wanted::Ops => self.told().dump_ops(cx.clock, 0.0),
            Wanted::BlockedOps { late_s } => blocked(self.told().dump_ops(cx.clock, late_s), late_s),
            Wanted::History(show) => show(self.history(cx.clock), cx.clock),
            Wanted::Memory => self.told().memory(),
            Wanted::PeeringTimes => self.told().peering_times(),
            Wanted::Places => self.told().places(),
            Wanted::Scrubs => self.told().scrubs(cx.clock),
        })
    }
    /// A bench is answered when it is over.
    fn bench_part(&mut self, asked: &Asked, cx: &mut EventCx<'_>) -> Part {
        match self.start_bench(&asked.cmd, asked.conn, asked.tid) {
            Ok(()) => {
                self.want_turn(cx);
                Part::Later
            }
            Err((errno, status)) => Part::Answer((errno, status, Vec::new())),
        }
    }
}

/// Requests without an answer, shown as blocked ones.
fn blocked(mut dump: Value, late_s: f64) -> Value {
    dump["complaint_time"] = json!(late_s);
    dump["num_blocked_ops"] = dump["num_ops"].take();
    dump.as_object_mut().expect("an object").remove("num_ops");
    dump
}
