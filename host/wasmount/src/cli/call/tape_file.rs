//! The file of a recorded conversation with storage systems. The form is that of the crate `network`.

use crate::cli::common::wrong;
use crate::fault::Fault;
use crate::host::Conversed;
use crate::regular_file;
use crate::whole_file;
use std::io::Write;
use std::path::Path;
use wasmount_network::{Conversation, TAPE_FILE_BYTES, TapeError};

/// The flag that names a file to read.
const FLAG: &str = "--http-replay";

/// Reads a conversation.
pub(super) fn read(file: &Path) -> Result<Conversation, Fault> {
    let bytes = regular_file::read(file, TAPE_FILE_BYTES);
    let bytes = bytes.map_err(|refused| wrong(FLAG, file, refused))?;
    Conversation::parse(&bytes).map_err(|error| wrong(FLAG, file, error))
}

/// Replaces the file as a whole.
pub(super) fn write(
    file: &Path,
    conversed: &Result<Option<Conversed>, TapeError>,
) -> Result<(), Fault> {
    let failed = format!("the conversation cannot be written to {}", file.display());
    let Some((conversation, _)) = conversed
        .as_ref()
        .map_err(|error| Fault::failed(&failed)(error.clone()))?
    else {
        return Ok(());
    };
    let text = conversation.to_json().map_err(Fault::failed(&failed))?;
    // It names volumes, so the file is private.
    whole_file::write(file, whole_file::PRIVATE_FILE, |new| new.write_all(&text))
        .map_err(Fault::failed(&failed))
}

/// Whether a replay was what the file holds.
pub(super) fn check(
    file: Option<&Path>,
    conversed: &Result<Option<Conversed>, TapeError>,
) -> Result<(), Fault> {
    match (file, conversed) {
        (Some(file), Ok(Some((_, Some(error)))) | Err(error)) => {
            let what = format!("the call is not the one of {}", file.display());
            Err(Fault::failed(what)(error.clone()))
        }
        _ => Ok(()),
    }
}
