//! The version policy of a backend: how many versions are kept, how long an old one may drain, and when a new one is rolled back.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The administrator's policy. The defaults suit a backend that is swapped by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionPolicy {
    /// Versions on disk, the serving one among them. 5: two good ones behind two that were tried in between.
    pub keep: usize,
    /// How long calls of an old version may run before the host reports them. 60 s: the default budget of a call. They are never cut off: they hold
    /// their claims until their own budget ends.
    pub drain: Duration,
    /// Faults of a new version within `window` that roll it back; 0: no rollback. 5: one trap on one unusual volume is not a reason to roll back.
    pub faults: u32,
    /// The window. 60 s: after the first few, a provisioner retries one bad volume less than five times a minute.
    pub window: Duration,
}

impl Default for VersionPolicy {
    fn default() -> Self {
        Self {
            keep: 5,
            drain: Duration::from_secs(60),
            faults: 5,
            window: Duration::from_secs(60),
        }
    }
}
