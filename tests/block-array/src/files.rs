//! The files of an array: one sparse file for each volume and snapshot, and the state.

use crate::store::Store;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command;
use xtask::failure::Failure;
use xtask::files;

/// The state, with secrets of CHAP: only its owner may read it.
const STATE: &str = "state.json";
const OWNER_ONLY: u32 = 0o600;

/// The directory of the volumes and snapshots.
const CONTENTS: &str = "contents";

/// A directory that one array uses.
#[derive(Debug)]
pub(crate) struct Files {
    directory: PathBuf,
    _held: File,
}

impl Files {
    /// Takes a directory; fails if another array has it.
    pub(crate) fn open(directory: &Path) -> Result<Self, Failure> {
        let failed = || Failure::cannot(format!("use {}", directory.display()));
        files::create_directory(&directory.join(CONTENTS))?;
        // As the kernel names the files behind loop devices.
        let directory = directory.canonicalize().map_err(failed())?;
        let lock = File::create(directory.join("lock")).map_err(failed())?;
        lock.try_lock().map_err(|error| {
            Failure::Unexpected(format!(
                "cannot use {}, since another array does ({error}): end it, or name another directory",
                directory.display()
            ))
        })?;
        Ok(Self {
            directory,
            _held: lock,
        })
    }

    /// The directory of what volumes and snapshots hold.
    pub(crate) fn contents(&self) -> PathBuf {
        self.directory.join(CONTENTS)
    }

    /// The file of a volume or a snapshot.
    pub(crate) fn path(&self, id: &str) -> PathBuf {
        self.contents().join(id)
    }

    /// The state of an earlier run.
    pub(crate) fn load(&self) -> Result<Option<Store>, Failure> {
        let path = self.directory.join(STATE);
        if !path.exists() {
            return Ok(None);
        }
        let what = format!(
            "read {}: move it away to begin with an empty array",
            path.display()
        );
        let state = serde_json::from_slice(&files::read(&path)?);
        state.map(Some).map_err(Failure::cannot(what))
    }

    /// Keeps the state, wholly or not at all.
    pub(crate) fn save(&self, store: &Store) -> Result<(), Failure> {
        let path = self.directory.join(STATE);
        let failed = format!("write {}", path.display());
        let new = path.with_extension("new");
        let text = serde_json::to_vec_pretty(store).map_err(Failure::cannot(&failed))?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        options
            .mode(OWNER_ONLY)
            .open(&new)
            .and_then(|mut file| {
                file.write_all(&text)?;
                file.sync_all()?;
                fs::rename(&new, &path)?;
                File::open(&self.directory)?.sync_all()
            })
            .map_err(Failure::cannot(failed))
    }

    /// Makes an empty file, which takes no space.
    pub(crate) fn create(&self, id: &str, bytes: u64) -> Result<(), Failure> {
        let path = self.path(id);
        let made = File::create(&path).and_then(|file| file.set_len(bytes));
        made.map_err(Failure::cannot(format!("make {}", path.display())))
    }

    /// Makes a file that shares the blocks of another, at one moment. False: the file system shares no blocks (FICLONE, ioctl_ficlone(2)).
    pub(crate) fn share(&self, source: &str, id: &str, bytes: u64) -> Result<bool, Failure> {
        self.create(id, 0)?;
        let shared = || -> Result<bool, std::io::Error> {
            let target = OpenOptions::new().write(true).open(self.path(id))?;
            let source = File::open(self.path(source))?;
            let shared = rustix::fs::ioctl_ficlone(&target, &source).is_ok();
            target.set_len(bytes)?;
            Ok(shared)
        };
        shared().map_err(Failure::cannot(format!("copy {source} to {id}")))
    }

    /// Copies what another file holds, which takes long, and leaves holes as holes.
    pub(crate) fn copy(from: &Path, to: &Path, bytes: u64) -> Result<(), Failure> {
        let mut copy = Command::new("cp");
        copy.args(["--reflink=never", "--sparse=always", "--"]);
        command::read(copy.arg(from).arg(to))?;
        let sized = OpenOptions::new().write(true).open(to);
        sized
            .and_then(|file| file.set_len(bytes))
            .map_err(Failure::cannot(format!("size {}", to.display())))
    }

    /// Makes a file longer.
    pub(crate) fn grow(&self, id: &str, bytes: u64) -> Result<(), Failure> {
        let path = self.path(id);
        let file = OpenOptions::new().write(true).open(&path);
        file.and_then(|file| file.set_len(bytes))
            .map_err(Failure::cannot(format!("grow {}", path.display())))
    }

    /// Removes a file, also one that is not there.
    pub(crate) fn remove(&self, id: &str) {
        let _ = fs::remove_file(self.path(id));
    }

    /// Removes files that no record has: a killed array made or removed them at its end.
    pub(crate) fn keep_only(&self, is_known: impl Fn(&str) -> bool) -> Result<(), Failure> {
        for path in files::entries(&self.contents())? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !is_known(&name) {
                self.remove(&name);
            }
        }
        Ok(())
    }
}
