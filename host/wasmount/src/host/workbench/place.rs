//! A directory that goes with the command. Apart because several commands need one, and each must leave nothing behind.

use crate::host::OWN_MODE;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::{env, io, process};

/// The directory; it is removed with all that is in it when this is dropped.
pub(crate) struct Place(PathBuf);

impl Place {
    /// One that was there before is somebody else's: it is refused.
    pub(crate) fn make(purpose: &str) -> io::Result<Self> {
        let name = format!("wasmount-{purpose}-{}", process::id());
        let path = env::temp_dir().join(name);
        DirBuilder::new().mode(OWN_MODE).create(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed is in the temporary directory of the system.
        let _ = fs::remove_dir_all(&self.0);
    }
}
