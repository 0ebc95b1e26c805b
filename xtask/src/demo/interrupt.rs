//! Ctrl-C and SIGTERM: a wish to stop, which becomes a [`Failure::Interrupted`] where work waits, so that the tear-down still runs.
//! A second wish while tearing down changes nothing.

use crate::failure::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears both from its making on.
#[derive(Debug)]
pub(super) struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupt {
    pub(super) fn listen() -> Result<Self, Failure> {
        let hear = |kind| signal(kind).map_err(Failure::io("listen for signals"));
        Ok(Self {
            interrupt: hear(SignalKind::interrupt())?,
            terminate: hear(SignalKind::terminate())?,
        })
    }

    /// Until somebody wishes to stop.
    pub(super) async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// The work, unless somebody wishes to stop before.
    pub(super) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            done = work => Ok(done),
            () = self.wait() => Err(Failure::Interrupted),
        }
    }
}
