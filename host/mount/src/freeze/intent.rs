//! Freeze intents in the run directory, written before a freeze: one file for each freeze, removed when everything is thawed. An intent ends with the
//! mounts that it describes, so it is not synced.
//!
//! This module does not know how a file system is thawed.

use crate::block::BlockRecord;
use crate::failure::{MountSetupError, io};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use uuid::Uuid;
use wasmount_core::mounter::MountError;

/// The directory in the run directory.
const DIRECTORY: &str = "frozen";
/// Only root can read it.
const DIRECTORY_MODE: u32 = 0o700;

/// The directory of all intents.
#[derive(Debug)]
pub(super) struct Intents {
    directory: PathBuf,
}

/// The intent of one freeze.
#[derive(Debug)]
pub(super) struct Intent {
    file: PathBuf,
    devices: Vec<BlockRecord>,
}

impl Intents {
    /// Creates the directory if necessary, and reads what an earlier host left.
    pub(super) fn open(run_directory: &Path) -> Result<(Self, Vec<Intent>), MountSetupError> {
        let directory = run_directory.join(DIRECTORY);
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(&directory)
            .map_err(|source| unusable("create", &directory, source))?;
        let failed = |source| unusable("read", &directory, source);
        let mut left = Vec::new();
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            match serde_json::from_slice(&fs::read(&file).map_err(failed)?) {
                Ok(devices) => left.push(Intent { file, devices }),
                // An intent is complete before anything is frozen, so an unreadable one is removed.
                Err(_) => fs::remove_file(&file).map_err(failed)?,
            }
        }
        Ok((Self { directory }, left))
    }

    /// Must be called before the first of these devices is frozen.
    pub(super) fn write(&self, devices: &[BlockRecord]) -> Result<Intent, MountError> {
        let intent = Intent {
            file: self.directory.join(Uuid::new_v4().to_string()),
            devices: devices.to_owned(),
        };
        let written = serde_json::to_vec(devices)
            .map_err(std::io::Error::from)
            .and_then(|text| fs::write(&intent.file, text));
        match written {
            Ok(()) => Ok(intent),
            Err(error) => {
                let file = intent.file.display().to_string();
                intent.end(true);
                Err(io("write", file, &error))
            }
        }
    }
}

impl Intent {
    /// The devices below the file systems.
    pub(super) fn devices(&self) -> &[BlockRecord] {
        &self.devices
    }

    /// Removes the intent if nothing of it is frozen any more. Otherwise it is kept, and the next host tries again.
    pub(super) fn end(self, is_thawed: bool) {
        let file = self.file.display();
        if !is_thawed {
            tracing::warn!(%file, "the freeze intent is kept for the next start");
        } else if let Err(error) = fs::remove_file(&self.file) {
            // To thaw a file system that is not frozen is harmless.
            tracing::debug!(%file, %error, "the freeze intent remains");
        }
    }
}

fn unusable(operation: &'static str, path: &Path, source: std::io::Error) -> MountSetupError {
    MountSetupError::Directory {
        operation,
        kind: "journal",
        path: path.to_owned(),
        parent: "run",
        source,
    }
}
