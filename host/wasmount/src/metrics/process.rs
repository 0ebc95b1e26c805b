//! What processes use: `process_*` of the host, as in Prometheus' own libraries, and the same of a mounter in another process.

use super::scrape::Scrape;
use super::table::{self, Metric};
use wasmount_core::mounter::ProcessUsage;

/// The metrics of a process.
type ProcessMetrics = [&'static Metric; 7];

/// Those of the host's process.
pub(super) const HOST: ProcessMetrics = [
    &table::PROCESS_CPU,
    &table::PROCESS_RESIDENT,
    &table::PROCESS_VIRTUAL,
    &table::PROCESS_THREADS,
    &table::PROCESS_OPEN_FDS,
    &table::PROCESS_MAX_FDS,
    &table::PROCESS_START,
];

/// Those of the mounter's process.
pub(super) const MOUNTER: ProcessMetrics = [
    &table::MOUNTER_CPU,
    &table::MOUNTER_RESIDENT,
    &table::MOUNTER_VIRTUAL,
    &table::MOUNTER_THREADS,
    &table::MOUNTER_OPEN_FDS,
    &table::MOUNTER_MAX_FDS,
    &table::MOUNTER_START,
];

/// Sets them to what a process uses.
pub(super) fn set(scrape: &mut Scrape, usage: &ProcessUsage, metrics: ProcessMetrics) {
    let values = [
        Some(usage.cpu.as_secs_f64()),
        Some(usage.resident_bytes as f64),
        Some(usage.virtual_bytes as f64),
        Some(usage.threads as f64),
        Some(usage.open_fds as f64),
        usage.max_fds.map(|limit| limit as f64),
        Some(usage.started.as_secs_f64()),
    ];
    for (metric, value) in metrics.into_iter().zip(values) {
        if let Some(value) = value {
            scrape.set(metric, &[], value);
        }
    }
}
