//! What a pod does with a volume: writes, reads back, and checks that a read-only mount rejects writes. It is blocking work on files of a mount that
//! may hang, so all of it runs on threads of its own.

use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use tokio::task::spawn_blocking;

/// Bytes to write: enough that the page cache is flushed in several writes.
const BYTES: u64 = 8 << 20;

/// The file in the volume.
const FILE: &str = "data";

/// SHA-256 of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checksum([u8; 32]);

impl Checksum {
    fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The first bytes, as `sha256sum` prints them: enough to compare two by eye.
    pub(super) fn short(&self) -> String {
        let mut digits = hex::encode(self.0);
        digits.truncate(12);
        digits
    }
}

/// Writes random bytes, durably; returns the checksum of the written data.
pub(super) async fn write(volume: &Path) -> io::Result<Checksum> {
    let path = volume.join(FILE);
    blocking(move || {
        let mut bytes = Vec::new();
        File::open("/dev/urandom")?
            .take(BYTES)
            .read_to_end(&mut bytes)?;
        let mut file = File::create(path)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        Ok(Checksum::of(&bytes))
    })
    .await
}

/// Reads the file; returns the checksum of its content.
pub(super) async fn read(volume: &Path) -> io::Result<Checksum> {
    let path = volume.join(FILE);
    blocking(move || fs::read(path).map(|bytes| Checksum::of(&bytes))).await
}

/// Tries to write where it must not be possible: succeeds if the write fails with the error of a read-only file system.
pub(super) async fn write_is_refused(volume: &Path) -> io::Result<()> {
    let path = volume.join("more");
    blocking(move || match File::create(path) {
        Ok(_) => Err(io::Error::other("a write went through")),
        Err(error) if error.raw_os_error() == Some(Errno::ROFS.raw_os_error()) => Ok(()),
        Err(error) => Err(error),
    })
    .await
}

/// The directory that the orchestrator creates before a call: the staging directory, or the parent of a target.
pub(super) async fn make_directory(path: PathBuf) -> io::Result<()> {
    blocking(move || fs::create_dir_all(path)).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}
