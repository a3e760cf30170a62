//! What a study must fulfil beyond its syntax: names that mean something, values that can be had, references that lead somewhere.

use super::Wrong;
use super::axes;
use super::file::{AxisEntry, Base, Claim, Device, Drill, Load, Study, Target};
use crate::claims::quantity::Quantity;
use crate::load::{Op, Tool, course};
use crate::target::Kind;
use crate::target::device::ROLES;
use crate::target::osds::{self, Action};
use crate::value::{Filter, Point, Value, parse_size};
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;

type Checked = Result<(), Wrong>;

fn wrong(span: Range<usize>, message: impl Into<String>) -> Wrong {
    Wrong { span, message: message.into() }
}

/// The file's version that we read.
const VERSION: i64 = 1;

pub(super) fn check(study: &Study) -> Checked {
    if *study.lab.get_ref() != VERSION {
        return Err(wrong(
            study.lab.span(),
            format!("lab = {} is another version's format; this one reads {VERSION}", study.lab.get_ref()),
        ));
    }
    let name = study.name();
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) || name.starts_with('.') {
        return Err(wrong(study.name.span(), "a study's name is made of letters, digits, - and _: it becomes a folder's name"));
    }
    if study.targets.is_empty() {
        return Err(wrong(study.name.span(), "a study needs at least one [[target]]"));
    }
    if study.loads.is_empty() {
        return Err(wrong(study.name.span(), "a study needs at least one [[load]]"));
    }
    check_axes(study)?;
    let devices: BTreeSet<&str> = study.devices.iter().map(|d| d.get_ref().name.as_str()).collect();
    let mut names = BTreeSet::new();
    for target in &study.targets {
        if !names.insert(target.get_ref().name.as_str()) {
            return Err(wrong(target.span(), format!("two targets are called {}", target.get_ref().name)));
        }
        check_target(target, &devices)?;
    }
    study.devices.iter().try_for_each(check_device)?;
    study.loads.iter().try_for_each(|load| check_load(study, load))?;
    study.claims.iter().try_for_each(check_claim)?;
    study.drills.iter().try_for_each(check_drill)?;
    study.base.iter().try_for_each(check_base)?;
    check_rules(study, &names)?;
    for price in &study.prices {
        let named = price.get_ref();
        if !names.contains(named.target.as_str()) {
            return Err(wrong(price.span(), format!("no target is called {}", named.target)));
        }
        named.settle().map_err(|e| wrong(price.span(), e))?;
    }
    if axes::points(study).is_empty() {
        return Err(wrong(study.name.span(), "[axes] leaves no point: an axis is empty or everything is excluded"));
    }
    Ok(())
}

fn check_axes(study: &Study) -> Checked {
    let is_axis = |name: &str| axes::SERVER.contains(&name) || axes::WORK.contains(&name);
    for (key, entry) in &study.axes {
        let (name, span) = (key.get_ref().as_str(), key.span());
        match (name, entry.get_ref()) {
            // An empty list reads as values.
            ("exclude" | "pairs", AxisEntry::Values(values)) if values.is_empty() => {}
            ("exclude", AxisEntry::Exclude(_)) => {}
            ("exclude", _) => return Err(wrong(span, "exclude is a list of tables: [{ depth = 1, op = \"read\" }]")),
            ("pairs", AxisEntry::Pairs(pairs)) => {
                for pair in pairs {
                    let length = |name: &String| axes::axis(study, name).map(|(_, values)| values.len());
                    let lengths: BTreeSet<Option<usize>> = pair.iter().map(length).collect();
                    if lengths.len() != 1 || lengths.contains(&None) {
                        return Err(wrong(span, format!("pairs: {} are not axes of as many values", pair.join(" and "))));
                    }
                    let columns: Vec<_> = pair.iter().filter_map(|name| axes::axis(study, name)).map(|(_, values)| values).collect();
                    let count = lengths.into_iter().flatten().next().unwrap_or(0);
                    let together: BTreeSet<Vec<&Value>> = (0..count).map(|at| columns.iter().map(|c| &c[at]).collect()).collect();
                    if together.len() != count {
                        return Err(wrong(span, format!("pairs: {} have the same values at two places", pair.join(" and "))));
                    }
                }
            }
            ("pairs", _) => return Err(wrong(span, "pairs is a list of lists of axes: [[\"block\", \"depth\"]]")),
            (name, AxisEntry::Values(values)) if is_axis(name) => {
                // Of axes that go side by side, the values together are each there once.
                let again = values.iter().collect::<BTreeSet<_>>().len() != values.len() && !axes::paired(study, name);
                if again || values.is_empty() {
                    return Err(wrong(entry.span(), format!("axis {name} has no value or one twice")));
                }
                for value in values {
                    check_axis_value(name, &value.to_string()).map_err(|e| wrong(entry.span(), e))?;
                }
            }
            (name, _) if is_axis(name) => return Err(wrong(entry.span(), format!("axis {name} is a list of values"))),
            (name, _) => {
                let known = [axes::SERVER, axes::WORK].concat().join(", ");
                return Err(wrong(span, format!("unknown axis `{name}`, expected one of {known}, exclude, pairs")));
            }
        }
    }
    for (key, entry) in &study.axes {
        if let AxisEntry::Exclude(parts) = entry.get_ref() {
            check_excluded(study, parts).map_err(|e| wrong(key.span(), e))?;
        }
    }
    Ok(())
}

/// Each part names values that axes have: another one would exclude nothing, and say so nowhere.
fn check_excluded(study: &Study, parts: &[Point]) -> Result<(), String> {
    for (name, value) in parts.iter().flatten() {
        match axes::axis(study, name) {
            None => return Err(format!("exclude: {name} is no axis of this study")),
            Some((_, values)) if !values.contains(value) => return Err(format!("exclude: axis {name} has no value {value}")),
            Some(_) => {}
        }
    }
    Ok(())
}

fn check_axis_value(axis: &str, value: &str) -> Result<(), String> {
    let one_of = |list: &[&str]| {
        list.contains(&value).then_some(()).ok_or_else(|| format!("{axis} = {value}: one of {} is wanted", list.join(", ")))
    };
    match axis {
        "store" => one_of(&["mem", "block", "file"]),
        "auth" => one_of(&["cephx", "none"]),
        "fs" => one_of(&["xfs", "ext4", "cephfs"]),
        "op" => Op::parse(value).map(drop),
        "block" | "size" | "memory" => parse_size(value).map(drop),
        "depth" | "jobs" | "osds" | "replicas" => match value.parse::<u32>() {
            Ok(1..=4096) => Ok(()),
            _ => Err(format!("{axis} = {value}: a number from 1 to 4096 is wanted")),
        },
        "cache" => one_of(&["true", "false"]),
        _ => Ok(()),
    }
}

fn check_target(target: &Spanned<Target>, devices: &BTreeSet<&str>) -> Checked {
    let (t, span) = (target.get_ref(), target.span());
    let kind = Kind::parse(&t.kind).map_err(|e| wrong(span.clone(), e))?;
    if t.name.is_empty() {
        return Err(wrong(span, "a target's name is empty"));
    }
    match (&t.release, kind) {
        (Some(r), Kind::Ceph) if ["16.2", "18.2", "20.2"].contains(&r.as_str()) => {}
        (Some(r), Kind::Ceph) => return Err(wrong(span, format!("release = {r}: 16.2, 18.2 or 20.2 is wanted"))),
        (None, Kind::Ceph) => return Err(wrong(span, "a ceph target needs release = \"16.2\", \"18.2\" or \"20.2\"")),
        (Some(_), _) => return Err(wrong(span, "release is a ceph target's")),
        (None, _) => {}
    }
    for device in [&t.data, &t.wal, &t.meta].into_iter().flatten() {
        if !devices.contains(device.as_str()) {
            return Err(wrong(span, format!("no [[device]] is called {device}")));
        }
    }
    if kind == Kind::Device && t.data.is_none() {
        return Err(wrong(span, "a device target needs data = the name of a [[device]]"));
    }
    if kind == Kind::Existing && t.path.is_none() {
        return Err(wrong(span, "an existing cluster needs path = its ceph.conf"));
    }
    let axes = [("store", t.store.clone()), ("auth", t.auth.clone()), ("fs", t.fs.clone()), ("memory", t.memory.clone())];
    let numbers = [("osds", t.osds), ("replicas", t.replicas)].map(|(axis, n)| (axis, n.map(|n| n.to_string())));
    for (axis, value) in axes.into_iter().chain(numbers) {
        value.map_or(Ok(()), |v| check_axis_value(axis, &v)).map_err(|e| wrong(span.clone(), e))?;
    }
    Filter::parse(t.only.as_deref().unwrap_or_default()).map(drop).map_err(|e| wrong(span, e))
}

fn check_device(device: &Spanned<Device>) -> Checked {
    let (d, span) = (device.get_ref(), device.span());
    match d.kind.as_str() {
        "file" | "loop" | "ram" if d.size.is_none() => return Err(wrong(span, format!("device {}: a {} needs a size", d.name, d.kind))),
        "path" if d.path.is_none() => return Err(wrong(span, format!("device {}: path is missing", d.name))),
        "file" | "loop" | "ram" | "path" => {}
        other => return Err(wrong(span, format!("device {}: unknown kind `{other}`, expected file, loop, ram or path", d.name))),
    }
    if d.model.is_some() && d.kind == "path" {
        return Err(wrong(span, format!("device {}: a modelled device is a loop, ram or file", d.name)));
    }
    if d.throttle.is_some() && d.kind == "file" {
        return Err(wrong(span, format!("device {}: the kernel throttles block devices: a loop, ram or path is wanted", d.name)));
    }
    let (m, t) = (d.model.clone().unwrap_or_default(), d.throttle.clone().unwrap_or_default());
    let numbers = [m.seek_us, m.seek_min_us, m.flush_us, m.cache_mib, m.discard_us].into_iter().chain([m.mib_s, m.cache_mib_s]);
    let rates = [t.read_iops, t.write_iops, t.read_mib_s, t.write_mib_s];
    if numbers.flatten().any(|n| n < 0) || rates.into_iter().chain([m.mib_s, m.cache_mib_s, m.rpm]).flatten().any(|n| n < 1) {
        return Err(wrong(span, format!("device {}: times are 0 or more, rates 1 or more", d.name)));
    }
    if m.seek_min_us > m.seek_us || (m.rpm.is_some() && m.mib_s.is_none()) {
        return Err(wrong(
            span,
            format!("device {}: seek_min_us is at most seek_us, and rpm needs mib_s: a track has what passes in a turn", d.name),
        ));
    }
    if !m.disks.is_none_or(|n| (1..=64).contains(&n)) || !m.stripe_kib.is_none_or(|n| (4..=1 << 20).contains(&n)) {
        return Err(wrong(span, format!("device {}: 1 to 64 disks, with stripes of 4 KiB to 1 GiB", d.name)));
    }
    d.size.as_deref().map_or(Ok(0), parse_size).map(drop).map_err(|e| wrong(span, e))
}

fn check_drill(drill: &Spanned<Drill>) -> Checked {
    let (d, span) = (drill.get_ref(), drill.span());
    Action::parse(&d.action).map_err(|e| wrong(span.clone(), e))?;
    osds::number(&d.what).map_err(|e| wrong(span.clone(), e))?;
    if !matches!(d.until.as_deref(), None | Some("active+clean" | "first write")) {
        return Err(wrong(span, "until: active+clean or first write is wanted"));
    }
    match (0.0..3600.0).contains(&d.at_s) {
        true => Ok(()),
        false => Err(wrong(span, format!("at_s = {}: 0 to 3600 seconds are wanted", d.at_s))),
    }
}

fn check_base(base: &Spanned<Base>) -> Checked {
    let (b, span) = (base.get_ref(), base.span());
    if b.tool != "fio rbd" {
        return Err(wrong(span, format!("[base] tool = {}: fio rbd is wanted", b.tool)));
    }
    match b.share.iter().find(|share| !(0.001..=1.0).contains(*share)) {
        Some(bad) => Err(wrong(span, format!("share = {bad}: a share of the capacity is above 0 and at most 1"))),
        None if b.share.is_empty() => Err(wrong(span, "share is empty")),
        None => Ok(()),
    }
}

fn check_load(study: &Study, load: &Spanned<Load>) -> Checked {
    let (l, span) = (load.get_ref(), load.span());
    let tool = Tool::parse(&l.tool).map_err(|e| wrong(span.clone(), e))?;
    let numbers = [("depth", l.depth), ("jobs", l.jobs)].map(|(axis, n)| (axis, n.map(|n| n.to_string())));
    for (axis, value) in [("op", l.op.clone()), ("block", l.block.clone()), ("size", l.size.clone())].into_iter().chain(numbers) {
        value.map_or(Ok(()), |v| check_axis_value(axis, &v)).map_err(|e| wrong(span.clone(), e))?;
    }
    if let Some(twin) = &l.twin {
        Tool::parse(twin).map_err(|e| wrong(span.clone(), e))?;
    }
    match l.under.as_deref() {
        None => {}
        Some("base") if study.base.is_some() => {}
        Some("base") => return Err(wrong(span, "under = base: the study has no [base]")),
        Some(under) => match course(under) {
            Some(course) if study.drills.iter().any(|d| d.get_ref().course == course) => {}
            Some(_) => return Err(wrong(span, format!("under = {under}: the study has no such [[drill]]"))),
            None => return Err(wrong(span, format!("under = {under}: base or drill is wanted"))),
        },
    }
    if let Some(percentiles) = &study.rules.percentiles
        && !tool.has_histogram()
        && l.twin.is_none()
    {
        let message = format!("{} tells no latency histogram, so no percentile can be had of it: give it a twin", l.tool);
        return Err(wrong(percentiles.span(), message));
    }
    Filter::parse(l.only.as_deref().unwrap_or_default()).map(drop).map_err(|e| wrong(span, e))
}

fn check_claim(claim: &Spanned<Claim>) -> Checked {
    let (c, span) = (claim.get_ref(), claim.span());
    let quantity = c.quantity().map_err(|e| wrong(span.clone(), e))?;
    let sides = match (&c.ratio, quantity) {
        (Some(_), Quantity::Trace(_)) => return Err(wrong(span, "a trace is of one round, which no ratio can be had of")),
        (Some(ratio), _) => ratio.split_once('/').ok_or_else(|| wrong(span.clone(), "ratio has two sides: \"auth=none / auth=cephx\""))?,
        (None, _) => ("", ""),
    };
    match (&c.device, quantity) {
        (Some(name), Quantity::Trace(_)) if ROLES.contains(&name.as_str()) => {}
        (Some(name), Quantity::Trace(_)) => return Err(wrong(span, format!("device = {name}: one of {} is wanted", ROLES.join(", ")))),
        (Some(_), _) => return Err(wrong(span, "device is for what traces say: trace_synchronous, trace_overlapping, trace_reads")),
        (None, _) => {}
    }
    for text in [sides.0, sides.1, c.filter.as_str()] {
        Filter::parse(text).map_err(|e| wrong(span.clone(), e))?;
    }
    if c.at_least.is_none() && c.at_most.is_none() {
        return Err(wrong(span, "a claim needs at_least or at_most"));
    }
    Ok(())
}

fn check_rules(study: &Study, targets: &BTreeSet<&str>) -> Checked {
    let span = study.name.span();
    for set in [&study.rules.full, &study.rules.quick].into_iter().flatten() {
        let sane = (1..=1000).contains(&set.rounds) && (0.2..=86_400.0).contains(&set.seconds) && (0.0..=86_400.0).contains(&set.warm_s);
        if !sane {
            return Err(wrong(span, "[rules]: 1 to 1000 rounds of 0.2 to 86,400 seconds are wanted"));
        }
    }
    for set in [&study.rules.full, &study.rules.quick].into_iter().flatten() {
        // A form of the study may leave out targets and loads, too.
        let (named, axes): (Vec<_>, Vec<_>) =
            set.exclude.iter().flatten().partition(|(name, _)| matches!(name.as_str(), "target" | "load"));
        let axes: Point = axes.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        check_excluded(study, &[axes]).map_err(|e| wrong(span.clone(), format!("[rules]: {e}")))?;
        for (name, value) in named {
            let value = value.to_string();
            let is_load = |l: &Load| *l.name.as_ref().unwrap_or(&l.tool) == value;
            let there = if name == "load" { study.loads.iter().any(|l| is_load(l.get_ref())) } else { targets.contains(value.as_str()) };
            if !there {
                return Err(wrong(span, format!("[rules]: exclude: no {name} is called {value}")));
            }
        }
    }
    if let Some(control) = &study.rules.control
        && !targets.contains(control.get_ref().as_str())
    {
        return Err(wrong(control.span(), format!("control: no target is called {}", control.get_ref())));
    }
    if let Some(percentiles) = &study.rules.percentiles
        && let Some(bad) = percentiles.get_ref().iter().find(|p| !(0.0..100.0).contains(*p))
    {
        return Err(wrong(percentiles.span(), format!("{bad} is no percentile: above 0 and below 100 is wanted")));
    }
    if !(0.0..1.0).contains(&study.margin()) {
        return Err(wrong(span, "margin is a share: 0.03 is 3 %"));
    }
    Ok(())
}
