//! Files of keys, as the command line names them.

use super::common::wrong;
use super::password;
use crate::fault::Fault;
use crate::regular_file;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wasmount_artifact::signature::{
    KEY_BYTES, NamedKey, PrivateKey, PrivateKeyFile, SignerKeys, VerifyingKey,
};

/// The flag that names a key.
const FLAG: &str = "--key";
/// Of a file's mode: what its group and everybody else may do.
const OTHERS: u32 = 0o077;

/// The private key of a file; asks for its password if it has one.
pub(super) fn private_key(path: &Path) -> Result<PrivateKey, Fault> {
    let text = text(path)?;
    // Said, not refused: a key mounted from a Secret is readable by its group.
    if let Ok(about) = fs::metadata(path)
        && about.mode() & OTHERS != 0
    {
        let path = path.display();
        let _ = writeln!(
            io::stderr(),
            "wasmount: warning: others than its owner may read or write the private key {path}; `chmod 600 {path}`"
        );
    }
    let file = PrivateKeyFile::from_pem(&text);
    match file.map_err(|refused| wrong(FLAG, path, &refused.to_string()))? {
        PrivateKeyFile::Plain(key) => Ok(key),
        PrivateKeyFile::Sealed(sealed) => {
            let key = sealed.open(&password::of_key()?);
            key.map_err(Fault::room(format!("the private key {}", path.display())))
        }
    }
}

/// The public keys of some files: a signature by one of them is wanted, or by each.
pub(super) fn signer_keys(paths: &[PathBuf], each: bool) -> Result<SignerKeys, Fault> {
    let key = |path: &PathBuf| {
        let key = VerifyingKey::from_pem(&text(path)?);
        let key = key.map_err(|refused| wrong(FLAG, path, &refused.to_string()))?;
        Ok(NamedKey::new(path.display().to_string(), key))
    };
    let keys = paths.iter().map(key).collect::<Result<Vec<_>, Fault>>()?;
    Ok(match each {
        true => SignerKeys::new(Vec::new(), keys),
        false => SignerKeys::new(keys, Vec::new()),
    })
}

fn text(path: &Path) -> Result<String, Fault> {
    let bytes = regular_file::read(path, KEY_BYTES as u64);
    let bytes = bytes.map_err(|refused| wrong(FLAG, path, &refused.to_string()))?;
    String::from_utf8(bytes).map_err(|_| wrong(FLAG, path, "is not text"))
}
