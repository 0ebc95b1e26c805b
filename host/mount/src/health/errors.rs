//! How many errors a file system on a block device has counted, as sysfs lists them (Documentation/ABI/testing/sysfs-fs-ext4, `errors_count`;
//! btrfs(5), `error_stats`).
//!
//! Nothing is opened but sysfs, so no storage is asked. It must not know volumes. xfs keeps no count.

use crate::block::DeviceNumber;
use std::fs;
use std::path::{Path, PathBuf};

/// One directory for each mounted ext4, named as its device.
const EXT4: &str = "/sys/fs/ext4";
/// One directory for each mounted btrfs, named by its UUID.
const BTRFS: &str = "/sys/fs/btrfs";

/// Errors of the file system on a device; 0 where none is mounted, or none that counts.
pub(super) fn counted(number: DeviceNumber) -> u64 {
    let Ok(device) = fs::read_link(format!("/sys/dev/block/{number}")) else {
        return 0;
    };
    let Some(name) = device.file_name() else {
        return 0;
    };
    let ext4 = fs::read_to_string(Path::new(EXT4).join(name).join("errors_count"));
    let ext4 = ext4.ok().and_then(|count| count.trim().parse().ok());
    let btrfs = || {
        let file_system = entries(Path::new(BTRFS))
            .into_iter()
            .find(|it| it.join("devices").join(name).exists())?;
        let statistics = entries(&file_system.join("devinfo")).into_iter();
        let listed = statistics.filter_map(|it| fs::read_to_string(it.join("error_stats")).ok());
        Some(listed.map(|lines| sum(&lines)).sum())
    };
    ext4.or_else(btrfs).unwrap_or(0)
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|it| Some(it.ok()?.path())).collect()
}

/// Of lines with a name and a count each.
fn sum(lines: &str) -> u64 {
    let counts = lines.lines().filter_map(|line| line.split_once(' '));
    counts
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_a_btrfs_device_are_added_up() {
        let clean =
            "write_errs 0\nread_errs 0\nflush_errs 0\ncorruption_errs 0\ngeneration_errs 0\n";
        for (lines, expected) in [
            (clean, 0),
            ("write_errs 2\nread_errs 0\ncorruption_errs 40\n", 42),
            ("invalid\n", 0),
            ("", 0),
        ] {
            assert_eq!(sum(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_device_that_is_not_there_has_counted_none() {
        let (major, minor) = (u32::MAX, 0);
        assert_eq!(counted(DeviceNumber { major, minor }), 0);
    }
}
