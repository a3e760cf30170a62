//! The product of the axes: every combination but the excluded, with paired axes going side by side.

use super::file::{AxisEntry, Study};
use crate::value::{Point, Value};

/// What may be an axis: parameters of the server first, then of the load.
pub const SERVER: &[&str] = &["store", "auth", "osds", "replicas", "data", "wal", "meta", "fs", "memory"];
pub const WORK: &[&str] = &["op", "block", "depth", "jobs", "size", "cache"];

/// Axes that advance together, each with as many values as the others.
type Group<'a> = Vec<(&'a str, &'a [Value])>;

/// An axis with its values, if the study has it.
pub fn axis<'a>(study: &'a Study, name: &str) -> Option<(&'a str, &'a [Value])> {
    study.axes.iter().find_map(|(key, entry)| match entry.get_ref() {
        AxisEntry::Values(values) if key.get_ref() == name => Some((key.get_ref().as_str(), values.as_slice())),
        _ => None,
    })
}

/// Names of axes that advance together.
fn pairs(study: &Study) -> impl Iterator<Item = &Vec<String>> {
    let pairs = study.axes.iter().filter_map(|(key, entry)| match entry.get_ref() {
        AxisEntry::Pairs(pairs) if key.get_ref() == "pairs" => Some(pairs),
        _ => None,
    });
    pairs.flatten()
}

/// True if the axis advances with others.
pub fn paired(study: &Study, name: &str) -> bool {
    pairs(study).flatten().any(|n| n == name)
}

fn groups(study: &Study) -> Vec<Group<'_>> {
    let axis = |name: &str| axis(study, name);
    let mut groups: Vec<Group<'_>> = pairs(study).map(|names| names.iter().filter_map(|name| axis(name)).collect()).collect();
    let alone = study.axes.keys().filter(|key| !matches!(key.get_ref().as_str(), "pairs" | "exclude") && !paired(study, key.get_ref()));
    groups.extend(alone.filter_map(|key| axis(key.get_ref())).map(|axis| vec![axis]));
    groups
}

/// Every point of the study; one without axes has one.
pub fn points(study: &Study) -> Vec<Point> {
    let mut points = vec![Point::new()];
    for group in groups(study) {
        let length = group.first().map_or(0, |(_, values)| values.len());
        let with = |point: &Point, at: usize| {
            let mut point = point.clone();
            point.extend(group.iter().map(|(name, values)| (name.to_string(), values[at].clone())));
            point
        };
        points = points.iter().flat_map(|point| (0..length).map(|at| with(point, at)).collect::<Vec<_>>()).collect();
    }
    let excluded: Vec<&Point> = excluded(study).collect();
    points.retain(|point| !excluded.iter().any(|part| has(point, part)));
    points
}

/// What the axes exclude.
fn excluded(study: &Study) -> impl Iterator<Item = &Point> {
    let parts = study.axes.values().filter_map(|entry| match entry.get_ref() {
        AxisEntry::Exclude(parts) => Some(parts),
        _ => None,
    });
    parts.flatten()
}

/// `part` is of `point`; an empty one is of none.
pub fn has(point: &Point, part: &Point) -> bool {
    !part.is_empty() && part.iter().all(|(axis, value)| point.get(axis) == Some(value))
}
