//! The public keys and the signatures that lie in files.

use crate::regular_file;
use std::path::{Path, PathBuf};
use wasmount_artifact::Beside;
use wasmount_artifact::signature::{
    KEY_BYTES, SIGNATURE_BYTES, SignerKeys, bundle_file, signature_file,
};
use wasmount_core::document::Signers;

/// The keys that a document names, by absolute paths, read; or why they cannot be.
pub(crate) fn signer_keys(signers: &Signers) -> Result<SignerKeys, String> {
    let read = |path: &Path| {
        let bytes = regular_file::read(path, KEY_BYTES as u64);
        bytes.map_err(|refused| refused.to_string())
    };
    SignerKeys::of(signers, read).map_err(|error| error.to_string())
}

/// The signatures beside the file of a component; or why one that is there cannot be read.
pub(crate) fn beside(component: &Path) -> Result<Beside, String> {
    let read = |path: &Path| {
        let bytes = regular_file::read_if_there(path, SIGNATURE_BYTES as u64);
        bytes.map_err(|refused| format!("the signature {}: {refused}", path.display()))
    };
    Ok(Beside {
        signature: read(&signature_file(component))?,
        bundle: read(&bundle_file(component))?,
    })
}

/// The signatures that there are, each with the path at which it is looked for beside the file of a component.
pub(crate) fn with_paths(
    beside: Beside,
    component: &Path,
) -> impl Iterator<Item = (PathBuf, Vec<u8>)> {
    let both = [
        (signature_file(component), beside.signature),
        (bundle_file(component), beside.bundle),
    ];
    both.into_iter()
        .filter_map(|(path, bytes)| Some((path, bytes?)))
}
