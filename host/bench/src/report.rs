//! What a run found, for programs (JSON), for people, and for the page.

use crate::disk::Disk;
use crate::measured::Measured;
use crate::ratio::Ratio;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// The quantiles of a curve, apart from the least and the most.
const QUANTILES: [f64; 13] = [
    0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.9975, 0.999, 0.9995, 0.9999,
];

/// How that of whole repetitions is called among figures.
pub(crate) const WHOLE: &str = "whole";

/// A fact, or the reason why it is unknown.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fact<T> {
    /// It is known.
    Known(T),
    /// Why it is not.
    Unknown(String),
}

/// The whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What was repeated.
    pub mix: &'static str,
    /// How connections were used.
    pub connections: &'static str,
    /// How many repetitions ran side by side.
    pub concurrency: u16,
    /// Volumes of each socket that existed meanwhile, apart from those.
    pub existing: u64,
    /// Further volumes that were published meanwhile.
    pub published: u64,
    /// Whether the run was ended early.
    pub interrupted: bool,
    /// The speed of the disk, if a directory was named.
    pub disk: Option<Disk>,
    /// Each socket.
    pub targets: Vec<Target>,
    /// The first socket's figures by the second's.
    pub ratios: Vec<Ratio>,
}

/// One socket.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The socket.
    pub socket: PathBuf,
    /// The driver's name.
    pub driver: String,
    /// The driver's own version.
    pub version: String,
    /// Time of the measurement, in seconds.
    pub seconds: f64,
    /// Whole repetitions of the mix.
    pub repetitions: u64,
    /// These in a second.
    pub repetitions_per_second: f64,
    /// Answered RPCs in a second.
    pub rpcs_per_second: f64,
    /// Each RPC, in the order of CSI.
    pub rpcs: Vec<Times>,
    /// Whole repetitions.
    pub whole: Option<Times>,
    /// Answered RPCs in each second.
    pub per_second: Vec<u64>,
    /// RPCs that failed, also before and after the measurement.
    pub failed: u64,
    /// The first errors.
    pub errors: Vec<String>,
    /// What could not be undone or removed.
    pub left: Vec<String>,
    /// The processes of the server.
    pub server: Fact<ServerFacts>,
    /// How often the server waited for stable storage.
    pub durable_waits: Fact<DurableWaits>,
}

/// Durations of one RPC, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Times {
    /// The RPC.
    pub rpc: &'static str,
    /// How many were answered.
    pub count: u64,
    /// How many failed.
    pub failed: u64,
    /// The median.
    pub p50_us: f64,
    /// 90 of 100 took no longer.
    pub p90_us: f64,
    /// 99 of 100 took no longer.
    pub p99_us: f64,
    /// 999 of 1,000 took no longer.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Quantiles and their durations.
    pub curve: Vec<(f64, f64)>,
}

/// What the processes of a server used.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerFacts {
    /// The processes.
    pub pids: Vec<i32>,
    /// CPU time of the measurement, in seconds.
    pub cpu_seconds: f64,
    /// The same for one repetition of the mix, in milliseconds.
    pub cpu_ms_per_repetition: f64,
    /// Resident memory at the end, in bytes.
    pub resident_bytes: u64,
    /// The most since the start of the processes, in bytes.
    pub peak_resident_bytes: u64,
    /// Bytes that they wrote to disks for one repetition; none if the kernel does not tell.
    pub written_bytes_per_repetition: Option<f64>,
}

/// Waits for stable storage.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DurableWaits {
    /// For one repetition of the mix.
    pub per_repetition: f64,
    /// Repetitions that were counted, one at a time.
    pub repetitions: u64,
    /// How they were counted.
    pub source: &'static str,
}

impl Report {
    /// Whether no RPC failed, nothing is left, and the run was not ended early.
    pub fn is_well(&self) -> bool {
        let is_well = |target: &Target| target.failed == 0 && target.left.is_empty();
        !self.interrupted && self.targets.iter().all(is_well)
    }
}

impl Times {
    /// The quantiles from the median to the maximum, in milliseconds; dashes if nothing was answered.
    pub fn milliseconds(&self) -> [String; 5] {
        let quantiles = [
            self.p50_us,
            self.p90_us,
            self.p99_us,
            self.p999_us,
            self.max_us,
        ];
        quantiles.map(|us| match self.count {
            0 => "-".to_owned(),
            _ => milliseconds(us),
        })
    }

    pub(crate) fn of(rpc: &'static str, times: &Histogram<u64>, failed: u64) -> Self {
        let at = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
        let mut curve = vec![(0.0, times.min() as f64 / 1e3)];
        curve.extend(QUANTILES.map(|quantile| (quantile, at(quantile))));
        let max_us = times.max() as f64 / 1e3;
        curve.push((1.0, max_us));
        Self {
            rpc,
            count: times.len(),
            failed,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us,
            curve,
        }
    }

    /// Of every RPC that was answered or failed.
    pub(crate) fn of_all(measured: &Measured) -> Vec<Self> {
        let (rpcs, failed) = (&measured.rpcs, &measured.failed);
        let mut names: Vec<_> = rpcs.keys().chain(failed.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let times = names.into_iter().map(|rpc| {
            let failed = failed.get(rpc).copied().unwrap_or_default();
            Self::of(rpc.name(), rpcs.get(rpc).unwrap_or(&measured.empty), failed)
        });
        times.collect()
    }
}

/// Microseconds as milliseconds.
pub fn milliseconds(us: f64) -> String {
    format!("{:.3}", us / 1e3)
}

/// So many in a second.
pub(crate) fn per_second(count: u64, time: Duration) -> f64 {
    match time.as_secs_f64() {
        0.0 => 0.0,
        seconds => count as f64 / seconds,
    }
}
