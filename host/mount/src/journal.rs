//! The journal: what was meant and what was done for each volume, one file a volume, written aside and renamed.
//!
//! It is apart because idempotence and recovery rest on it, and tear-down must not. It lies in the run directory, which dies with the mounts
//! that it describes, so nothing is synced. A file that is torn or of another version is put aside and reported, and never stops the host.
//! It must not know the kernel: whether a record still holds is for its readers to see.

pub(crate) mod entry;

use crate::exclusive;
use crate::failure::{MountSetupError, kernel};
use crate::observe::Identity;
use entry::{Entry, SCHEMA, hex};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::names::DriverName;

/// The directory in the run directory.
const DIRECTORY: &str = "journal";
/// End of a whole entry's name.
const WHOLE: &str = "json";
/// End of the name of one that is being written.
const ASIDE: &str = "aside";
/// End of the name of one that could not be read.
const QUARANTINED: &str = "quarantined";
/// Only root reads it: paths and plans are nobody else's business.
const DIRECTORY_MODE: u32 = 0o700;
/// The same for a file.
const FILE_MODE: u32 = 0o600;

/// All volumes. Read once; then memory and files say the same.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: PathBuf,
    /// Held while a file is written: some microseconds in memory, and no storage of a volume is touched.
    volumes: Mutex<Volumes>,
    /// Locked as long as this lives. The kernel gives it back, however the host ends.
    _lock: File,
}

/// What the files say.
#[derive(Debug, Default)]
struct Volumes {
    entries: BTreeMap<VolumeKey, Entry>,
    /// Whose mounts are recorded at a path. More than one only where a record is outdated.
    holders: BTreeMap<String, BTreeSet<VolumeKey>>,
}

impl Volumes {
    /// Puts an entry in the place of the volume's last one; one without a word is forgotten.
    fn replace(&mut self, entry: Entry) {
        if let Some(before) = self.entries.remove(&entry.key) {
            for (path, _, _) in before.mounts() {
                if let Some(keys) = self.holders.get_mut(path) {
                    keys.remove(&entry.key);
                    if keys.is_empty() {
                        self.holders.remove(path);
                    }
                }
            }
        }
        if entry.is_empty() {
            return;
        }
        for (path, _, _) in entry.mounts() {
            let keys = self.holders.entry(path.to_owned()).or_default();
            keys.insert(entry.key.clone());
        }
        self.entries.insert(entry.key.clone(), entry);
    }
}

impl Journal {
    /// Reads what an earlier host left.
    pub(crate) fn open(run_directory: &Path) -> Result<Self, MountSetupError> {
        let directory = run_directory.join(DIRECTORY);
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(&directory)
            .map_err(|source| setup("create", &directory, source))?;
        let lock = lock(&directory)?;
        let files = fs::read_dir(&directory).map_err(|source| setup("read", &directory, source))?;
        let mut volumes = Volumes::default();
        for file in files {
            let path = file
                .map_err(|source| setup("read", &directory, source))?
                .path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(WHOLE) => match read_entry(&path) {
                    Ok(entry) => volumes.replace(entry),
                    Err(reason) => quarantine(&path, &reason)?,
                },
                // Of a host that was killed while it wrote: the entry itself is as it was.
                Some(ASIDE) => {
                    fs::remove_file(&path).map_err(|source| setup("clean", &path, source))?;
                }
                _ => {}
            }
        }
        Ok(Self {
            directory,
            volumes: Mutex::new(volumes),
            _lock: lock,
        })
    }

    /// What is known of a volume.
    pub(crate) fn entry(&self, key: &VolumeKey) -> Entry {
        self.lock()
            .entries
            .get(key)
            .cloned()
            .unwrap_or_else(|| Entry::empty(key.clone()))
    }

    /// All volumes of a driver.
    pub(crate) fn of_driver(&self, driver: &DriverName) -> Vec<Entry> {
        self.lock()
            .entries
            .values()
            .filter(|entry| entry.key.driver == *driver)
            .cloned()
            .collect()
    }

    /// Whose mounts are recorded at a path, and what their roots are.
    pub(crate) fn holders_of(&self, path: &str) -> Vec<(VolumeKey, Identity)> {
        let volumes = self.lock();
        let keys = volumes.holders.get(path).into_iter().flatten();
        keys.filter_map(|key| volumes.entries.get(key))
            .filter_map(|entry| {
                entry
                    .mounts()
                    .find(|(mounted, _, _)| *mounted == path)
                    .map(|(_, _, identity)| (entry.key.clone(), identity))
            })
            .collect()
    }

    /// Changes what is known of a volume: first on disk, then in memory. An error of `change` changes nothing.
    pub(crate) fn update<T>(
        &self,
        key: &VolumeKey,
        change: impl FnOnce(&mut Entry) -> Result<T, MountError>,
    ) -> Result<T, MountError> {
        let mut volumes = self.lock();
        let before = volumes.entries.get(key);
        let mut entry = before.cloned().unwrap_or_else(|| Entry::empty(key.clone()));
        let answer = change(&mut entry)?;
        if before != Some(&entry) {
            self.store(&entry).map_err(|error| {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                kernel("write", "the mount journal", errno)
            })?;
        }
        volumes.replace(entry);
        Ok(answer)
    }

    fn store(&self, entry: &Entry) -> io::Result<()> {
        let path = self.directory.join(file_name(&entry.key));
        if entry.is_empty() {
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let aside = path.with_extension(ASIDE);
        let written = write_entry(&aside, entry).and_then(|()| fs::rename(&aside, &path));
        if written.is_err() {
            // A full disk must not stay full of halves; the error that counts is the first.
            let _ = fs::remove_file(&aside);
        }
        written
    }

    fn lock(&self) -> MutexGuard<'_, Volumes> {
        // What a panicking thread leaves is whole: memory changes after the file, and nothing in that can panic.
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps other hosts out of the directory.
fn lock(directory: &Path) -> Result<File, MountSetupError> {
    let file = File::open(directory).map_err(|source| setup("open", directory, source))?;
    match exclusive::lock(&file) {
        Ok(true) => Ok(file),
        Ok(false) => Err(MountSetupError::JournalInUse {
            path: directory.to_owned(),
        }),
        Err(errno) => Err(setup("lock", directory, errno.into())),
    }
}

fn file_name(key: &VolumeKey) -> String {
    let mut hash = Sha256::new();
    hash.update(key.driver.as_str());
    // In neither of the two words, so no two volumes hash alike.
    hash.update([0]);
    hash.update(key.volume.as_str());
    format!("{}.{WHOLE}", hex(&hash.finalize()))
}

fn write_entry(path: &Path, entry: &Entry) -> io::Result<()> {
    let bytes = serde_json::to_vec(entry)?;
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .open(path)?
        .write_all(&bytes)
}

fn read_entry(path: &Path) -> Result<Entry, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let entry: Entry = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    if entry.schema != SCHEMA {
        return Err(format!(
            "its schema is {}, this host knows {SCHEMA}",
            entry.schema
        ));
    }
    if path.file_name() != Some(file_name(&entry.key).as_ref()) {
        return Err("its name is not that of its volume".to_owned());
    }
    Ok(entry)
}

fn quarantine(path: &Path, reason: &str) -> Result<(), MountSetupError> {
    let aside = path.with_extension(QUARANTINED);
    tracing::error!(
        file = %aside.display(),
        reason,
        "a journal entry cannot be read and was put aside; its volume can still be unpublished and unstaged"
    );
    fs::rename(path, &aside).map_err(|source| setup("put aside an entry of", path, source))
}

fn setup(operation: &'static str, path: &Path, source: io::Error) -> MountSetupError {
    MountSetupError::Journal {
        operation,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests;
