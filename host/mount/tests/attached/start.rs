//! Starts a mounter in this process, maybe after another one. The programs of this directory share it.

use std::time::{Duration, Instant};
use wasmount_mount::{LocalMounter, MountSetupError, MounterConfig};

/// How long background jobs of the mounter before may take to end: as long as the longest program that they run, twice.
const ENDED_WITHIN: Duration = Duration::from_secs(60);

/// On a busy machine such jobs keep the directories for longer than a new process would wait.
pub(crate) fn mounter(config: MounterConfig) -> LocalMounter {
    let end = Instant::now() + ENDED_WITHIN;
    loop {
        match LocalMounter::new(config.clone()) {
            Err(MountSetupError::InUse { .. }) if Instant::now() < end => {}
            started => return started.unwrap(),
        }
    }
}
