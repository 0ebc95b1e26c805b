//! What a pod does with a volume: writes, reads back, and checks that a read-only mount rejects writes. It is blocking work on files of a mount that
//! may hang: tokio runs it on threads of its own.

use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::io;
use std::path::Path;
use tokio::fs::{self, File};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes to write: enough that the page cache is flushed in several writes.
const BYTES: u64 = 8 << 20;

/// The file in the volume.
const FILE: &str = "data";

/// Digits of a checksum that are printed, as `sha256sum` does: enough to compare two by eye.
const SHOWN: usize = 12;

/// SHA-256 of a file's content, in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checksum(String);

impl Checksum {
    fn of(bytes: &[u8]) -> Self {
        Self(hex::encode(Sha256::digest(bytes)))
    }

    /// The first digits.
    pub(super) fn short(&self) -> &str {
        self.0.get(..SHOWN).unwrap_or_default()
    }
}

/// Writes random bytes, durably; returns the checksum of the written data.
pub(super) async fn write(volume: &Path) -> io::Result<Checksum> {
    let mut bytes = Vec::new();
    let random = File::open("/dev/urandom").await?;
    random.take(BYTES).read_to_end(&mut bytes).await?;
    let mut file = File::create(volume.join(FILE)).await?;
    file.write_all(&bytes).await?;
    file.flush().await?;
    file.sync_all().await?;
    Ok(Checksum::of(&bytes))
}

/// Reads the file; returns the checksum of its content.
pub(super) async fn read(volume: &Path) -> io::Result<Checksum> {
    Ok(Checksum::of(&fs::read(volume.join(FILE)).await?))
}

/// Tries to write where it must not be possible: succeeds if the write fails with the error of a read-only file system.
pub(super) async fn write_is_refused(volume: &Path) -> io::Result<()> {
    match File::create(volume.join("more")).await {
        Ok(_) => Err(io::Error::other("a write went through")),
        Err(error) if error.raw_os_error() == Some(Errno::ROFS.raw_os_error()) => Ok(()),
        Err(error) => Err(error),
    }
}
