//! What a mounter says of itself.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The state of a mounter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MounterStatus {
    /// One sentence for each path root that is not on a shared mount. Beside a kubelet there must be none: it would not see the volumes.
    pub unshared_roots: Vec<String>,
    /// What its process uses; absent where /proc cannot be read.
    pub process: Option<ProcessUsage>,
}

/// What the kernel knows of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// CPU time in user and kernel mode.
    pub cpu: Duration,
    /// Resident memory.
    pub resident_bytes: u64,
    /// Virtual memory, most of which may only be reserved.
    pub virtual_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open file descriptors.
    pub open_fds: u64,
    /// How many it may have open; absent: any number.
    pub max_fds: Option<u64>,
    /// Its start, as Unix time.
    pub started: Duration,
}
