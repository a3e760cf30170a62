//! The numbers that rounds are compared by.

use crate::stats::Better;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Operations a second.
    Iops,
    /// Millions of bytes a second.
    MbS,
    /// Mean latency of operations, microseconds.
    MeanUs,
    /// Latency that 99 % don't exceed, microseconds.
    P99Us,
    /// The same of 99.99 %.
    P9999Us,
    /// CPU of the servers an operation, microseconds.
    ServerCpuUs,
    /// CPU of the client an operation, microseconds.
    ClientCpuUs,
    /// Bytes that reached the devices for each byte that a client wrote.
    Amplification,
    /// The servers' resident memory at most, MiB.
    RssMib,
    /// How many of the servers' own devices had something to do, on average: 0.5 for one that was busy half of the time.
    DevicesBusy,
    /// The share of the time in which some task waited for a CPU.
    CpuWait,
    /// The longest time without an answer while drills were carried out, milliseconds.
    PauseMs,
    /// From the drill that ends the trouble until everything has all its copies, seconds.
    CleanS,
    /// From there on: what crossed the loopback interface, millions of bytes a second.
    MendMbS,
    /// CPU of the servers for each million of those bytes, microseconds.
    MendCpuUs,
    /// Bytes that were written to devices for each of those bytes.
    MendWritten,
    /// Operations a second in the last tenth of a load that ran for a while (`crate::lasting`).
    LastIops,
    /// CPU of the servers an operation in that tenth, microseconds.
    LastCpuUs,
    /// The last tenth's rate beside the first one's.
    Kept,
    /// Operations in the slowest second beside the mean.
    SlowestShare,
}

impl Metric {
    pub const ALL: [Self; 20] = [
        Self::Iops,
        Self::MbS,
        Self::MeanUs,
        Self::P99Us,
        Self::P9999Us,
        Self::ServerCpuUs,
        Self::ClientCpuUs,
        Self::Amplification,
        Self::RssMib,
        Self::DevicesBusy,
        Self::CpuWait,
        Self::PauseMs,
        Self::CleanS,
        Self::MendMbS,
        Self::MendCpuUs,
        Self::MendWritten,
        Self::LastIops,
        Self::LastCpuUs,
        Self::Kept,
        Self::SlowestShare,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Iops => "iops",
            Self::MbS => "mb_s",
            Self::MeanUs => "mean_us",
            Self::P99Us => "p99_us",
            Self::P9999Us => "p9999_us",
            Self::ServerCpuUs => "server_cpu_us",
            Self::ClientCpuUs => "client_cpu_us",
            Self::Amplification => "amplification",
            Self::RssMib => "rss_mib",
            Self::PauseMs => "pause_ms",
            Self::CleanS => "clean_s",
            Self::MendMbS => "mend_mb_s",
            Self::MendCpuUs => "mend_cpu_us",
            Self::MendWritten => "mend_written",
            Self::DevicesBusy => "devices_busy",
            Self::CpuWait => "cpu_wait",
            Self::LastIops => "last_iops",
            Self::LastCpuUs => "last_cpu_us",
            Self::Kept => "kept",
            Self::SlowestShare => "slowest_share",
        }
    }
    /// As a heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::MbS => "MB/s",
            Self::MeanUs => "mean latency, µs",
            Self::P99Us => "99 % latency, µs",
            Self::P9999Us => "99.99 % latency, µs",
            Self::ServerCpuUs => "server CPU per operation, µs",
            Self::ClientCpuUs => "client CPU per operation, µs",
            Self::Amplification => "bytes written per client byte",
            Self::RssMib => "server memory, MiB",
            Self::PauseMs => "longest pause, ms",
            Self::CleanS => "until clean, s",
            Self::MendMbS => "sent until clean, MB/s",
            Self::MendCpuUs => "server CPU per MB sent until clean, µs",
            Self::MendWritten => "written per byte sent until clean",
            Self::DevicesBusy => "devices that were busy",
            Self::CpuWait => "share of the time that tasks waited for a CPU",
            Self::LastIops => "IOPS in the last tenth",
            Self::LastCpuUs => "server CPU per operation in the last tenth, µs",
            Self::Kept => "the last tenth's rate beside the first one's",
            Self::SlowestShare => "the slowest second beside the mean",
        }
    }
    pub fn better(self) -> Better {
        let more = matches!(self, Self::Iops | Self::MbS | Self::MendMbS | Self::LastIops | Self::Kept | Self::SlowestShare);
        if more { Better::More } else { Better::Less }
    }
    pub fn parse(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|m| m.name() == text).ok_or_else(|| format!("unknown metric `{text}`, expected one of {}", names()))
    }
}
