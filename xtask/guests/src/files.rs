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
    let mut files = Files::new();
    add(folder, "", &mut files)?;
    Ok(files)
}

fn add(folder: &Path, prefix: &str, files: &mut Files) -> Result<(), Failure> {
    let failed = || Failure::io(format!("read {}", folder.display()));
    for entry in fs::read_dir(folder).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().map_err(failed())?.is_dir() {
            add(&entry.path(), &format!("{name}/"), files)?;
        } else {
            files.insert(name, bytes(&entry.path())?);
        }
    }
    Ok(())
}

/// Reads one file.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(Failure::io(format!("read {}", path.display())))
}

/// Writes them into a folder, after removing its other files.
pub(crate) fn write_anew(folder: &Path, files: &Files) -> Result<(), Failure> {
    let failed = || Failure::io(format!("write {}", folder.display()));
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed())?;
    }
    for (name, bytes) in files {
        write(&folder.join(name), bytes)?;
    }
    Ok(())
}

/// Writes one file, and creates its folder.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = || Failure::io(format!("write {}", path.display()));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed())?;
    }
    fs::write(path, bytes).map_err(failed())
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
