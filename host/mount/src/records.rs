//! A directory with one small JSON file a volume, for the journal and for the durable notes. Each is written aside and renamed, so that a
//! reader finds the old or the new one and never half of one; only the durable ones are synced.

use crate::exclusive;
use crate::failure::{MountSetupError, io};
use crate::hexadecimal::hex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wasmount_core::mounter::{MountError, VolumeKey};

/// End of a whole file's name.
const WHOLE: &str = "json";
/// End of the name of one that is being written.
pub(crate) const ASIDE: &str = "aside";
/// End of the name of one that could not be read.
pub(crate) const QUARANTINED: &str = "quarantined";
/// Only root reads it: it has paths and plans of all drivers.
const DIRECTORY_MODE: u32 = 0o700;
/// The same for a file.
const FILE_MODE: u32 = 0o600;

/// What one file holds.
pub(crate) trait Record: Clone + PartialEq + Serialize + DeserializeOwned {
    /// Version of the format. Others are put aside, not guessed at.
    const SCHEMA: u32;
    /// Where the files are, in the run or state directory.
    const DIRECTORY: &'static str;
    const LASTING: Lasting;
    /// Nothing is known of the volume.
    fn empty(key: VolumeKey) -> Self;
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

/// The records of all volumes. Read once; then memory and files say the same. While this lives, no other host has the directory.
#[derive(Debug)]
pub(crate) struct Records<R> {
    directory: PathBuf,
    /// The directory, locked. The kernel releases the lock however the host ends.
    opened: File,
    /// Never held while a file is written: a reader must not wait for the node's disk.
    records: Mutex<BTreeMap<VolumeKey, R>>,
    /// Held while a record is changed, from the look at what is known until memory and file say the same again.
    pub(crate) changing: Mutex<()>,
}

impl Lasting {
    /// What is kept, and in which directory, for messages.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Process => ("journal", "run"),
            Self::PowerCut => ("state", "state"),
        }
    }

    fn object(self) -> &'static str {
        match self {
            Self::Process => "the mount journal",
            Self::PowerCut => "the durable records of volumes",
        }
    }

    fn failed(self, operation: &'static str, path: &Path, source: io::Error) -> MountSetupError {
        let (kind, parent) = self.names();
        MountSetupError::Directory {
            operation,
            kind,
            path: path.to_owned(),
            parent,
            source,
        }
    }
}

impl<R: Record> Records<R> {
    /// Makes the directory if need be, and reads what an earlier host left. A file that is torn or of another version is put aside and
    /// reported, and never stops the host.
    pub(crate) fn open(parent: &Path) -> Result<Self, MountSetupError> {
        let (directory, lasting) = (parent.join(R::DIRECTORY), R::LASTING);
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(&directory)
            .map_err(|source| lasting.failed("create", &directory, source))?;
        let opened =
            File::open(&directory).map_err(|source| lasting.failed("open", &directory, source))?;
        let (kind, parent) = lasting.names();
        match exclusive::lock(&opened) {
            Ok(true) => {}
            Ok(false) => {
                let path = directory;
                return Err(MountSetupError::InUse { kind, path, parent });
            }
            Err(errno) => return Err(lasting.failed("lock", &directory, errno.into())),
        }
        let failed = |source| lasting.failed("read", &directory, source);
        let mut records = BTreeMap::new();
        for file in fs::read_dir(&directory).map_err(failed)? {
            let path = file.map_err(failed)?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(WHOLE) => match read(&path) {
                    Ok(record) => drop(records.insert(R::key(&record).clone(), record)),
                    Err(reason) => quarantine(&path, &reason)
                        .map_err(|source| lasting.failed("put aside an entry of", &path, source))?,
                },
                // Of a host that was killed while it wrote: the record itself is as it was.
                Some(ASIDE) => fs::remove_file(&path)
                    .map_err(|source| lasting.failed("clean", &path, source))?,
                _ => {}
            }
        }
        Ok(Self {
            directory,
            opened,
            records: Mutex::new(records),
            changing: Mutex::new(()),
        })
    }

    /// What is known of a volume.
    pub(crate) fn entry(&self, key: &VolumeKey) -> R {
        let known = lock(&self.records).get(key).cloned();
        known.unwrap_or_else(|| R::empty(key.clone()))
    }

    /// What is known of all volumes that are wanted.
    pub(crate) fn entries(&self, is_wanted: impl Fn(&R) -> bool) -> Vec<R> {
        let records = lock(&self.records);
        let wanted = records.values().filter(|record| is_wanted(record));
        wanted.cloned().collect()
    }

    /// Changes what is known of a volume: first on disk, then in memory. An error of `change` changes nothing; without a change nothing is
    /// written.
    pub(crate) fn update<T>(
        &self,
        key: &VolumeKey,
        change: impl FnOnce(&mut R) -> Result<T, MountError>,
    ) -> Result<T, MountError> {
        let _changing = lock(&self.changing);
        let before = self.entry(key);
        let mut record = before.clone();
        let answer = change(&mut record)?;
        if record == before {
            return Ok(answer);
        }
        self.store(&record)
            .map_err(|error| io("write", R::LASTING.object(), &error))?;
        let mut records = lock(&self.records);
        if record.is_empty() {
            records.remove(key);
        } else {
            records.insert(key.clone(), record);
        }
        Ok(answer)
    }

    /// Puts a record in the place of the volume's last one.
    fn store(&self, record: &R) -> io::Result<()> {
        let path = self.directory.join(file_name(record.key()));
        if record.is_empty() {
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                removed => removed?,
            }
            return sync(&self.opened, R::LASTING);
        }
        let aside = path.with_extension(ASIDE);
        let written = write(&aside, record).and_then(|()| fs::rename(&aside, &path));
        if written.is_err() {
            // A full disk must not stay full of halves; the error that counts is the first.
            let _ = fs::remove_file(&aside);
            return written;
        }
        sync(&self.opened, R::LASTING)
    }
}

fn write<R: Record>(path: &Path, record: &R) -> io::Result<()> {
    let bytes = serde_json::to_vec(record)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .open(path)?;
    file.write_all(&bytes)?;
    sync(&file, R::LASTING)
}

fn sync(file: &File, lasting: Lasting) -> io::Result<()> {
    match lasting {
        Lasting::Process => Ok(()),
        Lasting::PowerCut => file.sync_all(),
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panicking thread leaves is whole: memory changes after the file, in one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

fn quarantine(path: &Path, reason: &str) -> io::Result<()> {
    let aside = path.with_extension(QUARANTINED);
    tracing::error!(
        file = %aside.display(),
        reason,
        "an unreadable journal entry was quarantined; the volume can still be unpublished and unstaged"
    );
    fs::rename(path, &aside)
}
