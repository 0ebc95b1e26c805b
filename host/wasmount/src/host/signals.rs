//! The signals that end a process.

use crate::fault::Fault;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both of them, watched from here on.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on neither ends the process by itself.
    pub(crate) fn watch() -> Result<Self, Fault> {
        let watch = |kind| signal(kind).map_err(Fault::failed("signals cannot be watched"));
        Ok(Self {
            terminate: watch(SignalKind::terminate())?,
            interrupt: watch(SignalKind::interrupt())?,
        })
    }

    /// The name of the next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
