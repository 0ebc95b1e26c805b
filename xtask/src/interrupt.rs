//! Ctrl-C and SIGTERM: a request to stop, which becomes a failure where work waits, so that the teardown still runs.
//! A second request during the teardown changes nothing.

use crate::failure::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Handles both signals from its creation on.
#[derive(Debug)]
pub struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupt {
    /// Begins to listen for them.
    pub fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::cannot("listen for signals"));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits until a request to stop, and returns its signal.
    pub async fn wait(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        }
    }

    /// Runs the work, unless a request to stop arrives before it ends.
    pub async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            done = work => Ok(done),
            _ = self.wait() => Err(Self::failure()),
        }
    }

    /// What a request to stop becomes.
    pub fn failure() -> Failure {
        Failure::Unexpected("interrupted; everything was torn down".to_owned())
    }
}
