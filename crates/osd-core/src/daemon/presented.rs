//! The version that an OSD presents: its cluster's, as the monitor says it.
//!
//! Tools compare versions of daemons. The monitors' health check `DAEMON_OLD_VERSION`, Rook and cephadm wait until all OSDs say the same
//! one, and Proxmox VE marks the others as outdated. An OSD that speaks as its cluster does therefore says its cluster's version, and its
//! own in a field beside it. A monitor of 18.2 is not asked: [`options::VERSION`] is the version there.
//!
//! Monitors change their version by a restart, which ends our session: the version is asked in each session. Monitors keep an OSD's word of
//! itself from its boot, so a later answer counts from the next boot on. Until then a running OSD says the version that it booted with, as
//! a stock OSD does until its restart. Absent: what the version obliges us to, which are feature bits.

use maps::Release;
use types::OsdId;

/// The monitors' command whose answer has the version.
pub(super) const COMMAND: &str = "version";

/// A version, as the fields of an OSD's metadata have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Presented {
    /// `ceph version 20.2.4 (SHA) tentacle (stable)`.
    long: String,
    /// `20.2.4`.
    short: String,
    release: Release,
}

impl Presented {
    /// Reads a monitor's answer. `None` for an answer that is no version, and for a release that this OSD can't stand for: one before 18.2
    /// or after 20.2.
    pub fn parse(answer: &[u8]) -> Option<Self> {
        let long = std::str::from_utf8(answer).ok()?.trim();
        let mut words = long.strip_prefix("ceph version ")?.split_whitespace();
        let short = words.next().filter(|short| short.starts_with(|c: char| c.is_ascii_digit()))?;
        let release = words.find_map(Release::parse)?;
        let speaks = (Release::REEF..=Release::TENTACLE).contains(&release) && !long.contains(char::is_control);
        speaks.then(|| Self { long: long.into(), short: short.into(), release })
    }
    /// The version of a cluster whose monitors are not asked.
    pub fn unasked() -> Self {
        Self { long: String::new(), short: options::VERSION.into(), release: Release::REEF }
    }
    /// A line for the log where the monitors' version rises from this one; the OSD has this number.
    pub fn rises_to(&self, newer: &Self, osd: OsdId) -> Option<String> {
        let (old, new, name) = (&self.short, &newer.short, newer.release.name());
        (self.release < newer.release).then(|| {
            format!(
                "the monitors are of {new} ({name}) now, and this OSD says {old} until it boots again: restart it, or `ceph osd down {osd}`"
            )
        })
    }
    /// Takes the place of the version that stands in the metadata.
    pub fn put(&self, metadata: &mut Vec<(String, String)>) {
        let fields =
            [("ceph_version", self.long.as_str()), ("ceph_version_short", self.short.as_str()), ("ceph_release", self.release.name())];
        metadata.retain(|(name, _)| fields.iter().all(|(field, _)| name != field));
        metadata.extend(fields.map(|(name, value)| (name.to_string(), value.to_string())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_taken_over_as_the_monitor_says_it() {
        let said = "ceph version 20.2.4 (8f7a5c91d7) tentacle (stable - RelWithDebInfo)";
        let presented = Presented::parse(format!("{said}\n").as_bytes()).unwrap();
        let field = |name: &str, value: &str| (name.to_string(), value.to_string());
        let mut metadata = vec![field("arch", "x86_64"), field("ceph_version", "ceph version 18.2.7"), field("ceph_release", "reef")];
        presented.put(&mut metadata);
        metadata.sort();
        let want = [
            field("arch", "x86_64"),
            field("ceph_release", "tentacle"),
            field("ceph_version", said),
            field("ceph_version_short", "20.2.4"),
        ];
        assert_eq!(metadata, want);
        for said in ["ceph version 18.2.4 (ab) reef (stable)", "ceph version 19.2.3-1 (ab) squid (stable)"] {
            assert!(Presented::parse(said.as_bytes()).is_some(), "{said}");
        }
    }

    #[test]
    fn a_release_that_rises_is_told_with_the_next_step() {
        let [old, point, new] = ["20.2.3 (ab) tentacle", "20.2.4 (ab) tentacle", "19.2.3 (ab) squid"]
            .map(|text| Presented::parse(format!("ceph version {text} (stable)").as_bytes()).unwrap());
        let reef = Presented::unasked();
        let told =
            "the monitors are of 19.2.3 (squid) now, and this OSD says 18.2.7 until it boots again: restart it, or `ceph osd down 3`";
        assert_eq!(reef.rises_to(&new, 3).as_deref(), Some(told));
        assert!(new.rises_to(&old, 3).is_some());
        assert_eq!((old.rises_to(&point, 3), old.rises_to(&new, 3), reef.rises_to(&reef, 3)), (None, None, None));
    }

    #[test]
    fn an_answer_that_is_no_version_of_ours_is_none() {
        let answers: [&[u8]; 8] = [
            b"",
            b"ceph version ",
            b"ceph version 21.1.0 (ab) umbrella (dev)",
            b"ceph version 17.2.7 (ab) quincy (stable)",
            b"ceph version tentacle 20.2.4",
            b"version 20.2.4 tentacle",
            b"ceph version 20.2.4 (\x07) tentacle (stable)",
            b"ceph version 20.2.4 (\xff) tentacle (stable)",
        ];
        for answer in answers {
            assert_eq!(Presented::parse(answer), None, "{}", answer.escape_ascii());
        }
    }
}
