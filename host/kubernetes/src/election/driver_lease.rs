//! What one driver has in an election: its lease, and the way out of it.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A lease that is asked for, or held, until it is wanted no more.
pub(super) struct DriverLease {
    pub(super) lease: String,
    withdrawn: CancellationToken,
    /// The lease may be ours. What waits for that to end also ends when this is dropped.
    taken: watch::Sender<bool>,
}

/// Takes one driver out of an election, whether or not that is won.
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

    /// Whether the lease may be asked for. If so, who withdraws waits from now on until this is dropped.
    pub(super) fn take(&self) -> bool {
        // First: who withdraws in between waits, or is seen here.
        self.taken.send_replace(true);
        !self.withdrawn.is_cancelled()
    }

    /// Returns when the lease is wanted no more.
    pub(super) async fn withdrawn(&self) {
        self.withdrawn.cancelled().await;
    }
}

impl Withdrawal {
    /// Wants the lease no more. Returns once it was given back, or the attempt at that has ended; at once if it was never asked for.
    pub async fn withdraw(mut self) {
        self.withdrawn.cancel();
        // Fails once the seat is gone, which is the end of it too.
        let _ = self.taken.wait_for(|taken| !taken).await;
    }

    /// Whether the lease is wanted no more.
    pub fn is_asked(&self) -> bool {
        self.withdrawn.is_cancelled()
    }

    /// Returns when it is.
    pub async fn asked(&self) {
        self.withdrawn.cancelled().await;
    }
}
