//! What the commands that move components have in common: reading one, writing one, waiting, and saying the result.

use super::common::wrong;
use crate::fault::Fault;
use crate::regular_file;
use crate::whole_file;
use std::fs;
use std::future::Future;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wasmount_artifact::signature::{SIGNATURE_BYTES, bundle_file, signature_file};
use wasmount_artifact::{Beside, COMPONENT_BYTES};

/// The bytes of a file that should be a component.
pub(super) fn component(path: &Path) -> Result<Vec<u8>, Fault> {
    let failed = format!("the component {}", path.display());
    regular_file::read(path, COMPONENT_BYTES).map_err(Fault::room(failed))
}

/// The signatures that lie beside a file.
pub(super) fn beside(file: &Path) -> Result<Beside, Fault> {
    Ok(Beside {
        signature: if_there(&signature_file(file))?,
        bundle: if_there(&bundle_file(file))?,
    })
}

/// What a file holds, if there is one.
pub(super) fn if_there(path: &Path) -> Result<Option<Vec<u8>>, Fault> {
    regular_file::read_if_there(path, SIGNATURE_BYTES as u64)
        .map_err(Fault::room(path.display().to_string()))
}

/// Reads the name of a file to write. Standard output takes digests.
pub(super) fn output_file(words: &str) -> Result<PathBuf, String> {
    match words {
        "-" => {
            Err("is not standard output here, which takes the digests; `./-` is a file".to_owned())
        }
        file => Ok(PathBuf::from(file)),
    }
}

/// Refuses to write over what is read.
pub(super) fn other_than(output: &Path, input: &Path) -> Result<(), Fault> {
    match is_same_file(output, input) {
        Ok(true) => Err(wrong("--output", output, "it is the file that is read")),
        // One that is not there is another, and reading says what else is wrong.
        Ok(false) | Err(_) => Ok(()),
    }
}

/// Refuses to write what a host, `verify` and `save` itself look for beside a component.
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
    Err(wrong("--output", output, &reason))
}

/// By where they lie, since neither need be there; by what they are, where both are.
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

/// The signatures of a file beside it; the files that were written.
pub(super) fn write_beside(file: &Path, beside: &Beside) -> Result<Vec<PathBuf>, Fault> {
    let Beside { signature, bundle } = beside;
    let all = [
        (signature_file(file), signature),
        (bundle_file(file), bundle),
    ];
    let mut written = Vec::new();
    for (path, bytes) in all {
        if let Some(bytes) = bytes {
            write_whole(&path, bytes)?;
            written.push(path);
        }
    }
    Ok(written)
}

/// Bytes into a file: whole, or not at all.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    whole_file::write(path, |file| file.write_all(bytes))
        .map_err(Fault::room(format!("{} is not written", path.display())))
}

/// Returns when it is done.
pub(super) fn wait<T>(work: impl Future<Output = T>) -> Result<T, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Fault::room("a runtime cannot be started"))?;
    Ok(runtime.block_on(work))
}

/// On standard output.
pub(super) fn say(text: &str) -> Result<(), Fault> {
    let mut output = io::stdout().lock();
    let said = output.write_all(text.as_bytes());
    said.and_then(|()| output.flush())
        .map_err(Fault::room("the result cannot be printed"))
}
