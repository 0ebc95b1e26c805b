//! A recorded line of the contract, compared with what it is now.

use super::items::contract_items;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use xtask::workspace::Workspace;
use xtask_guests::golden::{CONTRACT, MANIFEST, Manifest};

/// A line of the contract and its guests.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    folder: PathBuf,
    manifest: Manifest,
}

impl Line {
    /// All recorded lines, in the order of their names.
    pub(crate) fn all(workspace: &Workspace) -> Vec<Self> {
        let entries = fs::read_dir(workspace.golden()).unwrap();
        let mut folders: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        folders.sort();
        folders.into_iter().map(Self::read).collect()
    }

    fn read(folder: PathBuf) -> Self {
        let manifest = Manifest::read(&folder).unwrap();
        Self { folder, manifest }
    }

    /// The name of the line, such as `0.1`.
    pub(crate) fn name(&self) -> String {
        let name = self.folder.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The advice for a guest of this line that does not run any more.
    pub(crate) fn advice(&self) -> &'static str {
        if self.manifest.frozen {
            "the line is released: mend the host, the guest cannot be changed"
        } else {
            "the line is not frozen: if the contract changed on purpose, run `cargo xtask golden record`"
        }
    }

    /// The components of the line.
    pub(crate) fn components(&self) -> Vec<PathBuf> {
        let names = self.manifest.guests.keys();
        names.map(|name| self.folder.join(name)).collect()
    }

    /// Differences from the manifest: files that were changed, removed or added.
    pub(crate) fn changes(&self) -> Vec<String> {
        let mut expected: BTreeMap<_, _> = self
            .manifest
            .guests
            .iter()
            .map(|(name, guest)| (name.clone(), guest.digest.clone()))
            .collect();
        expected.insert(CONTRACT.to_owned(), self.manifest.contract_digest.clone());
        let mut changes = Vec::new();
        let mut present: Vec<_> = fs::read_dir(&self.folder).unwrap().collect();
        present.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
        for entry in present {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let bytes = fs::read(&path).unwrap();
            match expected.remove(&name) {
                Some(recorded) if recorded == digest(&bytes) => {}
                Some(_) => changes.push(format!("{name} was changed")),
                None if name == MANIFEST => {}
                None => changes.push(format!("{name} is not in the manifest")),
            }
        }
        changes.extend(expected.keys().map(|name| format!("{name} is missing")));
        changes
    }

    /// Items of its contract that are missing or changed in a later text of the contract.
    pub(crate) fn lost_items(&self, later: &str) -> Vec<String> {
        let recorded = fs::read_to_string(self.folder.join(CONTRACT)).unwrap();
        let (recorded, later) = (contract_items(&recorded), contract_items(later));
        recorded.difference(&later).cloned().collect()
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const WIT: &str = "package a:b@0.1.0; interface types { record error { code: u8 } }";

    /// A frozen line with one guest.
    fn line(folder: &Path) -> Line {
        fs::write(folder.join("c.wasm"), b"component").unwrap();
        fs::write(folder.join(CONTRACT), WIT).unwrap();
        let manifest = format!(
            r#"{{"frozen": true, "contractDigest": "{}", "guests": {{"c.wasm":
            {{"digest": "{}", "source": "plugins/c", "sourceDigest": "", "toolchain": ""}}}}}}"#,
            digest(WIT.as_bytes()),
            digest(b"component")
        );
        fs::write(folder.join(MANIFEST), manifest).unwrap();
        Line::read(folder.to_owned())
    }

    #[test]
    fn a_line_as_it_was_recorded_has_no_changes() {
        let folder = tempfile::tempdir().unwrap();
        let line = line(folder.path());
        assert_eq!(line.changes(), [""; 0]);
        assert_eq!(line.components(), [folder.path().join("c.wasm")]);
        assert_eq!(line.lost_items(WIT), [""; 0]);
    }

    #[test]
    fn what_changed_went_or_came_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let line = line(folder.path());
        let path = |name| folder.path().join(name);
        fs::write(path(CONTRACT), b"").unwrap();
        fs::write(path("go.wasm"), b"").unwrap();
        fs::remove_file(path("c.wasm")).unwrap();
        assert_eq!(
            line.changes(),
            [
                "contract.wit was changed",
                "go.wasm is not in the manifest",
                "c.wasm is missing"
            ]
        );
    }

    #[test]
    fn an_item_that_changed_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let line = line(folder.path());
        let later = WIT.replace("u8", "u16");
        assert_eq!(
            line.lost_items(&later),
            ["types: record error { code: u8, }"]
        );
    }

    #[test]
    fn a_manifest_with_unknown_keys_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = r#"{"frozen": true, "contractDigest": "", "guests": {}, "more": 1}"#;
        fs::write(folder.path().join(MANIFEST), manifest).unwrap();
        assert!(Manifest::read(folder.path()).is_err());
    }
}
