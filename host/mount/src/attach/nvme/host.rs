//! Who this node is for subsystems: its NQN and its id, in the files that nvme-cli uses, so that all programs of the node have one identity. The kernel
//! refuses a second id for one NQN, and arrays give namespaces to NQNs.

use super::connect::{HostIdentity, check_nqn};
use crate::failure::io;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use uuid::{Builder, Uuid};
use wasmount_core::mounter::MountError;

/// Largest of these files that is read, in bytes: an NQN or a UUID, with space to spare.
const FILE_BYTES: u64 = 4096;
/// An NQN that is made of a UUID (NVM Express Base Specification 2.0, 4.5).
const UUID_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:";
/// The machine's id is confidential, so what is derived of it is hashed with this (machine-id(5)).
const PURPOSE: &str = "nqn of wasmount.io";

/// Reads both files below `/etc`. What is missing is made from the machine's id, which differs between clones of one image: always the same. The NQN is
/// kept, so that others can read it.
pub(super) fn identity(etc: &Path) -> Result<HostIdentity, MountError> {
    let (nqn_file, id_file) = (etc.join("nvme/hostnqn"), etc.join("nvme/hostid"));
    let nqn = match read(&nqn_file)? {
        Some(nqn) => nqn,
        None => {
            let nqn = format!("{UUID_NQN}{}", of_machine(etc)?);
            write(&nqn_file, &nqn)?;
            nqn
        }
    };
    check_nqn(&nqn).map_err(|invalid| unusable(&nqn_file, invalid))?;
    let id = match read(&id_file)? {
        Some(id) => id
            .parse()
            .map_err(|_| unusable(&id_file, "it has no UUID; write one"))?,
        // As nvme-cli does.
        None => match nqn.strip_prefix(UUID_NQN).and_then(|it| it.parse().ok()) {
            Some(id) => id,
            None => of_machine(etc)?,
        },
    };
    Ok(HostIdentity { nqn, id })
}

/// The one line of a file. `None`: there is no such file, or it is empty.
fn read(path: &Path) -> Result<Option<String>, MountError> {
    let mut text = String::new();
    let file = fs::File::open(path);
    match file.and_then(|file| file.take(FILE_BYTES).read_to_string(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io("read", path.display(), &error)),
    }
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// Written whole or not at all, and durable: arrays are told of it.
fn write(path: &Path, line: &str) -> Result<(), MountError> {
    let unfinished = path.with_extension("unfinished");
    let written = fs::create_dir_all(path.parent().unwrap_or(path)).and_then(|()| {
        fs::write(&unfinished, format!("{line}\n"))?;
        fs::File::open(&unfinished)?.sync_all()?;
        fs::rename(&unfinished, path)
    });
    written.map_err(|error| {
        let reason = format!(
            "the node has no NQN yet, and {line} cannot be written there ({error}); install nvme-cli, which makes one, or write this one"
        );
        unusable(path, reason)
    })
}

/// A UUID that only this machine has: always the same.
fn of_machine(etc: &Path) -> Result<Uuid, MountError> {
    let path: PathBuf = etc.join("machine-id");
    let id = read(&path)?.and_then(|id| Uuid::parse_str(&id).ok());
    let id = id.ok_or_else(|| {
        unusable(
            &path,
            "it has no machine id, of which the node's NQN and id would be made; write both to /etc/nvme/hostnqn and /etc/nvme/hostid, as nvme-cli does",
        )
    })?;
    let mut hash = Sha256::new();
    hash.update(id.as_bytes());
    hash.update(PURPOSE);
    let hash = hash.finalize();
    let bytes = hash.first_chunk().copied().unwrap_or_default();
    Ok(Builder::from_custom_bytes(bytes).into_uuid())
}

fn unusable(path: &Path, reason: impl std::fmt::Display) -> MountError {
    MountError::unusable(path.display().to_string(), reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const MACHINE: &str = "0123456789abcdef0123456789abcdef";
    const UUID: &str = "11111111-2222-4333-8444-555555555555";

    fn etc(files: &[(&str, &str)]) -> TempDir {
        let etc = tempfile::tempdir().unwrap();
        fs::create_dir(etc.path().join("nvme")).unwrap();
        for (name, text) in files {
            fs::write(etc.path().join(name), text).unwrap();
        }
        etc
    }

    #[test]
    fn the_files_of_nvme_cli_are_taken_and_kept() {
        let etc = etc(&[
            ("nvme/hostnqn", "nqn.2014-08.org.acme:node\n"),
            ("nvme/hostid", UUID),
        ]);
        let identity = identity(etc.path()).unwrap();
        assert_eq!(identity.nqn, "nqn.2014-08.org.acme:node");
        assert_eq!(identity.id.to_string(), UUID);
        let kept = fs::read_to_string(etc.path().join("nvme/hostnqn")).unwrap();
        assert_eq!(kept, "nqn.2014-08.org.acme:node\n");
    }

    #[test]
    fn a_missing_id_is_that_of_the_nqn() {
        let etc = etc(&[("nvme/hostnqn", &format!("{UUID_NQN}{UUID}"))]);
        assert_eq!(identity(etc.path()).unwrap().id.to_string(), UUID);
    }

    #[test]
    fn a_missing_nqn_is_made_of_the_machine_once() {
        let etc = etc(&[("machine-id", MACHINE)]);
        fs::remove_dir(etc.path().join("nvme")).unwrap();
        let made = identity(etc.path()).unwrap();
        assert_eq!(made.nqn, format!("{UUID_NQN}{}", made.id));
        assert!(!made.nqn.replace('-', "").contains(MACHINE));
        fs::remove_file(etc.path().join("machine-id")).unwrap();
        assert_eq!(identity(etc.path()).unwrap(), made);
    }

    #[test]
    fn a_node_without_identity_is_told_what_to_write() {
        for (files, expected) in [
            (&[][..], "to /etc/nvme/hostnqn"),
            (&[("nvme/hostnqn", "iqn.a")][..], "it is no NQN"),
            (
                &[("nvme/hostnqn", "nqn.a"), ("nvme/hostid", "b")][..],
                "it has no UUID",
            ),
            (&[("nvme/hostnqn", "nqn.a")][..], "no machine id"),
        ] {
            let etc = etc(files);
            let error = identity(etc.path()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
