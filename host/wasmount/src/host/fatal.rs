//! How a task tells the host that it cannot go on.

use crate::fault::Fault;
use tokio::sync::mpsc;

/// Tells the host of what it cannot go on with.
#[derive(Clone)]
pub(super) struct FatalReporter(pub(super) mpsc::UnboundedSender<FatalError>);

/// Why a host cannot go on.
pub(super) struct FatalError {
    /// In words.
    pub(super) fault: Fault,
    /// Another host may work already.
    pub(super) lost: bool,
}

impl FatalReporter {
    /// Ends the host, with its running calls ended first.
    pub(super) fn fault(&self, fault: Fault) {
        // Nobody listens to a host that ends.
        let _ = self.0.send(FatalError { fault, lost: false });
    }

    /// Ends the host at once.
    pub(super) fn lost(&self, fault: Fault) {
        let _ = self.0.send(FatalError { fault, lost: true });
    }
}
