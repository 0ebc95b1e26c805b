//! The space that the tests need: without it, tests of every kind fail, each with words of its own.

use crate::failure::Failure;
use rustix::fs::statvfs;
use std::path::Path;

/// What the tests write beside each other into the temporary directory, in GiB: 3 at once were seen (images, disks of VMs, an API server), and some
/// tests promise sparse volumes of several GiB, which need free space though they do not use it.
const NEEDED: u64 = 8;

const MIB: u64 = 1 << 20;

const GIB: u64 = 1 << 30;

/// Refuses to start the tests on a full disk.
pub(super) fn check() -> Result<(), Failure> {
    let directory = std::env::temp_dir();
    let statistics = statvfs(&directory).map_err(Failure::cannot(format!(
        "read the free space of {}",
        directory.display()
    )))?;
    let free = statistics.f_bavail.saturating_mul(statistics.f_frsize);
    suffices(free, &directory)
}

fn suffices(free: u64, directory: &Path) -> Result<(), Failure> {
    if free >= NEEDED * GIB {
        return Ok(());
    }
    Err(Failure::Unexpected(format!(
        "the tests need {NEEDED} GiB of free space in {}, and {} MiB are free: remove files, or choose another directory with TMPDIR",
        directory.display(),
        free / MIB
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_start_if_there_is_space() {
        assert!(suffices(NEEDED * GIB, Path::new("/tmp")).is_ok());
    }

    #[test]
    fn a_full_disk_is_named() {
        let failure = suffices(1536 * MIB, Path::new("/tmp")).unwrap_err();
        assert_eq!(
            failure.to_string(),
            "the tests need 8 GiB of free space in /tmp, and 1536 MiB are free: remove files, or choose another directory with TMPDIR"
        );
    }
}
