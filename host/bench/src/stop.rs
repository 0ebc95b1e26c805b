//! How a run is ended early: first in order, then at once.

use tokio_util::sync::CancellationToken;

/// Shared by the run and whoever may end it.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    interrupted: CancellationToken,
    abandoned: CancellationToken,
}

impl Stop {
    /// Asks for the end: no further RPC but those that undo what is open. Asked again, it ends these too.
    pub fn ask(&self) {
        if self.interrupted.is_cancelled() {
            self.abandoned.cancel();
        }
        self.interrupted.cancel();
    }

    /// Whether the end was asked for.
    pub fn is_asked(&self) -> bool {
        self.interrupted.is_cancelled()
    }

    /// Returns once the end was asked for.
    pub(crate) async fn asked(&self) {
        self.interrupted.cancelled().await;
    }

    /// Returns once it was asked for twice.
    pub(crate) async fn asked_twice(&self) {
        self.abandoned.cancelled().await;
    }
}
