//! Reads the documents of a command line.

use super::follow::{FileStates, read_states};
use crate::config::{self, Configured};
use crate::fault::Fault;
use std::path::PathBuf;
use wasmount_versions::{Desired, DesiredFrom};

/// The documents of a host that may start: no other process follows them any more.
pub(super) struct Documents {
    /// The documents as they are now.
    pub(super) all: Vec<Configured>,
    /// The state of the files before they were read: later changes are followed.
    pub(super) states: FileStates,
}

impl Documents {
    /// Reads them again, for a host that may have waited for another one: their earlier content does not count. It blocks.
    pub(super) fn read_again(before: &[Configured]) -> Result<Self, Fault> {
        let files: Vec<PathBuf> = before.iter().map(|it| it.file.clone()).collect();
        let states = read_states(files.clone());
        let all = config::load(&files)?;
        for (before, now) in before.iter().zip(&all) {
            let (was, is) = (&before.document.driver_name, &now.document.driver_name);
            if was != is {
                let file = now.file.display();
                let reason = format!("{file}: driverName was {was} and is {is}; start again");
                return Err(Fault::failed("a document changed during the start")(reason));
            }
        }
        Ok(Self { all, states })
    }
}

/// The desired revision of a document.
pub(super) fn desired(configured: Configured) -> Desired {
    Desired {
        document: configured.document,
        folder: configured.folder,
        from: DesiredFrom::File(configured.file),
    }
}
