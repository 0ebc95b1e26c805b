//! The common parts of the commands that move components: reading, writing and waiting.

use super::common::wrong;
use crate::fault::Fault;
use crate::regular_file;
use crate::signature_files;
use crate::whole_file;
use std::fs;
use std::future::Future;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wasmount_artifact::signature::{bundle_file, signature_file};
use wasmount_artifact::{Beside, COMPONENT_BYTES};

/// Reads a file that should be a component.
pub(super) fn component(path: &Path) -> Result<Vec<u8>, Fault> {
    let failed = format!("the component {}", path.display());
    regular_file::read(path, COMPONENT_BYTES).map_err(Fault::failed(failed))
}

/// Reads the signatures beside a file.
pub(super) fn beside(file: &Path) -> Result<Beside, Fault> {
    signature_files::beside(file).map_err(Fault::Failed)
}

/// Parses the name of a file to write. Standard output is rejected, since digests are printed there.
pub(super) fn output_file(value: &str) -> Result<PathBuf, String> {
    match value {
        "-" => {
            Err("is not standard output here, which takes the digests; `./-` is a file".to_owned())
        }
        file => Ok(PathBuf::from(file)),
    }
}

/// Rejects an output that would overwrite the input.
pub(super) fn other_than(output: &Path, input: &Path) -> Result<(), Fault> {
    match is_same_file(output, input) {
        Ok(true) => Err(wrong("--output", output, "it is the file that is read")),
        // A missing file differs, and reading reports what else is wrong.
        Ok(false) | Err(_) => Ok(()),
    }
}

/// Rejects an output with the name of a file that a host, `verify` and `save` itself look for beside a component.
pub(super) fn no_signature_of(output: &Path, component: &Path) -> Result<(), Fault> {
    let places = [signature_file(component), bundle_file(component)];
    if !places.iter().any(|place| is_same_place(output, place)) {
        return Ok(());
    }
    let reason = format!(
        "there a host looks for signatures of {}; name another file, such as {}",
        component.display(),
        component.with_extension("tar").display()
    );
    Err(wrong("--output", output, reason))
}

/// Compares the paths, since neither file need exist; compares the files, if both exist.
fn is_same_place(one: &Path, other: &Path) -> bool {
    let folder = |path: &Path| match path.parent() {
        Some(folder) if folder != Path::new("") => fs::canonicalize(folder).ok(),
        _ => fs::canonicalize(".").ok(),
    };
    let same_name = one.file_name() == other.file_name() && folder(one) == folder(other);
    same_name || is_same_file(one, other).unwrap_or(false)
}

fn is_same_file(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (fs::metadata(one)?, fs::metadata(other)?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// Writes the signatures of a file beside it; returns the files that were written.
pub(super) fn write_beside(file: &Path, beside: Beside) -> Result<Vec<PathBuf>, Fault> {
    let mut written = Vec::new();
    for (path, bytes) in signature_files::with_paths(beside, file) {
        write_whole(&path, &bytes)?;
        written.push(path);
    }
    Ok(written)
}

/// Writes bytes into a file: completely, or not at all.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    whole_file::write(path, whole_file::NEW_FILE, |file| file.write_all(bytes))
        .map_err(Fault::failed(format!("{} is not written", path.display())))
}

/// Blocks until the work is done.
pub(super) fn wait<T>(work: impl Future<Output = T>) -> Result<T, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Fault::failed("the async runtime cannot be started"))?;
    Ok(runtime.block_on(work))
}
