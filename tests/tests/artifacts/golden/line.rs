//! A recorded line of the contract, compared with what it is now.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use xtask::failure::Failure;
use xtask::workspace::Workspace;
use xtask_guests::golden::{self, CONTRACT, MANIFEST, Manifest, broken};
use xtask_guests::items::Items;

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
        if self.manifest.frozen.is_empty() {
            "the line is not frozen: if the contract changed on purpose, run `cargo xtask golden record`"
        } else {
            "the line is released: mend the host, the guest cannot be changed"
        }
    }

    /// The names of its frozen interfaces.
    pub(crate) fn frozen(&self) -> BTreeSet<String> {
        self.manifest.frozen.keys().cloned().collect()
    }

    /// The names of its guests.
    pub(crate) fn guests(&self) -> Vec<&str> {
        self.manifest.guests.keys().map(String::as_str).collect()
    }

    /// The component of a guest.
    pub(crate) fn component(&self, workspace: &Workspace, guest: &str) -> Result<PathBuf, Failure> {
        golden::component(workspace, &self.folder, guest)
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
            match expected.remove(&name) {
                Some(recorded) if recorded == golden::digest_of(&path).unwrap() => {}
                Some(_) => changes.push(format!("{name} was changed")),
                None if name == MANIFEST => {}
                None => changes.push(format!("{name} is not in the manifest")),
            }
        }
        changes.extend(expected.keys().map(|name| format!("{name} is missing")));
        changes
    }

    /// What a later text of the contract breaks: changes of frozen interfaces, and what interfaces that are not frozen have lost.
    pub(crate) fn broken(&self, later: &str) -> Vec<String> {
        let recorded = fs::read_to_string(self.folder.join(CONTRACT)).unwrap();
        let (recorded, later) = (Items::of(&recorded).unwrap(), Items::of(later).unwrap());
        let frozen = &self.manifest.frozen;
        let changes = recorded.changes(&later).into_iter();
        let lost = changes
            .filter(|(name, change)| !frozen.contains_key(name) && !change.gone.is_empty())
            .map(|(name, change)| format!("{name} lost {:?}", change.gone));
        broken(frozen, &recorded, &later)
            .into_iter()
            .chain(lost)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const WIT: &str = "package a:b@0.1.0; interface types { record error { code: u8 } }";

    /// A line with one guest.
    fn line(folder: &Path, frozen: BTreeMap<String, String>) -> Line {
        fs::write(folder.join("c.wasm"), b"component").unwrap();
        fs::write(folder.join(CONTRACT), WIT).unwrap();
        let digest = |name| golden::digest_of(&folder.join(name)).unwrap();
        let manifest = format!(
            r#"{{"frozen": {}, "contractDigest": "{}", "guests": {{"c.wasm":
            {{"digest": "{}", "source": "plugins/c", "sourceDigest": "", "toolchain": ""}}}}}}"#,
            serde_json::to_string(&frozen).unwrap(),
            digest(CONTRACT),
            digest("c.wasm")
        );
        fs::write(folder.join(MANIFEST), manifest).unwrap();
        Line::read(folder.to_owned())
    }

    #[test]
    fn a_line_as_it_was_recorded_has_no_changes() {
        let folder = tempfile::tempdir().unwrap();
        let line = line(folder.path(), BTreeMap::new());
        assert_eq!(line.changes(), [""; 0]);
        assert_eq!(line.guests(), ["c.wasm"]);
        assert_eq!(line.broken(WIT), [""; 0]);
    }

    #[test]
    fn what_changed_went_or_came_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let line = line(folder.path(), BTreeMap::new());
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
    fn a_line_that_is_not_frozen_may_only_grow() {
        let folder = tempfile::tempdir().unwrap();
        let line = line(folder.path(), BTreeMap::new());
        let grown = WIT.replace("record", "type size = u64; record");
        assert_eq!(line.broken(&grown), [""; 0]);
        let changed = WIT.replace("u8", "u16");
        assert_eq!(
            line.broken(&changed),
            [r#"types lost ["record error { code: u8, }"]"#]
        );
    }

    #[test]
    fn a_frozen_line_takes_new_interfaces_only() {
        let folder = tempfile::tempdir().unwrap();
        let line = line(folder.path(), Items::of(WIT).unwrap().digests());
        let grown = format!("{WIT} interface more {{ type size = u64; }}");
        assert_eq!(line.broken(&grown), [""; 0]);
        let changed = WIT.replace("record", "type size = u64; record");
        let broken = line.broken(&changed);
        assert!(
            broken.len() == 1 && broken[0].contains("`types` is frozen and was changed"),
            "{broken:?}"
        );
    }

    #[test]
    fn a_manifest_with_unknown_keys_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = r#"{"frozen": {}, "contractDigest": "", "guests": {}, "more": 1}"#;
        fs::write(folder.path().join(MANIFEST), manifest).unwrap();
        assert!(Manifest::read(folder.path()).is_err());
    }
}
