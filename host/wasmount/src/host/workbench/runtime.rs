//! Threads for a command that ends by itself.

use crate::fault::Fault;
use crate::host::LAST_JOBS;
use crate::host::signals::Signals;
use std::future::Future;

/// Runs a command's work until it is done, or a signal comes.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Fault::room("the threads for the plugin cannot be started"))?;
    let done = runtime.block_on(async {
        let mut signals = Signals::watch()?;
        tokio::select! {
            done = work => done,
            signal = signals.next() => Err(Fault::room("stopped")(format!("the signal {signal} came"))),
        }
    });
    runtime.shutdown_timeout(LAST_JOBS);
    done
}
