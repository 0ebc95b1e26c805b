//! Maps a compiled component. This is the only code of the host that turns bytes of a file into machine code.
//!
//! wasmtime cannot verify machine code: `Component::deserialize_file` is `unsafe` for that reason. So this function takes an open file and the
//! checksum that the host itself wrote beside it.

use rustix::fs::{FileType, fstat};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;
use wasmtime::Engine;
use wasmtime::component::Component;

/// SHA-256 of a compiled component.
pub type Checksum = [u8; 32];

/// Bytes that are hashed at a time: large enough that the cost of system calls is negligible.
const HASHED_AT_ONCE: usize = 64 << 10;

/// Why a file was not mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// Another user could have written it.
    #[error("the file is not a regular file that only this user can write")]
    Foreign,
    /// Truncated or damaged.
    #[error("the content is not what was written: its checksum differs")]
    Checksum,
    /// It could not be read.
    #[error("the file could not be read")]
    Read(#[source] io::Error),
    /// Compiled by another version of wasmtime or for another machine.
    #[error("the code does not fit this engine: {0}")]
    Incompatible(wasmtime::Error),
}

/// Maps a compiled component after verifying, on this descriptor, that only this user can have written it and that it contains what the host wrote.
/// `checksum` must come from [`Component::serialize`]'s output, stored in a directory that no other user can write to.
pub fn map_component(
    engine: &Engine,
    file: &mut File,
    checksum: &Checksum,
) -> Result<Component, MapError> {
    let status = fstat(&*file).map_err(|error| MapError::Read(error.into()))?;
    let own = status.st_uid == rustix::process::geteuid().as_raw();
    let regular = FileType::from_raw_mode(status.st_mode).is_file();
    if !own || !regular || status.st_mode & 0o022 != 0 {
        return Err(MapError::Foreign);
    }
    if sha256(file).map_err(MapError::Read)? != *checksum {
        return Err(MapError::Checksum);
    }
    // The path of the descriptor: even if another file is renamed over the original path, this is the file that was hashed.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: the bytes are the output of `Component::serialize` (the checksum proves that), wasmtime itself rejects those of another version, target
    // or setting, and the file never changes while it is mapped: only this user can write it, and the host only ever renames.
    #[allow(unsafe_code, reason = "wasmtime cannot check machine code; see above")]
    unsafe { Component::deserialize_file(engine, path) }.map_err(MapError::Incompatible)
}

fn sha256(file: &mut File) -> io::Result<Checksum> {
    file.rewind()?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; HASHED_AT_ONCE];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().into()),
            length => hash.update(buffer.get(..length).unwrap_or_default()),
        }
    }
}
