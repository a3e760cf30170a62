//! Which OSDs of a host or a rack can be updated at one time: `osd ok-to-upgrade` of 20.2.
//!
//! OSDs are taken one by one, those with the fewest placement groups first, as long as every group keeps `min_size` copies without them.
//! Versions are those of the OSDs' metadata. Absent: any update, which is the operator's.

use super::osd_safety::Outlook;
use super::{CmdError, CmdResult, Command, Ctx, dump, mgr_cmd};
use crate::Mon;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use types::{OsdId, errno};

pub const COMMANDS: &[Command] = &[mgr_cmd(
    "osd ok-to-upgrade name=crush_bucket,type=CephString name=ceph_version,type=CephString name=max,type=CephInt,req=false",
    "which OSDs below a bucket can stop together to be updated to a version",
    "osd",
    "r",
    ok_to_upgrade,
)];

/// Kinds of buckets that may be asked for. All of a root at one time is no update that anybody wants.
const KINDS: [&str; 4] = ["rack", "chassis", "host", "osd"];

/// OSDs below a bucket, by what stands between them and the version.
#[derive(Debug, Default)]
struct Report {
    /// All of them, those with the fewest groups first.
    in_bucket: Vec<OsdId>,
    upgraded: Vec<OsdId>,
    no_version: Vec<OsdId>,
    /// Those that can stop together now.
    ok: Vec<OsdId>,
    /// Where none can stop: the fewest groups that one of them would make inactive.
    bad_groups: usize,
    /// Where nothing can be said: groups of which the manager has heard nothing.
    unknown_groups: usize,
}

impl Report {
    fn of(mon: &Mon, in_bucket: Vec<OsdId>, version: &str, most: usize) -> Self {
        let mut report = Self { in_bucket, ..Self::default() };
        let mut left = Vec::new();
        for osd in &report.in_bucket {
            let said = mon.osd.metadata.get(osd).and_then(|about| about.get("ceph_version_short")).filter(|said| !said.is_empty());
            match said {
                Some(said) if said == version => report.upgraded.push(*osd),
                Some(_) => left.push(*osd),
                None => report.no_version.push(*osd),
            }
        }
        // An OSD of which nothing is known may be of any version: the operator looks at it first.
        if !report.no_version.is_empty() {
            return report;
        }
        for osd in left {
            if report.ok.len() >= most {
                break;
            }
            let outlook = Outlook::of(mon, report.ok.iter().copied().chain([osd]).collect());
            report.unknown_groups = outlook.unknown_count();
            if report.unknown_groups > 0 {
                break;
            }
            if outlook.is_ok() {
                report.ok.push(osd);
            } else if report.bad_groups == 0 || outlook.bad_count() < report.bad_groups {
                report.bad_groups = outlook.bad_count();
            }
        }
        report
    }
    fn all_upgraded(&self) -> bool {
        self.upgraded.len() == self.in_bucket.len()
    }
    fn json(&self) -> Value {
        json!({
            "ok_to_upgrade": !self.ok.is_empty(),
            "all_osds_upgraded": self.all_upgraded(),
            "osds_in_crush_bucket": self.in_bucket,
            "osds_ok_to_upgrade": self.ok,
            "osds_upgraded": self.upgraded,
            "bad_no_version": self.no_version,
        })
    }
}

fn invalid<T>(text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno::EINVAL, text))
}

/// True for a `ceph_version_short` of metadata: `20.2.4`, `20.3.0-3803-g63ca1ffb5a21`. Stock's manager of 20.2.4 takes the second form
/// alone, and so no version of a release.
fn is_short_version(text: &str) -> bool {
    let (numbers, build) = text.split_once('-').map_or((text, None), |(numbers, build)| (numbers, Some(build)));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let is_build = |build: &str| !build.is_empty() && build.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.+~_".contains(&b));
    numbers.split('.').count() == 3 && numbers.split('.').all(is_number) && build.is_none_or(is_build)
}

/// The OSDs below a bucket of that name, those with the fewest groups first.
fn osds_below(mon: &Mon, name: &str) -> Result<Vec<OsdId>, CmdError> {
    let (map, pgs) = (&mon.osd.map, &mon.manager.pgs);
    let Some(id) = map.crush.item_id(name) else {
        return Err(CmdError::new(errno::ENOENT, format!("\"{name}\" does not exist")));
    };
    let kind = map.crush.item_type(id).and_then(|kind| map.crush.type_name(kind)).unwrap_or_default();
    if !KINDS.contains(&kind) {
        return invalid(format!(
            "crush bucket \"{name}\" of type \"{kind}\" can't be asked for; valid types are: 'rack', 'chassis', 'host' and 'osd'"
        ));
    }
    let below: BTreeSet<OsdId> = if id >= 0 { [id].into() } else { map.crush.devices_below(id).into_keys().collect() };
    if below.is_empty() {
        return Err(CmdError::new(errno::ENOENT, format!("crush bucket \"{name}\" has no children")));
    }
    let groups = |osd: OsdId| pgs.pgs.values().filter(|s| s.acting.contains(&osd)).count();
    let mut osds: Vec<(usize, OsdId)> = below.into_iter().filter(|osd| map.exists(*osd)).map(|osd| (groups(osd), osd)).collect();
    osds.sort_unstable();
    Ok(osds.into_iter().map(|(_, osd)| osd).collect())
}

fn ok_to_upgrade(ctx: &mut Ctx<'_>) -> CmdResult {
    let most = match ctx.args.int("max")?.unwrap_or(0) {
        0 => usize::MAX,
        most => usize::try_from(most).or_else(|_| invalid("'max' must be non-negative"))?,
    };
    let (bucket, version) = (ctx.args.need("crush_bucket")?, ctx.args.need("ceph_version")?);
    if version.is_empty() {
        return invalid("missing required parameter ceph_version");
    }
    if !is_short_version(&version) {
        return invalid(format!("Invalid Ceph version (short) format '{version}': 20.2.4 is one"));
    }
    let mon = &*ctx.mon;
    let report = Report::of(mon, osds_below(mon, &bucket)?, &version, most);
    let json = report.json();
    let reply = ctx.answer(json.clone(), || dump(&json))?;
    Ok(match &report {
        _ if report.all_upgraded() || !report.ok.is_empty() => reply,
        Report { no_version, .. } if !no_version.is_empty() => {
            let text = format!("the version of {} OSD(s) is not known: start them once", no_version.len());
            reply.failed(errno::EINVAL, text)
        }
        Report { unknown_groups, .. } if *unknown_groups > 0 => {
            reply.failed(errno::EAGAIN, format!("{unknown_groups} pgs have unknown state; cannot draw any conclusions"))
        }
        Report { bad_groups, in_bucket, .. } => {
            let text = format!(
                "unsafe to upgrade osd(s) at this time (at least {bad_groups} PG(s) will become offline if any OSD out of the {} in CRUSH \
                 bucket '{bucket}' is stopped)",
                in_bucket.len()
            );
            reply.failed(errno::EBUSY, text)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_versions_are_those_of_metadata() {
        for good in ["20.2.4", "18.2.7", "20.3.0-3803-g63ca1ffb5a21", "20.1.0-145.el9cp", "01.00.00-gversion-test"] {
            assert!(is_short_version(good), "{good}");
        }
        for bad in ["", "foo", "20", "20.2", "20.2.", "20.2.4-", "20.2.4.1", "v20.2.4", "20.2.4 (abc)", "tentacle"] {
            assert!(!is_short_version(bad), "{bad}");
        }
    }
}
