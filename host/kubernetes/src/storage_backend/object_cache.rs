//! A copy of the objects on disk, as they were last observed: a host that starts without the API server serves them.
//!
//! It contains no status, no managed fields, and never a secret: objects only name secrets.

use super::BackendObject;
use crate::storage_backend::FORCE_DELETE;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Mode of the file: it shows where secrets are, and a process that can write it decides what is served.
const MODE: u32 = 0o600;
/// Largest file that is read, in bytes: a hundred objects of the largest size (etcd, 1.5 MiB).
const BYTES: u64 = 150 << 20;

/// One object.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The API server no longer has it, and the host has not finished with it.
    pub(super) gone: bool,
    pub(super) object: BackendObject,
}

impl Kept {
    /// With what the host serves of it, instead of what it is to serve later.
    pub(super) fn new(object: &BackendObject, served: &Value, gone: bool) -> Self {
        let metadata = &object.metadata;
        let forced = object.annotations().iter();
        let forced = forced.filter(|(key, _)| *key == FORCE_DELETE);
        Self {
            gone,
            object: BackendObject {
                types: object.types.clone(),
                metadata: ObjectMeta {
                    name: metadata.name.clone(),
                    uid: metadata.uid.clone(),
                    generation: metadata.generation,
                    creation_timestamp: metadata.creation_timestamp.clone(),
                    deletion_timestamp: metadata.deletion_timestamp.clone(),
                    annotations: Some(forced.map(|(k, v)| (k.clone(), v.clone())).collect()),
                    ..ObjectMeta::default()
                },
                spec: served.clone(),
                status: None::<Value>,
            },
        }
    }
}

/// All objects of the file; none if there is no file.
pub(super) fn read(path: &Path) -> io::Result<Vec<Kept>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(io::Error::from)
}

/// Writes another file and renames it: a crash leaves the old file or the new one.
pub(super) fn write(path: &Path, all: &[Kept]) -> io::Result<()> {
    let aside = path.with_extension("new");
    // Removes the file that a crash left; another user's file would keep its mode.
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(MODE)
        .open(&aside)?;
    file.write_all(&serde_json::to_vec(all)?)?;
    file.sync_all()?;
    fs::rename(&aside, path)?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::object::tests::{object, spec};
    use super::*;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn cached_documents_are_read_without_status_by_their_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("storage-backends.json");
        assert!(read(&path).unwrap().is_empty());
        let mut one = object("a", spec());
        one.status = Some(json!({ "ready": "1/1" }));
        one.metadata.annotations = Some(
            [(FORCE_DELETE, "true"), ("note", "hello")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
        );
        for gone in [false, true] {
            write(&path, &[Kept::new(&one, &one.spec, gone)]).unwrap();
        }
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        let [kept] = <[Kept; 1]>::try_from(read(&path).unwrap()).unwrap();
        assert!(kept.gone);
        let back = kept.object;
        assert_eq!((back.spec, back.status), (one.spec, None));
        let annotations = back.metadata.annotations.unwrap();
        assert_eq!(
            annotations,
            [(FORCE_DELETE.to_owned(), "true".to_owned())].into()
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_torn_file_is_an_error_and_not_an_empty_list() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("storage-backends.json");
        fs::write(&path, "[{").unwrap();
        assert!(read(&path).is_err());
    }
}
