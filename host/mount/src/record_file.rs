//! A directory with one small JSON file a volume, each written aside and renamed, so that a reader finds the old or the new one and never
//! half of one.
//!
//! It is apart because the journal and the durable notes are kept alike; only the durable ones are synced. A file that is torn or of another
//! version is put aside and reported, and never stops the host. It must not know what a record says.

use crate::exclusive;
use crate::hexadecimal::hex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use wasmount_core::mounter::VolumeKey;

/// End of a whole file's name.
const WHOLE: &str = "json";
/// End of the name of one that is being written.
pub(crate) const ASIDE: &str = "aside";
/// End of the name of one that could not be read.
pub(crate) const QUARANTINED: &str = "quarantined";
/// Only root reads it: paths and plans are nobody else's business.
const DIRECTORY_MODE: u32 = 0o700;
/// The same for a file.
const FILE_MODE: u32 = 0o600;

/// What one file holds.
pub(crate) trait Record: Serialize + DeserializeOwned {
    /// Version of the format. Others are put aside, not guessed at.
    const SCHEMA: u32;
    /// The version that it was written in.
    fn schema(&self) -> u32;
    /// Of which volume.
    fn key(&self) -> &VolumeKey;
    /// Nothing is left to remember: it has no file.
    fn is_empty(&self) -> bool;
}

/// What a change must outlive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// The process.
    Process,
    /// The node: it is on stable storage, with the directory.
    PowerCut,
}

/// The directory. While this lives, no other host has it.
#[derive(Debug)]
pub(crate) struct RecordFiles {
    directory: PathBuf,
    lasting: Lasting,
    /// The directory, locked. The kernel gives the lock back, however the host ends.
    opened: File,
}

/// Why the directory cannot be used.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Another host has it.
    InUse { path: PathBuf },
    /// The system said no.
    Io {
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl RecordFiles {
    /// Makes the directory if need be, and reads what an earlier host left.
    pub(crate) fn open<R: Record>(
        directory: PathBuf,
        lasting: Lasting,
    ) -> Result<(Self, Vec<R>), Fault> {
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(&directory)
            .map_err(|source| fault("create", &directory, source))?;
        let opened = lock(&directory)?;
        let files = fs::read_dir(&directory).map_err(|source| fault("read", &directory, source))?;
        let mut records = Vec::new();
        for file in files {
            let path = file
                .map_err(|source| fault("read", &directory, source))?
                .path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(WHOLE) => match read(&path) {
                    Ok(record) => records.push(record),
                    Err(reason) => quarantine(&path, &reason)?,
                },
                // Of a host that was killed while it wrote: the record itself is as it was.
                Some(ASIDE) => {
                    fs::remove_file(&path).map_err(|source| fault("clean", &path, source))?;
                }
                _ => {}
            }
        }
        let files = Self {
            directory,
            lasting,
            opened,
        };
        Ok((files, records))
    }

    /// Puts a record in the place of the volume's last one.
    pub(crate) fn store<R: Record>(&self, record: &R) -> io::Result<()> {
        let path = self.directory.join(file_name(record.key()));
        if record.is_empty() {
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                removed => removed?,
            }
            return self.sync(&self.opened);
        }
        let aside = path.with_extension(ASIDE);
        let written = self
            .write(&aside, record)
            .and_then(|()| fs::rename(&aside, &path));
        if written.is_err() {
            // A full disk must not stay full of halves; the error that counts is the first.
            let _ = fs::remove_file(&aside);
            return written;
        }
        self.sync(&self.opened)
    }

    fn write<R: Record>(&self, path: &Path, record: &R) -> io::Result<()> {
        let bytes = serde_json::to_vec(record)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(FILE_MODE)
            .open(path)?;
        file.write_all(&bytes)?;
        self.sync(&file)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        match self.lasting {
            Lasting::Process => Ok(()),
            Lasting::PowerCut => file.sync_all(),
        }
    }
}

/// The name of a volume's file.
pub(crate) fn file_name(key: &VolumeKey) -> String {
    let mut hash = Sha256::new();
    hash.update(key.driver.as_str());
    // In neither of the two words, so no two volumes hash alike.
    hash.update([0]);
    hash.update(key.volume.as_str());
    format!("{}.{WHOLE}", hex(&hash.finalize()))
}

/// Keeps other hosts out of the directory.
fn lock(directory: &Path) -> Result<File, Fault> {
    let file = File::open(directory).map_err(|source| fault("open", directory, source))?;
    match exclusive::lock(&file) {
        Ok(true) => Ok(file),
        Ok(false) => Err(Fault::InUse {
            path: directory.to_owned(),
        }),
        Err(errno) => Err(fault("lock", directory, errno.into())),
    }
}

fn read<R: Record>(path: &Path) -> Result<R, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let record: R = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    if record.schema() != R::SCHEMA {
        let (found, known) = (record.schema(), R::SCHEMA);
        return Err(format!("its schema is {found}, this host knows {known}"));
    }
    if path.file_name() != Some(file_name(record.key()).as_ref()) {
        return Err("its name is not that of its volume".to_owned());
    }
    Ok(record)
}

fn quarantine(path: &Path, reason: &str) -> Result<(), Fault> {
    let aside = path.with_extension(QUARANTINED);
    tracing::error!(
        file = %aside.display(),
        reason,
        "an unreadable journal entry was quarantined; the volume can still be unpublished and unstaged"
    );
    fs::rename(path, &aside).map_err(|source| fault("put aside an entry of", path, source))
}

fn fault(operation: &'static str, path: &Path, source: io::Error) -> Fault {
    Fault::Io {
        operation,
        path: path.to_owned(),
        source,
    }
}
