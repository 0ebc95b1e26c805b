//! What is about to be frozen, written down in the run directory before it is: one file a freeze, gone when everything is thawed. It dies with the
//! mounts that it speaks of, so nothing is synced.
//!
//! It must not know how a file system is thawed.

use crate::block::BlockRecord;
use crate::failure::{MountSetupError, io};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use uuid::Uuid;
use wasmount_core::mounter::MountError;

/// In the run directory.
const DIRECTORY: &str = "frozen";
/// Only root reads it.
const DIRECTORY_MODE: u32 = 0o700;

/// The directory.
#[derive(Debug)]
pub(super) struct Intents {
    directory: PathBuf,
}

/// One freeze.
#[derive(Debug)]
pub(super) struct Intent {
    file: PathBuf,
    devices: Vec<BlockRecord>,
}

impl Intents {
    /// Makes the directory if need be, and reads what an earlier host left.
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
                // It is whole before anything is frozen.
                Err(_) => fs::remove_file(&file).map_err(failed)?,
            }
        }
        Ok((Self { directory }, left))
    }

    /// To be called before the first of these is frozen.
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
    /// What lies below the file systems.
    pub(super) fn devices(&self) -> &[BlockRecord] {
        &self.devices
    }

    /// Nothing of it is frozen any more; or something is, and the next host tries again.
    pub(super) fn end(self, is_thawed: bool) {
        let file = self.file.display();
        if !is_thawed {
            tracing::warn!(%file, "the freeze intent is kept for the next start");
        } else if let Err(error) = fs::remove_file(&self.file) {
            // What is not frozen is not hurt by being thawed.
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
