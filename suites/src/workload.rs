//! Upstream's random workload, `ceph_test_rados`: its mixes of operations by upstream's names and weights, and what it says when all that it read was
//! right. Knows no cluster, and no number of objects or operations: those are the caller's.

use crate::run::Output;
use anyhow::{Result, ensure};

/// What the program prints at the end of a run without a fault.
pub const CONTENT: &str = "0 errors.";

/// Small objects of 16 KiB. Upstream's suites end the strides at 3276; then each 1404th change is of no byte if it is an append: the length of change `n`
/// is `16807 * n % (3 * 3276)`, and 16807 is 7 to the fifth. On an object that is not there it makes an empty one, whose checksum is an empty list, which
/// the program takes for an error. With 5003 the first such change is the 15009th.
pub const SMALL: &str = "--size 16384 --min-stride-size 1638 --max-stride-size 5003";

/// One mix of operations.
pub struct Mix {
    pub letter: char,
    /// In COMPATIBILITY.md.
    pub name: &'static str,
    weights: &'static str,
}

pub const MIXES: [Mix; 4] = [
    Mix { letter: 'A', name: "mix A", weights: "read 100 write 50 write_excl 50 delete 10 append 50 append_excl 50 copy_from 50" },
    Mix {
        letter: 'B',
        name: "mix B, attributes",
        weights: "read 100 write 50 write_excl 50 delete 10 append 50 append_excl 50 setattr 25 rmattr 25",
    },
    Mix {
        letter: 'D',
        name: "mix D, snapshots",
        weights: "read 100 write 50 write_excl 50 delete 50 snap_create 50 snap_remove 50 rollback 50 copy_from 50 setattr 25 rmattr 25",
    },
    Mix {
        letter: 'E',
        name: "mix E, snapshots of big objects",
        weights: "read 100 write 50 write_excl 50 delete 50 snap_create 50 snap_remove 50 rollback 50 copy_from 50",
    },
];

impl Mix {
    /// Its arguments.
    pub fn ops(&self) -> String {
        let words: Vec<&str> = self.weights.split(' ').collect();
        words.chunks(2).map(|op| format!("--op {} {}", op[0], op[1])).collect::<Vec<_>>().join(" ")
    }
}

/// An error with the last lines of a run that was not content.
pub fn judge(out: &Output) -> Result<()> {
    let is_right = out.ok() && [&out.stdout, &out.stderr].iter().any(|text| text.lines().any(|line| line.trim() == CONTENT));
    let last = || [&*out.stdout, &*out.stderr].concat().lines().rev().take(30).map(|line| format!("{line}\n")).collect::<String>();
    ensure!(is_right, "ceph_test_rados ended with {}, its last lines, newest first:\n{}", out.code, last());
    Ok(())
}
