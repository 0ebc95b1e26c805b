//! Where the signatures of a file lie: beside it, under its name and an ending.
//!
//! It opens nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// After the whole name of the file: base64 of a signature, as `cosign sign-blob --output-signature` writes it.
pub const SIGNATURE_SUFFIX: &str = ".sig";
/// The same for a Sigstore bundle, as `cosign sign-blob --bundle` writes it.
pub const BUNDLE_SUFFIX: &str = ".bundle";

/// Where the signature of a file lies.
pub fn signature_file(file: &Path) -> PathBuf {
    with(file, SIGNATURE_SUFFIX)
}

/// Where the bundle of a file lies.
pub fn bundle_file(file: &Path) -> PathBuf {
    with(file, BUNDLE_SUFFIX)
}

fn with(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_comes_after_the_whole_name() {
        let file = Path::new("/plugins/nas.wasm");
        assert_eq!(signature_file(file), Path::new("/plugins/nas.wasm.sig"));
        assert_eq!(bundle_file(file), Path::new("/plugins/nas.wasm.bundle"));
    }
}
