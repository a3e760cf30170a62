//! The self-test's load: `humboldt lab fake load`, which speaks as `humboldt bench` does, and lies if it is told to.

use super::Job;
use std::process::Command;

pub fn command(job: &Job) -> Command {
    let mut cmd = Command::new(job.program);
    cmd.args(crate::selftest::FAKE).arg("load").arg("--socket").arg(&job.place.file);
    cmd.args(["--block", &job.work.block.to_string(), "--depth", &job.work.depth.to_string()]);
    cmd.args(["--seconds", &job.seconds.to_string(), "--warm", &job.warm_s.to_string()]);
    for (key, value) in &job.work.options {
        cmd.arg(format!("--{key}")).arg(value.to_string());
    }
    cmd
}
