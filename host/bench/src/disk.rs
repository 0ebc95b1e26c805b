//! The speed of a disk: how long an append of 4 KiB takes until it is on stable storage.

use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Appends that are measured.
const APPENDS: usize = 200;
/// How long they may take together: a slow disk is known after fewer.
const LIMIT: Duration = Duration::from_secs(5);
/// Size of an append, in bytes.
const APPEND: usize = 4096;

/// The speed of the disk that holds a directory.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// The directory.
    pub directory: PathBuf,
    /// Appends that were measured.
    pub appends: usize,
    /// The median of an append with its fdatasync, in microseconds.
    pub fdatasync_p50_us: f64,
}

/// Removed when this is dropped.
struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
    }
}

/// Measures with a file of this name, which must not exist yet.
pub(crate) fn measure(directory: &Path, name: &str) -> io::Result<Disk> {
    let path = directory.join(name);
    let mut file = File::create_new(&path)?;
    let _removed = Removed(&path);
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < APPENDS && start.elapsed() < LIMIT {
        let start = Instant::now();
        file.write_all(&[0; APPEND])?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    Ok(Disk {
        directory: directory.to_owned(),
        appends: times.len(),
        fdatasync_p50_us: median.as_secs_f64() * 1e6,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_measured_and_nothing_is_left_on_it() {
        let folder = tempfile::tempdir().unwrap();
        let disk = measure(folder.path(), "a").unwrap();
        assert!((1..=APPENDS).contains(&disk.appends));
        assert!(disk.fdatasync_p50_us > 0.0, "{disk:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_exists_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "kept").unwrap();
        let error = measure(folder.path(), "a").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"kept");
    }
}
