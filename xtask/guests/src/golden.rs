//! Golden guests: components as they were compiled for a line of the contract, kept in `tests/golden` and run against every later host. They are
//! never built again: once a line is frozen, files may only be added.
//!
//! The release freezes a line: `"frozen": true` is set by hand in its manifest. Until then `cargo xtask golden record` records it again.

use crate::files::{self, digest};
use crate::language::{self, Language};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use xtask::failure::Failure;
use xtask::plugins;
use xtask::say;
use xtask::toolchain;
use xtask::workspace::Workspace;

/// The line that guests are recorded for.
const LINE: &str = "0.1";
/// The file with the manifest of a line.
pub const MANIFEST: &str = "manifest.json";
/// The contract's text when the line was recorded.
pub const CONTRACT: &str = "contract.wit";
/// The guests of a line, by the language that each is written in (none: Rust).
const GUESTS: [(&str, Option<Language>); 3] = [
    ("rust-directory.wasm", None),
    ("c-directory.wasm", Some(Language::C)),
    ("go-directory.wasm", Some(Language::Go)),
];
/// The plugin in Rust that the plugins in other languages reimplement.
const RUST_PLUGIN: &str = "directory";

/// The manifest of a line: digests, so that a change is detected, and the source of each guest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Manifest {
    /// Whether the line was released.
    pub frozen: bool,
    /// The digest of the contract's text.
    pub contract_digest: String,
    /// The guests, by the names of their files.
    pub guests: BTreeMap<String, Golden>,
}

/// One guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Golden {
    /// The digest of the component.
    pub digest: String,
    /// Its sources at that time.
    source: String,
    source_digest: String,
    toolchain: String,
}

impl Manifest {
    /// The manifest in the folder of a line.
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(MANIFEST);
        serde_json::from_slice(&xtask::files::read(&path)?).map_err(|error| {
            Failure::Unexpected(format!(
                "{} is no manifest of golden guests: {error}",
                path.display()
            ))
        })
    }
}

/// Builds every guest and records it, with the contract. For a frozen line it adds only guests that the line does not have yet.
pub fn record(workspace: &Workspace) -> Result<(), Failure> {
    let folder = workspace.golden().join(LINE);
    let before = if folder.join(MANIFEST).exists() {
        Manifest::read(&folder)?
    } else {
        Manifest::default()
    };
    let mut manifest = if before.frozen {
        before
    } else {
        let contract = xtask::files::read(&workspace.contract_file())?;
        xtask::files::write(&folder.join(CONTRACT), &contract)?;
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
        let (golden, wasm) = guest(workspace, language)?;
        xtask::files::write(&folder.join(&name), &wasm)?;
        say::line(&format!("{name}: {} bytes, {}", wasm.len(), golden.digest));
        manifest.guests.insert(name, golden);
    }
    let mut text =
        serde_json::to_vec_pretty(&manifest).map_err(Failure::cannot("write the manifest"))?;
    text.push(b'\n');
    xtask::files::write(&folder.join(MANIFEST), &text)
}

/// Builds the guest of a language (none: Rust).
fn guest(workspace: &Workspace, language: Option<Language>) -> Result<(Golden, Vec<u8>), Failure> {
    let (plugin, component, toolchain) = match language {
        Some(language) => {
            let built = language::build(workspace, language)?;
            (language.plugin(), built.component, built.toolchain)
        }
        None => {
            let component = plugins::build_without_paths(workspace, RUST_PLUGIN)?;
            (RUST_PLUGIN, component, toolchain::compiler()?)
        }
    };
    let source = format!("plugins/{plugin}");
    let wasm = xtask::files::read(&component)?;
    let golden = Golden {
        digest: digest(&wasm),
        source_digest: files::digest_of_all(&files::read(&workspace.root().join(&source))?),
        source,
        toolchain,
    };
    Ok((golden, wasm))
}
