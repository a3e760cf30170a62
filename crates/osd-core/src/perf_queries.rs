//! What a manager wants counted by client, pool or object: `rbd perf image iostat|iotop` ask so.
//!
//! A query has regular expressions over what an operation is, and counters. What the expressions' groups match is the key under which an
//! operation counts; each report gives what was counted since the last one. Without queries, an operation costs one look at an empty list.
//!
//! Source of the encodings: Ceph 18.2 `src/mgr/{OSDPerfMetricTypes,MetricTypes}.h`, and `src/osd/DynamicPerfStats.h` for what counts.

use denc::{Decoder, DencError, Encoder};
use messages::{Framed, Rest};
use regex_lite::Regex;
use std::collections::BTreeMap;
use types::{Bytes, CEPH_NOSNAP, CEPH_SNAPDIR, EntityAddr, HObject, OsdId, PgId, ReqId, SnapId, features};

/// Keys of one query between two reports; what comes later under others isn't counted.
const KEYS_MAX: usize = 8192;
/// More queries than managers have.
const QUERIES_MAX: usize = 64;
/// `MetricReportType::METRIC_REPORT_TYPE_OSD`.
const REPORT_OSD: u32 = 0;

/// An operation that was answered.
pub struct Seen<'a> {
    pub reqid: &'a ReqId,
    pub client: Option<EntityAddr>,
    pub pgid: PgId,
    pub hobj: &'a HObject,
    pub reads: bool,
    pub writes: bool,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub took_ns: u64,
}

/// `PerformanceCounterType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counter(u8);

impl Counter {
    const LATENCY: u8 = 6;
    const LAST: u8 = 8;

    /// Of each three, the first counts all, the second writes, the third reads.
    fn counts(self, seen: &Seen<'_>) -> bool {
        match self.0 % 3 {
            0 => true,
            1 => seen.writes,
            _ => seen.reads,
        }
    }
    fn add(self, seen: &Seen<'_>, (sum, count): &mut (u64, u64)) {
        if !self.counts(seen) {
            return;
        }
        match self.0 {
            0..3 => *sum += 1,
            3 => *sum += seen.bytes_in + seen.bytes_out,
            4 => *sum += seen.bytes_in,
            5 => *sum += seen.bytes_out,
            _ => {
                *sum += seen.took_ns;
                *count += 1;
            }
        }
    }
}

/// What each expression's groups matched.
type Key = Vec<Vec<String>>;

#[derive(Debug)]
struct Query {
    /// As it came: the report names it so.
    name: Framed,
    /// What to look at (`OSDPerfMetricSubKeyType`), and the expression.
    subkeys: Vec<(u8, Regex)>,
    counters: Vec<Counter>,
    /// How many keys a report may have, and by which counter they are chosen; the widest limit is held to.
    limit: Option<(usize, Counter)>,
    found: BTreeMap<Key, Vec<(u64, u64)>>,
}

/// The manager's queries.
#[derive(Debug, Default)]
pub struct PerfQueries(Vec<Query>);

impl PerfQueries {
    /// Takes the manager's list in place of the last one. Queries that stay keep what they counted; what we can't do is left out.
    pub fn set(&mut self, wanted: &[(Framed, Vec<Framed>)]) {
        let mut old = std::mem::take(&mut self.0);
        for (name, limits) in wanted.iter().take(QUERIES_MAX) {
            let mut query = match old.iter().position(|q| q.name == *name) {
                Some(i) => old.swap_remove(i),
                None => match Query::parse(name) {
                    Some(query) => query,
                    None => continue,
                },
            };
            let limits = limits.iter().filter_map(|f| parse_limit(f).ok());
            query.limit = limits.filter(|(_, by)| query.counters.contains(by)).max_by_key(|(n, _)| *n);
            self.0.push(query);
        }
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[cold]
    pub fn count(&mut self, osd: OsdId, seen: &Seen<'_>) {
        for query in &mut self.0 {
            let Some(key) = query.key(osd, seen) else { continue };
            if query.found.len() >= KEYS_MAX && !query.found.contains_key(&key) {
                continue;
            }
            let sums = query.found.entry(key).or_insert_with(|| vec![(0, 0); query.counters.len()]);
            query.counters.iter().zip(sums).for_each(|(counter, sum)| counter.add(seen, sum));
        }
    }

    /// What was counted since the last report, as MMgrReport carries it; an empty list without queries.
    pub fn report(&mut self) -> Rest {
        let mut e = Encoder::new(features::SUPPORTED);
        e.u32(REPORT_OSD);
        e.frame(1, 1, |e| {
            e.count(self.0.len());
            for query in &mut self.0 {
                e.put(&query.name);
                query.report(e);
            }
        });
        Rest(e.finish())
    }
}

impl Query {
    fn parse(name: &Framed) -> Option<Self> {
        let (subkeys, counters) = Self::decode(name).ok()?;
        let mut compiled = Vec::new();
        for (kind, pattern) in subkeys {
            let regex = Regex::new(&pattern).ok().filter(|r| r.captures_len() > 1)?;
            compiled.push((kind, regex));
        }
        let useful = !compiled.is_empty() && !counters.is_empty();
        useful.then(|| Self { name: name.clone(), subkeys: compiled, counters, limit: None, found: BTreeMap::new() })
    }
    #[allow(clippy::type_complexity)]
    fn decode(name: &Framed) -> Result<(Vec<(u8, String)>, Vec<Counter>), DencError> {
        // The manager's bytes live in its message; what we keep is ours.
        let mut d = Decoder::new(Bytes::copy_from_slice(&name.0));
        d.frame("OSDPerfMetricQuery", 1, |d, _| {
            let (mut subkeys, mut counters) = (Vec::new(), Vec::new());
            for _ in 0..d.varint()? {
                subkeys.push(d.frame("OSDPerfMetricSubKeyDescriptor", 1, |d, _| Ok((d.u8()?, d.string()?)))?);
            }
            for _ in 0..d.varint()? {
                counters.push(counter(d)?);
            }
            if subkeys.iter().any(|(kind, _)| *kind > 7) || counters.iter().any(|c| c.0 > Counter::LAST) {
                return Err(d.invalid("a query over what we don't know"));
            }
            Ok((subkeys, counters))
        })
    }

    fn key(&self, osd: OsdId, seen: &Seen<'_>) -> Option<Key> {
        let mut key = Vec::with_capacity(self.subkeys.len());
        for (kind, regex) in &self.subkeys {
            let text = match kind {
                0 => seen.reqid.name.to_string(),
                1 => seen.client.map(|a| a.to_string()).unwrap_or_default(),
                2 => seen.pgid.pool.to_string(),
                3 => seen.hobj.nspace.to_string(),
                4 => osd.to_string(),
                5 => seen.pgid.to_string(),
                6 => seen.hobj.oid.to_string(),
                _ => snap_text(seen.hobj.snap),
            };
            let groups = regex.captures(&text)?;
            key.push(groups.iter().skip(1).map(|g| g.map_or_else(String::new, |m| m.as_str().to_string())).collect());
        }
        Some(key)
    }

    fn report(&mut self, e: &mut Encoder) {
        let mut found: Vec<(Key, Vec<(u64, u64)>)> = std::mem::take(&mut self.found).into_iter().collect();
        if let Some((max, by)) = self.limit.filter(|(max, _)| *max < found.len()) {
            let at = self.counters.iter().position(|c| *c == by).expect("a limit is by one of the counters");
            found.sort_by_key(|(_, sums)| std::cmp::Reverse(sums[at]));
            found.truncate(max);
            found.sort();
        }
        e.frame(1, 1, |e| {
            e.varint(self.counters.len() as u64);
            for counter in &self.counters {
                e.frame(1, 1, |e| e.u8(counter.0));
            }
            e.count(found.len());
            for (key, sums) in &found {
                e.put(key);
                let mut packed = Encoder::new(features::SUPPORTED);
                for (counter, (sum, count)) in self.counters.iter().zip(sums) {
                    packed.u64(*sum);
                    if counter.0 >= Counter::LATENCY {
                        packed.u64(*count);
                    }
                }
                e.put(&packed.finish());
            }
        });
    }
}

fn snap_text(snap: SnapId) -> String {
    match snap {
        CEPH_NOSNAP => "head".into(),
        CEPH_SNAPDIR => "snapdir".into(),
        _ => format!("{snap:x}"),
    }
}
fn counter(d: &mut Decoder) -> Result<Counter, DencError> {
    d.frame("PerformanceCounterDescriptor", 1, |d, _| Ok(Counter(d.u8()?)))
}
fn parse_limit(f: &Framed) -> Result<(usize, Counter), DencError> {
    Decoder::new(f.0.clone()).frame("OSDPerfMetricLimit", 1, |d, _| {
        let by = counter(d)?;
        Ok((usize::try_from(d.u64()?).unwrap_or(usize::MAX), by))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::EntityName;

    fn query(subkeys: &[(u8, &str)], counters: &[u8]) -> Framed {
        let mut e = Encoder::new(features::SUPPORTED);
        e.frame(1, 1, |e| {
            e.varint(subkeys.len() as u64);
            for (kind, regex) in subkeys {
                e.frame(1, 1, |e| {
                    e.u8(*kind);
                    e.put(&regex.to_string());
                });
            }
            e.varint(counters.len() as u64);
            counters.iter().for_each(|c| e.frame(1, 1, |e| e.u8(*c)));
        });
        Framed(e.finish())
    }
    fn limit(by: u8, max: u64) -> Framed {
        let mut e = Encoder::new(features::SUPPORTED);
        e.frame(1, 1, |e| {
            e.frame(1, 1, |e| e.u8(by));
            e.u64(max);
        });
        Framed(e.finish())
    }
    /// Key and packed counters of a report with one query.
    fn read(report: Rest) -> Vec<(Key, Vec<u64>)> {
        let mut d = Decoder::new(report.0);
        assert_eq!(d.u32().unwrap(), REPORT_OSD);
        d.frame("payload", 1, |d, _| {
            assert_eq!(d.u32()?, 1);
            let _name: Framed = d.get()?;
            d.frame("report", 1, |d, _| {
                for _ in 0..d.varint()? {
                    counter(d)?;
                }
                let found: BTreeMap<Key, Bytes> = d.get()?;
                Ok(found.into_iter().map(|(k, v)| (k, v.chunks(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect())).collect())
            })
        })
        .unwrap()
    }

    #[test]
    fn images_are_told_apart() {
        let images = query(&[(2, "^(.*)$"), (6, r"^rbd_data\.(?:([0-9]+)\.)?([^.]+)\.")], &[1, 2, 4, 7]);
        let mut q = PerfQueries::default();
        q.set(&[(query(&[(6, "no groups")], &[0]), vec![]), (query(&[(9, "(.)")], &[0]), vec![]), (images.clone(), vec![limit(1, 2)])]);
        let reqid = ReqId { name: EntityName::default(), ..ReqId::default() };
        let mut op = |object: &str, writes: bool, bytes: u64| {
            let hobj = HObject { oid: object.into(), ..HObject::default() };
            let (bytes_in, bytes_out) = if writes { (bytes, 0) } else { (0, bytes) };
            let pgid = PgId::new(3, 1);
            q.count(0, &Seen { reqid: &reqid, client: None, pgid, hobj: &hobj, reads: !writes, writes, bytes_in, bytes_out, took_ns: 5 });
        };
        op("rbd_data.1f.0001", true, 100);
        op("rbd_data.1f.0002", true, 10);
        op("rbd_data.1f.0002", false, 999);
        op("rbd_header.1f", true, 7);
        op("rbd_data.7.2a.0001", true, 1);
        op("rbd_data.3c.0001", false, 1);
        let key = |a: &str, b: &str| vec![vec!["3".to_string()], vec![a.to_string(), b.to_string()]];
        // The two with most writes; the third has none.
        assert_eq!(read(q.report()), [(key("", "1f"), vec![2, 1, 110, 10, 2]), (key("7", "2a"), vec![1, 0, 1, 5, 1])]);
        assert!(read(q.report()).is_empty(), "what was told is told once");
        q.set(&[]);
        assert!(q.is_empty());
        assert_eq!(&q.report().0[..], b"\0\0\0\0\x01\x01\x04\0\0\0\0\0\0\0");
    }
}
