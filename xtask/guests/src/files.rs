//! Files as names and bytes: the sources of a guest, and the digest that shows whether it was built already.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use xtask::failure::Failure;

/// Bytes by path, relative to some folder.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Reads all files below a folder.
pub(crate) fn read(folder: &Path) -> Result<Files, Failure> {
    let paths = xtask::files::below(folder)?;
    let mut files = Files::new();
    for path in paths.into_iter().filter(|it| !it.is_dir()) {
        let name = path.strip_prefix(folder).unwrap_or(&path);
        let name = name.to_string_lossy().into_owned();
        files.insert(name, xtask::files::read(&path)?);
    }
    Ok(files)
}

/// Writes them into a folder, after removing its other files.
pub(crate) fn write_anew(folder: &Path, files: &Files) -> Result<(), Failure> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .map_err(Failure::cannot(format!("remove {}", folder.display())))?;
    }
    for (name, bytes) in files {
        xtask::files::write(&folder.join(name), bytes)?;
    }
    Ok(())
}

/// `sha256:..` of the names and contents of all files.
pub(crate) fn digest_of_all(files: &Files) -> String {
    let lines: String = files
        .iter()
        .map(|(name, bytes)| format!("{} {name}\n", digest(bytes)))
        .collect();
    digest(lines.as_bytes())
}

/// `sha256:..` in the form of backend documents.
pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        let files = |names: &[&str]| -> Files {
            let file = |name: &&str| ((*name).to_owned(), name.as_bytes().to_vec());
            names.iter().map(file).collect()
        };
        write_anew(&tree, &files(&["a", "b/c"])).unwrap();
        write_anew(&tree, &files(&["b/d"])).unwrap();
        assert_eq!(read(&tree).unwrap(), files(&["b/d"]));
    }

    #[test]
    fn a_name_or_a_byte_more_is_another_digest() {
        let files = |name: &str, text: &str| Files::from([(name.to_owned(), text.into())]);
        let digest = digest_of_all(&files("a", "1"));
        assert_eq!(digest, digest_of_all(&files("a", "1")));
        assert_ne!(digest, digest_of_all(&files("b", "1")));
        assert_ne!(digest, digest_of_all(&files("a", "2")));
    }
}
