//! What each client does: OSDs count it while a browser looks, by a query as managers send it (`OSDPerfMetricQuery`).
//!
//! Nothing is counted while none looks, and nothing is kept: a client is known from the last report of each OSD.

use super::counters::DaemonRates;
use base::Stamp;
use denc::{Decoder, DencError, Encoder};
use messages::{Framed, Rest};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{Bytes, OsdId, features};

/// Clients of one OSD that are told, those that do most.
const CLIENTS_MAX: u64 = 64;
/// A report that is older says nothing of now.
const FRESH: Duration = Duration::from_secs(4);
/// What is asked for of each client (`OSDPerfMetricSubKeyType`): its name and its address.
const KEYS: [u8; 2] = [0, 1];
/// What is counted (`PerformanceCounterType`): operations, then reads and writes, bytes of both, latencies of both.
const COUNTERS: [u8; 7] = [0, 2, 1, 5, 4, 8, 7];
/// From this counter on, a sum has its count beside it.
const LATENCIES: u8 = 6;

/// The query, with how many clients a report may name, as MMgrConfigure carries it.
pub fn query() -> (Framed, Vec<Framed>) {
    let mut e = Encoder::new(features::SUPPORTED);
    e.frame(1, 1, |e| {
        e.varint(KEYS.len() as u64);
        for kind in KEYS {
            e.frame(1, 1, |e| {
                e.u8(kind);
                e.put(&"^(.*)$".to_string());
            });
        }
        e.varint(COUNTERS.len() as u64);
        COUNTERS.iter().for_each(|c| e.frame(1, 1, |e| e.u8(*c)));
    });
    let mut limit = Encoder::new(features::SUPPORTED);
    limit.frame(1, 1, |e| {
        e.frame(1, 1, |e| e.u8(COUNTERS[0]));
        e.u64(CLIENTS_MAX);
    });
    (Framed(e.finish()), vec![Framed(limit.finish())])
}

/// A client by name and address.
pub type ClientKey = (String, String);

/// See the module.
#[derive(Debug, Default)]
pub struct Clients(BTreeMap<OsdId, (Stamp, BTreeMap<ClientKey, DaemonRates>)>);

/// Counters of each client, as one report has them.
fn decode(report: &Rest) -> Result<Vec<(ClientKey, Vec<(u64, u64)>)>, DencError> {
    let mut out = Vec::new();
    let mut d = Decoder::new(report.0.clone());
    d.u32()?;
    d.frame("the report of queries", 1, |d, _| {
        for _ in 0..d.count(6)? {
            let name: Framed = d.get()?;
            let ours = name == query().0;
            d.frame("the report of a query", 1, |d, _| {
                let mut counters = Vec::new();
                for _ in 0..d.varint()? {
                    counters.push(d.frame("a counter", 1, |d, _| d.u8())?);
                }
                let found: BTreeMap<Vec<Vec<String>>, Bytes> = d.get()?;
                for (key, packed) in found.into_iter().filter(|_| ours) {
                    let text = |i: usize| key.get(i).and_then(|groups| groups.first()).cloned().unwrap_or_default();
                    let mut values = Decoder::new(packed);
                    let mut row = Vec::new();
                    for counter in &counters {
                        let sum = values.u64()?;
                        row.push((sum, if *counter >= LATENCIES { values.u64()? } else { 0 }));
                    }
                    out.push(((text(0), text(1)), row));
                }
                Ok(())
            })?;
        }
        Ok(())
    })?;
    Ok(out)
}

impl Clients {
    /// Takes what an OSD counted since its report before.
    pub fn take(&mut self, osd: OsdId, report: &Rest, now: Stamp) -> Result<(), DencError> {
        let rows = decode(report)?;
        let last = self.0.get(&osd).map(|(at, _)| *at);
        let span_s = last.map_or(1.0, |at| now.since(at).as_secs_f64()).max(0.2);
        let rates = |row: &[(u64, u64)]| {
            let at = |i: usize| row.get(i).copied().unwrap_or_default();
            let per_s = |i: usize| at(i).0 as f64 / span_s;
            let mean_us = |i: usize| if at(i).1 == 0 { 0.0 } else { at(i).0 as f64 / at(i).1 as f64 / 1000.0 };
            DaemonRates {
                read_ops: per_s(1),
                write_ops: per_s(2),
                read_bytes: per_s(3),
                write_bytes: per_s(4),
                read_us: mean_us(5),
                write_us: mean_us(6),
            }
        };
        self.0.insert(osd, (now, rows.iter().map(|(key, row)| (key.clone(), rates(row))).collect()));
        Ok(())
    }
    /// Clients over all OSDs, those that do most first.
    pub fn busiest(&self, now: Stamp) -> Vec<(ClientKey, DaemonRates)> {
        let mut all: BTreeMap<&ClientKey, DaemonRates> = BTreeMap::new();
        for (_, clients) in self.0.values().filter(|(at, _)| now.since(*at) < FRESH) {
            for (key, r) in clients {
                let sum = all.entry(key).or_default();
                // Means, weighted by how many they are of.
                let mean = |a_us: f64, a: f64, b_us: f64, b: f64| if a + b > 0.0 { (a_us * a + b_us * b) / (a + b) } else { 0.0 };
                sum.read_us = mean(sum.read_us, sum.read_ops, r.read_us, r.read_ops);
                sum.write_us = mean(sum.write_us, sum.write_ops, r.write_us, r.write_ops);
                sum.read_ops += r.read_ops;
                sum.write_ops += r.write_ops;
                sum.read_bytes += r.read_bytes;
                sum.write_bytes += r.write_bytes;
            }
        }
        let mut out: Vec<_> = all.into_iter().map(|(key, rates)| (key.clone(), rates)).collect();
        out.sort_by(|a, b| (b.1.read_ops + b.1.write_ops).total_cmp(&(a.1.read_ops + a.1.write_ops)));
        out
    }
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report as an OSD writes it.
    fn report(clients: &[(&str, [u64; 9])]) -> Rest {
        let mut e = Encoder::new(features::SUPPORTED);
        e.u32(0);
        e.frame(1, 1, |e| {
            e.count(1);
            e.put(&query().0);
            e.frame(1, 1, |e| {
                e.varint(COUNTERS.len() as u64);
                COUNTERS.iter().for_each(|c| e.frame(1, 1, |e| e.u8(*c)));
                e.count(clients.len());
                for (name, values) in clients {
                    e.put(&vec![vec![name.to_string()], vec!["127.0.0.1:0/7".to_string()]]);
                    let mut packed = Encoder::new(features::SUPPORTED);
                    values.iter().for_each(|v| packed.u64(*v));
                    e.put(&packed.finish());
                }
            });
        });
        Rest(e.finish())
    }

    #[test]
    fn what_clients_did_is_told_per_second_over_all_osds() {
        let at = |s: u64| Stamp(s * 1_000_000_000);
        let mut c = Clients::default();
        for osd in [0, 1] {
            c.take(osd, &report(&[]), at(1)).unwrap();
        }
        // ops, reads, writes, read bytes, written bytes, read latency with its count, write latency with its count
        c.take(0, &report(&[("client.5", [30, 10, 20, 100, 200, 20_000, 10, 40_000, 20])]), at(3)).unwrap();
        c.take(1, &report(&[("client.5", [10, 10, 0, 100, 0, 60_000, 10, 0, 0]), ("client.6", [2, 0, 2, 0, 8, 0, 0, 2000, 2])]), at(3))
            .unwrap();
        let all = c.busiest(at(4));
        assert_eq!(all.iter().map(|(key, _)| key.0.as_str()).collect::<Vec<_>>(), ["client.5", "client.6"]);
        let r = all[0].1;
        assert_eq!((r.read_ops, r.write_ops, r.read_bytes, r.write_bytes, r.read_us, r.write_us), (10.0, 10.0, 100.0, 100.0, 4.0, 2.0));
        assert!(c.busiest(at(60)).is_empty(), "an old report says nothing of now");
        assert!(c.take(0, &Rest(Bytes::from_static(&[0, 0, 0, 0, 1, 1, 9, 0, 0, 0])), at(5)).is_err());
    }
}
