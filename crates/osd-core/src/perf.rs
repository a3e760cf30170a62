//! Performance counters: what `perf dump`, `perf schema` and MMgrReport show, under stock's names.

use serde_json::{Map, Value, json};

/// How a counter is read. Source of the numbers: Ceph `src/common/perf_counters.h` (`perfcounter_type_d`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A sum of seconds (kept as nanoseconds) and how many.
    TimeAvg,
}

impl Kind {
    /// `perfcounter_type_d` bits.
    pub fn bits(self) -> u8 {
        match self {
            Kind::Counter => 2 | 8,
            Kind::Gauge => 2,
            Kind::TimeAvg => 1 | 4,
        }
    }
}

macro_rules! counters {
    ($($id:ident $kind:ident $unit:literal $prio:literal $nick:literal $text:literal;)*) => {
        /// The numbers. `TimeAvg`s have their count in [`Perf::counts`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(non_camel_case_types)]
        #[repr(usize)]
        pub enum C { $($id),* }
        /// Name, kind, unit (0 none, 1 bytes), priority, nick and description of each, in the order of [`C`].
        pub const COUNTERS: &[(&str, Kind, u8, u8, &str, &str)] = &[$((stringify!($id), Kind::$kind, $unit, $prio, $nick, $text)),*];
    };
}

counters! {
    op_wip Gauge 0 5 "" "Replication operations currently being processed (primary)";
    op Counter 0 10 "ops" "Client operations";
    op_in_bytes Counter 1 8 "wr" "Client operations total write size";
    op_out_bytes Counter 1 8 "rd" "Client operations total read size";
    op_latency TimeAvg 0 9 "l" "Latency of client operations (including queue time)";
    op_process_latency TimeAvg 0 5 "" "Latency of client operations (excluding queue time)";
    op_prepare_latency TimeAvg 0 5 "" "Latency of client operations (excluding queue time and wait for finished)";
    op_delayed_unreadable Counter 0 5 "" "Count of ops delayed due to target object being unreadable";
    op_delayed_degraded Counter 0 5 "" "Count of ops delayed due to target object being degraded";
    op_r Counter 0 5 "" "Client read operations";
    op_r_out_bytes Counter 1 5 "" "Client data read";
    op_r_latency TimeAvg 0 5 "" "Latency of read operation (including queue time)";
    op_r_process_latency TimeAvg 0 5 "" "Latency of read operation (excluding queue time)";
    op_r_prepare_latency TimeAvg 0 5 "" "Latency of read operations (excluding queue time and wait for finished)";
    op_w Counter 0 5 "" "Client write operations";
    op_w_in_bytes Counter 0 5 "" "Client data written";
    op_w_latency TimeAvg 0 5 "" "Latency of write operation (including queue time)";
    op_w_process_latency TimeAvg 0 5 "" "Latency of write operation (excluding queue time)";
    op_w_prepare_latency TimeAvg 0 5 "" "Latency of write operations (excluding queue time and wait for finished)";
    op_rw Counter 0 5 "" "Client read-modify-write operations";
    op_rw_in_bytes Counter 1 5 "" "Client read-modify-write operations write in";
    op_rw_out_bytes Counter 1 5 "" "Client read-modify-write operations read out ";
    op_rw_latency TimeAvg 0 5 "" "Latency of read-modify-write operation (including queue time)";
    op_rw_process_latency TimeAvg 0 5 "" "Latency of read-modify-write operation (excluding queue time)";
    op_rw_prepare_latency TimeAvg 0 5 "" "Latency of read-modify-write operations (excluding queue time and wait for finished)";
    subop Counter 0 0 "" "Suboperations";
    subop_in_bytes Counter 1 0 "" "Suboperations total size";
    subop_latency TimeAvg 0 0 "" "Suboperations latency";
    recovery_ops Counter 0 8 "rop" "Started recovery operations";
    recovery_bytes Counter 0 8 "rbt" "recovery bytes";
    loadavg Gauge 0 0 "" "CPU load";
    numpg Gauge 0 5 "pgs" "Placement groups";
    numpg_primary Gauge 0 0 "" "Placement groups for which this osd is primary";
    numpg_replica Gauge 0 0 "" "Placement groups for which this osd is replica";
    numpg_stray Gauge 0 0 "" "Placement groups ready to be deleted from this osd";
    numpg_removing Gauge 0 5 "pgsr" "Placement groups queued for local deletion";
    heartbeat_to_peers Gauge 0 0 "" "Heartbeat (ping) peers we send to";
    map_messages Counter 0 0 "" "OSD map messages";
    map_message_epochs Counter 0 0 "" "OSD map epochs";
    map_message_epoch_dups Counter 0 0 "" "OSD map duplicates";
    stat_bytes Gauge 1 5 "size" "OSD size";
    stat_bytes_used Gauge 1 5 "used" "Used space";
    stat_bytes_avail Gauge 1 0 "" "Available space";
    osd_map_cache_hit Counter 0 0 "" "osdmap cache hit";
    osd_map_cache_miss Counter 0 0 "" "osdmap cache miss";
    op_dup Counter 0 0 "" "Client operations that came again and were answered from the log (stock has no such counter)";
    discarded_bytes Counter 1 0 "" "Free room that the store gave back to its device (stock has no such counter)";
}

/// Latencies whose spread is reported to Humboldt's own manager endpoint, beside the counters: stock has no such messages, and no priority that a
/// stock manager asks for.
pub const HISTOGRAMS: [&str; 2] = ["op_read_latency", "op_write_latency"];
/// The first bound; each further one is twice the one before, and the last bin has none.
const BIN_FIRST_NS: u64 = 32_000;
/// Bins of a histogram: from 32 us to 4.2 s.
pub const BINS: usize = 19;
/// `PRIO_UNINTERESTING`.
pub const BIN_PRIORITY: u8 = 2;

/// The path under which a bin is reported, without its `osd.`.
pub fn bin_name(histogram: usize, bin: usize) -> String {
    let bound = if bin + 1 == BINS { "inf".into() } else { (BIN_FIRST_NS << bin).to_string() };
    format!("hist_{}.{bound}", HISTOGRAMS[histogram])
}

/// The bin of a span: the first whose bound is not below it.
#[inline]
fn bin_of(ns: u64) -> usize {
    let steps = ns.saturating_sub(1) / BIN_FIRST_NS;
    ((u64::BITS - steps.leading_zeros()) as usize).min(BINS - 1)
}

/// The budget of clients as stock's two throttles show it, by their names: what is held, its bound, how often it was taken and waited for.
pub fn throttles(budget: base::BudgetStats) -> [(&'static str, Value); 2] {
    let one = |val: u64, max: u64| json!({ "val": val, "max": max, "get": budget.taken, "wait": { "avgcount": budget.waits }, "waiting": budget.waiting });
    [
        ("throttle-osd_client_bytes", one(budget.bytes + budget.aside + budget.answers, budget.bytes_max)),
        ("throttle-osd_client_messages", one(budget.messages, budget.messages_max)),
    ]
}

/// Each of those throttles' counters as `counter schema` describes them: of no interest to those that collect figures.
pub fn throttle_schema() -> Value {
    let one = |kind: Kind, text: &str| described(kind, 0, 0, "", text);
    json!({
        "val": one(Kind::Gauge, "Currently available throttle"),
        "max": one(Kind::Gauge, "Max value for throttle"),
        "get": one(Kind::Counter, "Gets"),
        "waiting": one(Kind::Gauge, "Requests that wait"),
    })
}

/// A counter as `perf schema` describes it.
fn described(kind: Kind, unit: u8, priority: u8, nick: &str, text: &str) -> Value {
    let (metric, value) = match kind {
        Kind::Counter => ("counter", "integer"),
        Kind::Gauge => ("gauge", "integer"),
        Kind::TimeAvg => ("gauge", "real-integer-pair"),
    };
    json!({
        "type": kind.bits(), "metric_type": metric, "value_type": value, "description": text, "nick": nick,
        "priority": priority, "units": if unit == 1 { "bytes" } else { "none" },
    })
}

/// `perf dump` or `perf schema` as `counter dump` and `counter schema` show them: each group of counters as a list with an entry for each
/// set of labels, of which ours have none.
pub fn labeled(groups: Value) -> Value {
    let Value::Object(groups) = groups else { unreachable!("groups of counters are an object") };
    Value::Object(groups.into_iter().map(|(name, counters)| (name, json!([{ "labels": {}, "counters": counters }]))).collect())
}

/// Values of all counters.
#[derive(Debug, Clone)]
pub struct Perf {
    values: Vec<u64>,
    counts: Vec<u64>,
    bins: [[u64; BINS]; HISTOGRAMS.len()],
}

impl Default for Perf {
    fn default() -> Self {
        Self { values: vec![0; COUNTERS.len()], counts: vec![0; COUNTERS.len()], bins: [[0; BINS]; HISTOGRAMS.len()] }
    }
}

impl Perf {
    #[inline]
    pub fn inc(&mut self, c: C) {
        self.values[c as usize] += 1;
    }
    #[inline]
    pub fn add(&mut self, c: C, by: u64) {
        self.values[c as usize] += by;
    }
    #[inline]
    pub fn set(&mut self, c: C, to: u64) {
        self.values[c as usize] = to;
    }
    /// Adds a span to a `TimeAvg`.
    #[inline]
    pub fn time(&mut self, c: C, ns: u64) {
        self.values[c as usize] += ns;
        self.counts[c as usize] += 1;
        match c {
            C::op_r_latency => self.bins[0][bin_of(ns)] += 1,
            C::op_w_latency | C::op_rw_latency => self.bins[1][bin_of(ns)] += 1,
            _ => {}
        }
    }
    /// What a bin counts.
    pub fn bin(&self, histogram: usize, bin: usize) -> u64 {
        self.bins[histogram][bin]
    }
    pub fn get(&self, c: C) -> u64 {
        self.values[c as usize]
    }
    /// Value and count of the `i`th of [`COUNTERS`].
    pub fn at(&self, i: usize) -> (u64, u64) {
        (self.values[i], self.counts[i])
    }

    /// `perf dump`.
    pub fn dump(&self) -> Value {
        let mut osd = Map::new();
        for (i, (name, kind, ..)) in COUNTERS.iter().enumerate() {
            let value = match kind {
                Kind::TimeAvg => {
                    let (sum, n) = (self.values[i] as f64 * 1e-9, self.counts[i]);
                    json!({ "avgcount": n, "sum": sum, "avgtime": if n == 0 { 0.0 } else { sum / n as f64 } })
                }
                _ => json!(self.values[i]),
            };
            osd.insert((*name).into(), value);
        }
        json!({ "osd": osd })
    }

    /// `perf schema`.
    pub fn schema() -> Value {
        let mut osd = Map::new();
        for (name, kind, unit, prio, nick, text) in COUNTERS {
            osd.insert((*name).into(), described(*kind, *unit, *prio, nick, text));
        }
        json!({ "osd": osd })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_with_labels_are_those_without_in_a_list() {
        let (dump, schema) = (labeled(Perf::default().dump()), labeled(Perf::schema()));
        for shown in [&dump, &schema] {
            assert_eq!((&shown["osd"][0]["labels"], shown["osd"].as_array().map(Vec::len)), (&json!({}), Some(1)));
        }
        let counters = |shown: &Value| shown["osd"][0]["counters"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(counters(&dump), counters(&schema));
        assert_eq!(dump["osd"][0]["counters"]["op_latency"]["avgcount"], 0);
        assert_eq!(schema["osd"][0]["counters"]["op_latency"]["value_type"], "real-integer-pair");
    }

    #[test]
    fn a_span_is_in_the_first_bin_whose_bound_is_not_below_it() {
        for (ns, bin) in [(0, 0), (1, 0), (32_000, 0), (32_001, 1), (64_000, 1), (64_001, 2), (128_000, 2), (u64::MAX, BINS - 1)] {
            assert_eq!(bin_of(ns), bin, "{ns}");
        }
        let mut perf = Perf::default();
        perf.time(C::op_r_latency, 40_000);
        perf.time(C::op_rw_latency, 10_000_000_000);
        perf.time(C::op_latency, 40_000);
        assert_eq!((perf.bin(0, 1), perf.bin(1, BINS - 1)), (1, 1));
        assert_eq!(perf.bins.as_flattened().iter().sum::<u64>(), 2);
        assert_eq!((bin_name(0, 0).as_str(), bin_name(1, BINS - 1).as_str()), ("hist_op_read_latency.32000", "hist_op_write_latency.inf"));
    }
}
