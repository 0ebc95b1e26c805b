//! How versions of a backend follow one another: how many are kept, how long an old one may drain, and when a new one is rolled back.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What an administrator says of it. The defaults suit a backend that is swapped by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionPolicy {
    /// Versions on disk, the serving one among them. 5: two good ones behind two that were tried in between.
    pub keep: usize,
    /// How long calls of an old version may go on before the host says that they still do. 60 s: the default budget of a call. They are
    /// never cut off: what they hold is theirs until their own budget ends.
    pub drain: Duration,
    /// Faults of a new version within `window` that take it back; 0: none does. 5: one trap of one odd volume is no reason to go back.
    pub faults: u32,
    /// In how long a time. 60 s: a provisioner's retries of one bad volume are rarer than five a minute after the first few.
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
