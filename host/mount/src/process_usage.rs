//! What the kernel knows of this process.

use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, WithCurrentSystemInfo};
use std::time::Duration;
use wasmount_core::mounter::ProcessUsage;

/// What this process uses; `None` where /proc cannot be read.
pub fn process_usage() -> Option<ProcessUsage> {
    let usage = read();
    if let Err(error) = &usage {
        tracing::debug!(%error, "/proc of the process cannot be read");
    }
    usage.ok()
}

fn read() -> ProcResult<ProcessUsage> {
    let process = Process::myself()?;
    let stat = process.stat()?;
    let ticks = procfs::ticks_per_second() as f64;
    let of_ticks = |count: u64| Duration::from_secs_f64(count as f64 / ticks);
    let booted = Duration::from_secs(procfs::boot_time_secs()?);
    Ok(ProcessUsage {
        cpu: of_ticks(stat.utime.saturating_add(stat.stime)),
        resident_bytes: stat.rss_bytes().get(),
        virtual_bytes: stat.vsize,
        threads: u64::try_from(stat.num_threads).unwrap_or_default(),
        open_fds: process.fd_count()? as u64,
        max_fds: match process.limits()?.max_open_files.soft_limit {
            LimitValue::Value(limit) => Some(limit),
            LimitValue::Unlimited => None,
        },
        started: booted + of_ticks(stat.starttime),
    })
}
