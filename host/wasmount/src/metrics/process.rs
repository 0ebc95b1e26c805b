//! `process_*`: what the kernel knows of the host's process, as in Prometheus' own libraries.

use super::scrape::Scrape;
use super::table;
use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, WithCurrentSystemInfo};

/// Sets them; all are absent where /proc cannot be read.
pub(super) fn set(scrape: &mut Scrape) {
    if let Err(error) = read(scrape) {
        tracing::debug!(%error, "/proc of the process cannot be read");
    }
}

fn read(scrape: &mut Scrape) -> ProcResult<()> {
    let process = Process::myself()?;
    let stat = process.stat()?;
    let ticks = procfs::ticks_per_second() as f64;
    let cpu = (stat.utime + stat.stime) as f64 / ticks;
    let start = procfs::boot_time_secs()? as f64 + stat.starttime as f64 / ticks;
    for (metric, value) in [
        (&table::PROCESS_CPU, cpu),
        (&table::PROCESS_RESIDENT, stat.rss_bytes().get() as f64),
        (&table::PROCESS_VIRTUAL, stat.vsize as f64),
        (&table::PROCESS_THREADS, stat.num_threads as f64),
        (&table::PROCESS_OPEN_FDS, process.fd_count()? as f64),
        (&table::PROCESS_START, start),
    ] {
        scrape.set(metric, &[], value);
    }
    if let LimitValue::Value(limit) = process.limits()?.max_open_files.soft_limit {
        scrape.set(&table::PROCESS_MAX_FDS, &[], limit as f64);
    }
    Ok(())
}
