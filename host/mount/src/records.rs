//! A directory with one small JSON file for each volume, for the journal and for the durable notes. Each file is written under a temporary name and
//! renamed, so that a reader finds the old or the new version and never a part of one. Only the durable files are synced.

use crate::exclusive;
use crate::failure::{MountSetupError, io};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::mutex::lock;

/// Extension of a complete file.
const WHOLE: &str = "json";
/// Extension of a file that is being written.
pub(crate) const ASIDE: &str = "aside";
/// Extension of a file that could not be read.
pub(crate) const QUARANTINED: &str = "quarantined";
/// Only root can read it: it contains paths and plans of all drivers.
const DIRECTORY_MODE: u32 = 0o700;
/// The same for a file.
const FILE_MODE: u32 = 0o600;

/// The content of one file.
pub(crate) trait Record: Clone + PartialEq + Serialize + DeserializeOwned {
    /// Version of the format. Files of other versions are quarantined and not interpreted.
    const SCHEMA: u32;
    /// The directory of the files, in the run or state directory.
    const DIRECTORY: &'static str;
    /// The content of the directory, and the name of its parent directory, for messages.
    const KIND: (&'static str, &'static str);
    /// The records, for messages.
    const NAME: &'static str;
    /// A change outlives a power cut: it is on stable storage, with the directory. Otherwise it outlives the process.
    const IS_SYNCED: bool;
    /// The record of a volume without any state.
    fn empty(key: VolumeKey) -> Self;
    /// The version in which it was written.
    fn schema(&self) -> u32;
    /// The volume that it describes.
    fn key(&self) -> &VolumeKey;
    /// It contains no state, so it needs no file.
    fn is_empty(&self) -> bool {
        *self == Self::empty(self.key().clone())
    }
}

/// The records of all volumes. They are read once; afterwards memory and files are equal. While this lives, no other host uses the directory.
#[derive(Debug)]
pub(crate) struct Records<R> {
    directory: PathBuf,
    /// The directory, locked. The kernel releases the lock however the host ends.
    opened: File,
    /// Never locked while a file is written: a reader must not wait for the node's disk.
    records: Mutex<BTreeMap<VolumeKey, R>>,
    /// Locked while a record is changed, from reading the current state until memory and file are equal again.
    pub(crate) changing: Mutex<()>,
}

impl<R: Record> Records<R> {
    /// Creates the directory if necessary, and reads what an earlier host left. A file that is torn or of another version is quarantined and
    /// reported, and never stops the host.
    pub(crate) fn open(parent: &Path) -> Result<Self, MountSetupError> {
        let directory = parent.join(R::DIRECTORY);
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(&directory)
            .map_err(failed::<R>("create", &directory))?;
        let opened = File::open(&directory).map_err(failed::<R>("open", &directory))?;
        let (kind, parent) = R::KIND;
        let locked = exclusive::lock(&opened).map_err(io::Error::from);
        if !locked.map_err(failed::<R>("lock", &directory))? {
            let path = directory;
            return Err(MountSetupError::InUse { kind, path, parent });
        }
        let mut records = BTreeMap::new();
        for file in fs::read_dir(&directory).map_err(failed::<R>("read", &directory))? {
            let path = file.map_err(failed::<R>("read", &directory))?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(WHOLE) => match read(&path) {
                    Ok(record) => drop(records.insert(R::key(&record).clone(), record)),
                    Err(reason) => quarantine(&path, &reason)
                        .map_err(failed::<R>("put aside an entry of", &path))?,
                },
                // Left by a host that was killed during a write: the record itself is unchanged.
                Some(ASIDE) => fs::remove_file(&path).map_err(failed::<R>("clean", &path))?,
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

    /// The record of a volume.
    pub(crate) fn entry(&self, key: &VolumeKey) -> R {
        let known = lock(&self.records).get(key).cloned();
        known.unwrap_or_else(|| R::empty(key.clone()))
    }

    /// The records that match.
    pub(crate) fn entries(&self, is_match: impl Fn(&R) -> bool) -> Vec<R> {
        let records = lock(&self.records);
        let matching = records.values().filter(|record| is_match(record));
        matching.cloned().collect()
    }

    /// Changes the record of a volume: first on disk, then in memory. If `change` fails, nothing changes; if it changes nothing, nothing is written.
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
            .map_err(|error| io("write", R::NAME, &error))?;
        let mut records = lock(&self.records);
        if record.is_empty() {
            records.remove(key);
        } else {
            records.insert(key.clone(), record);
        }
        Ok(answer)
    }

    /// Replaces the record of a volume.
    fn store(&self, record: &R) -> io::Result<()> {
        let path = self.directory.join(file_name(record.key()));
        if record.is_empty() {
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                removed => removed?,
            }
            return sync::<R>(&self.opened);
        }
        let aside = path.with_extension(ASIDE);
        let written = write(&aside, record).and_then(|()| fs::rename(&aside, &path));
        if written.is_err() {
            // A full disk must not stay full of partial files. The first error is returned.
            let _ = fs::remove_file(&aside);
            return written;
        }
        sync::<R>(&self.opened)
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
    sync::<R>(&file)
}

fn sync<R: Record>(file: &File) -> io::Result<()> {
    if R::IS_SYNCED {
        file.sync_all()?;
    }
    Ok(())
}

/// For `map_err`.
fn failed<R: Record>(
    operation: &'static str,
    path: &Path,
) -> impl Fn(io::Error) -> MountSetupError {
    let (kind, parent) = R::KIND;
    move |source| MountSetupError::Directory {
        operation,
        kind,
        path: path.to_owned(),
        parent,
        source,
    }
}

/// The name of a volume's file.
pub(crate) fn file_name(key: &VolumeKey) -> String {
    let mut hash = Sha256::new();
    hash.update(key.driver.as_str());
    // Neither string contains NUL, so no two volumes have the same hash input.
    hash.update([0]);
    hash.update(key.volume.as_str());
    format!("{}.{WHOLE}", hex::encode(hash.finalize()))
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
