//! One driver's part of an election: its lease, and its withdrawal.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A lease that is requested or held until it is withdrawn.
pub(super) struct DriverLease {
    pub(super) lease: String,
    withdrawn: CancellationToken,
    /// This host may hold the lease. Code that waits for that to end also continues when this is dropped.
    taken: watch::Sender<bool>,
}

/// Withdraws one driver from an election, before or after it is won.
#[derive(Clone)]
pub struct Withdrawal {
    withdrawn: CancellationToken,
    taken: watch::Receiver<bool>,
}

impl DriverLease {
    pub(super) fn of(lease: String) -> Self {
        Self {
            lease,
            withdrawn: CancellationToken::new(),
            taken: watch::Sender::new(false),
        }
    }

    pub(super) fn withdrawal(&self) -> Withdrawal {
        Withdrawal {
            withdrawn: self.withdrawn.clone(),
            taken: self.taken.subscribe(),
        }
    }

    /// Whether the lease may be requested. If so, a withdrawal waits from now on until this is dropped.
    pub(super) fn take(&self) -> bool {
        // First: a withdrawal in between waits, or is seen here.
        self.taken.send_replace(true);
        !self.withdrawn.is_cancelled()
    }

    /// Returns when the lease is withdrawn.
    pub(super) async fn withdrawn(&self) {
        self.withdrawn.cancelled().await;
    }
}

impl Withdrawal {
    /// Withdraws the lease. Returns once it was released, or that attempt has ended; at once if it was never requested.
    pub async fn withdraw(mut self) {
        self.withdrawn.cancel();
        // Fails once the `DriverLease` is dropped, which also ends the lease.
        let _ = self.taken.wait_for(|taken| !taken).await;
    }

    /// Whether the lease is withdrawn.
    pub fn is_asked(&self) -> bool {
        self.withdrawn.is_cancelled()
    }

    /// Returns when it is.
    pub async fn asked(&self) {
        self.withdrawn.cancelled().await;
    }
}
