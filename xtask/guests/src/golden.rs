//! Golden guests: components as they were compiled for a line of the contract, kept in `tests/golden` and run against every later host. They are
//! never built again: once a line is frozen, files may only be added.
//!
//! The release freezes a line: `"frozen": true` is set by hand in its manifest. Until then `cargo xtask golden record` records it again.

use crate::files::{self, digest};
use crate::language::{self, Language};
use crate::world::contract_items;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use xtask::failure::Failure;
use xtask::plugins;
use xtask::say::Console;
use xtask::toolchain;
use xtask::workspace::Workspace;

/// The line that guests are recorded for.
const LINE: &str = "0.1";
const MANIFEST: &str = "manifest.json";
/// The contract's text when the line was recorded.
const CONTRACT: &str = "contract.wit";
/// The guests of a line, by the language that each is written in (none: Rust).
const GUESTS: [(&str, Option<Language>); 3] = [
    ("rust-directory.wasm", None),
    ("c-directory.wasm", Some(Language::C)),
    ("go-directory.wasm", Some(Language::Go)),
];
/// The plugin in Rust that the plugins in other languages reimplement.
const RUST_PLUGIN: &str = "directory";

/// A line of the contract and its guests.
#[derive(Debug, Clone)]
pub struct Line {
    folder: PathBuf,
    manifest: Manifest,
}

/// The manifest of a line: digests, so that a change is detected, and the source of each guest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Manifest {
    frozen: bool,
    contract_digest: String,
    guests: BTreeMap<String, Golden>,
}

/// One guest; the key is the name of its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Golden {
    digest: String,
    /// Its sources at that time.
    source: String,
    source_digest: String,
    toolchain: String,
}

impl Line {
    /// All recorded lines, in the order of their names.
    pub fn all(workspace: &Workspace) -> Result<Vec<Self>, Failure> {
        let golden = workspace.golden();
        let failed = || Failure::io(format!("read {}", golden.display()));
        let mut folders = Vec::new();
        for entry in fs::read_dir(&golden).map_err(failed())? {
            folders.push(entry.map_err(failed())?.path());
        }
        folders.sort();
        folders.into_iter().map(Self::read).collect()
    }

    fn read(folder: PathBuf) -> Result<Self, Failure> {
        let path = folder.join(MANIFEST);
        let manifest = serde_json::from_slice(&files::bytes(&path)?);
        let manifest = manifest.map_err(|error| Failure::Unexpected {
            what: format!(
                "{} is no manifest of golden guests: {error}",
                path.display()
            ),
        })?;
        Ok(Self { folder, manifest })
    }

    /// The name of the line, such as `0.1`.
    pub fn name(&self) -> String {
        let name = self.folder.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Whether it was released.
    pub fn is_frozen(&self) -> bool {
        self.manifest.frozen
    }

    /// The advice for a guest of this line that does not run any more.
    pub fn advice(&self) -> &'static str {
        if self.manifest.frozen {
            "the line is released: mend the host, the guest cannot be changed"
        } else {
            "the line is not frozen: if the contract changed on purpose, run `cargo xtask golden record`"
        }
    }

    /// The components of the line.
    pub fn components(&self) -> Vec<PathBuf> {
        let names = self.manifest.guests.keys();
        names.map(|name| self.folder.join(name)).collect()
    }

    /// Differences from the manifest: files that were changed, removed or added.
    pub fn changes(&self) -> Result<Vec<String>, Failure> {
        let mut expected: BTreeMap<_, _> = self
            .manifest
            .guests
            .iter()
            .map(|(name, guest)| (name.clone(), guest.digest.clone()))
            .collect();
        expected.insert(CONTRACT.to_owned(), self.manifest.contract_digest.clone());
        let mut changes = Vec::new();
        for (name, bytes) in files::read(&self.folder)? {
            match expected.remove(&name) {
                Some(recorded) if recorded == digest(&bytes) => {}
                Some(_) => changes.push(format!("{name} was changed")),
                None if name == MANIFEST => {}
                None => changes.push(format!("{name} is not in the manifest")),
            }
        }
        changes.extend(expected.keys().map(|name| format!("{name} is missing")));
        Ok(changes)
    }

    /// Items of its contract that are missing or changed in a later text of the contract.
    pub fn lost_items(&self, later: &str) -> Result<Vec<String>, Failure> {
        let recorded = contract_items(&text(&self.folder.join(CONTRACT))?)?;
        let later = contract_items(later)?;
        Ok(recorded.difference(&later).cloned().collect())
    }
}

/// Builds every guest and records it, with the contract. For a frozen line it adds only guests that the line does not have yet.
pub fn record(workspace: &Workspace, console: &Console) -> Result<(), Failure> {
    let folder = workspace.golden().join(LINE);
    let before = if folder.join(MANIFEST).exists() {
        Line::read(folder.clone())?.manifest
    } else {
        Manifest::default()
    };
    let mut manifest = if before.frozen {
        before
    } else {
        let contract = files::bytes(&workspace.contract_file())?;
        files::write(&folder.join(CONTRACT), &contract)?;
        Manifest {
            contract_digest: digest(&contract),
            ..Manifest::default()
        }
    };
    for (name, language) in GUESTS {
        let name = name.to_owned();
        if manifest.guests.contains_key(&name) {
            continue;
        }
        let (golden, wasm) = guest(workspace, console, language)?;
        files::write(&folder.join(&name), &wasm)?;
        console.line(&format!("{name}: {} bytes, {}", wasm.len(), golden.digest));
        manifest.guests.insert(name, golden);
    }
    let mut text = serde_json::to_vec_pretty(&manifest).map_err(|error| Failure::Unexpected {
        what: format!("cannot write the manifest: {error}"),
    })?;
    text.push(b'\n');
    files::write(&folder.join(MANIFEST), &text)
}

/// Builds the guest of a language (none: Rust).
fn guest(
    workspace: &Workspace,
    console: &Console,
    language: Option<Language>,
) -> Result<(Golden, Vec<u8>), Failure> {
    let (plugin, component, toolchain) = match language {
        Some(language) => {
            let built = language::build(workspace, language)?;
            (language.plugin(), built.component, built.toolchain)
        }
        None => {
            let component = plugins::build_without_paths(workspace, console, RUST_PLUGIN)?;
            (RUST_PLUGIN, component, toolchain::compiler()?)
        }
    };
    let source = format!("plugins/{plugin}");
    let wasm = files::bytes(&component)?;
    let golden = Golden {
        digest: digest(&wasm),
        source_digest: files::digest_of_all(&files::read(&workspace.root().join(&source))?),
        source,
        toolchain,
    };
    Ok((golden, wasm))
}

fn text(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(Failure::io(format!("read {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIT: &str = "package a:b@0.1.0; interface types { record error { code: u8 } }";

    /// A frozen line with one guest.
    fn line(folder: &Path) -> Line {
        files::write(&folder.join("c.wasm"), b"component").unwrap();
        files::write(&folder.join(CONTRACT), WIT.as_bytes()).unwrap();
        let manifest = format!(
            r#"{{"frozen": true, "contractDigest": "{}", "guests": {{"c.wasm":
            {{"digest": "{}", "source": "plugins/c", "sourceDigest": "", "toolchain": ""}}}}}}"#,
            digest(WIT.as_bytes()),
            digest(b"component")
        );
        files::write(&folder.join(MANIFEST), manifest.as_bytes()).unwrap();
        Line::read(folder.to_owned()).unwrap()
    }

    #[test]
    fn a_line_as_it_was_recorded_has_no_changes() {
        let folder = tempfile::tempdir().unwrap();
        let line = line(folder.path());
        assert_eq!(line.changes().unwrap(), [""; 0]);
        assert_eq!(line.components(), [folder.path().join("c.wasm")]);
        assert_eq!(line.lost_items(WIT).unwrap(), [""; 0]);
    }

    #[test]
    fn what_changed_went_or_came_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let line = line(folder.path());
        let path = |name| folder.path().join(name);
        files::write(&path(CONTRACT), b"").unwrap();
        files::write(&path("go.wasm"), b"").unwrap();
        fs::remove_file(path("c.wasm")).unwrap();
        assert_eq!(
            line.changes().unwrap(),
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
            line.lost_items(&later).unwrap(),
            ["types: record error { code: u8, }"]
        );
    }

    #[test]
    fn a_manifest_with_unknown_keys_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = r#"{"frozen": true, "contractDigest": "", "guests": {}, "more": 1}"#;
        files::write(&folder.path().join(MANIFEST), manifest.as_bytes()).unwrap();
        assert!(Line::read(folder.path().to_owned()).is_err());
    }
}
