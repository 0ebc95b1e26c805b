//! Golden guests: components as they were compiled for a line of the contract, kept in `tests/golden` and run against every later host. They are
//! never built again: once a line is frozen, guests are only added.
//!
//! `cargo xtask golden freeze` freezes the interfaces of the contract. Until then `cargo xtask golden record` records the line again.

use crate::files::{self, digest};
use crate::items::Items;
use crate::language::{self, Language};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command;
use xtask::failure::Failure;
use xtask::packages;
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
/// The guests of a line, and what each is built from.
const GUESTS: [(&str, Source); 6] = [
    ("rust-directory.wasm", Source::Rust("directory")),
    ("rust-all-interfaces.wasm", Source::Rust("all-interfaces")),
    ("c-directory.wasm", Source::Other(Language::C)),
    ("go-directory.wasm", Source::Other(Language::Go)),
    (
        "javascript-directory.wasm",
        Source::Other(Language::JavaScript),
    ),
    ("python-directory.wasm.xz", Source::Other(Language::Python)),
];
/// What ends the names of guests that are kept compressed: CPython has 18 MB, and 4 MB so.
const COMPRESSED: &str = ".xz";

/// What a guest is built from.
#[derive(Clone, Copy)]
enum Source {
    /// A plugin in Rust.
    Rust(&'static str),
    /// The plugin in another language.
    Other(Language),
}

/// The manifest of a line: digests, so that a change is detected, and the source of each guest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Manifest {
    /// The frozen interfaces, each with the digest of its items. None: the line is not released.
    pub frozen: BTreeMap<String, String>,
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

    fn write(&self, folder: &Path) -> Result<(), Failure> {
        let mut text =
            serde_json::to_vec_pretty(self).map_err(Failure::cannot("write the manifest"))?;
        text.push(b'\n');
        xtask::files::write(&folder.join(MANIFEST), &text)
    }
}

/// Why a text of the contract breaks what is frozen, a line for each interface; `recorded` is the text of which the interfaces were frozen.
pub fn broken(frozen: &BTreeMap<String, String>, recorded: &Items, now: &Items) -> Vec<String> {
    let (digests, changes) = (recorded.digests(), recorded.changes(now));
    let broken = frozen.iter().filter_map(|(name, digest)| {
        if digests.get(name) != Some(digest) {
            return Some(format!(
                "{CONTRACT} beside the manifest has another interface `{name}` than the one that was frozen: restore it"
            ));
        }
        let change = changes.get(name)?;
        let list = |items: &[String]| match items {
            [] => "nothing".to_owned(),
            items => format!("`{}`", items.join("`, `")),
        };
        Some(format!(
            "the interface `{name}` is frozen and was changed: gone is {}, new is {}. Undo that, and add an interface for what is new",
            list(&change.gone),
            list(&change.new)
        ))
    });
    broken.collect()
}

/// Builds every guest and records it, with the contract. For a frozen line it adds guests that the line does not have yet, and new interfaces.
pub fn record(workspace: &Workspace) -> Result<(), Failure> {
    let folder = workspace.golden().join(LINE);
    let mut manifest = if folder.join(MANIFEST).exists() {
        Manifest::read(&folder)?
    } else {
        Manifest::default()
    };
    let contract = xtask::files::read(&workspace.contract_file())?;
    if manifest.frozen.is_empty() {
        manifest.guests.clear();
    } else {
        refuse_changes(&manifest, &folder, &contract)?;
    }
    manifest.contract_digest = digest(&contract);
    xtask::files::write(&folder.join(CONTRACT), &contract)?;
    for (name, source) in GUESTS {
        let name = name.to_owned();
        if manifest.guests.contains_key(&name) {
            continue;
        }
        let golden = record_guest(workspace, source, &folder.join(&name))?;
        say::line(&format!("{name}: {}", golden.digest));
        manifest.guests.insert(name, golden);
    }
    manifest.write(&folder)
}

/// Freezes every interface of the recorded contract: none of them may change any more.
pub fn freeze(workspace: &Workspace) -> Result<(), Failure> {
    let folder = workspace.golden().join(LINE);
    let mut manifest = Manifest::read(&folder)?;
    let contract = xtask::files::read(&workspace.contract_file())?;
    if manifest.contract_digest != digest(&contract) {
        return Err(Failure::Unexpected(
            "the contract was changed after its guests were recorded: run `cargo xtask golden record` first".to_owned(),
        ));
    }
    refuse_changes(&manifest, &folder, &contract)?;
    manifest.frozen = Items::of(&String::from_utf8_lossy(&contract))?.digests();
    say::line(&format!("{} interfaces are frozen", manifest.frozen.len()));
    manifest.write(&folder)
}

fn refuse_changes(manifest: &Manifest, folder: &Path, contract: &[u8]) -> Result<(), Failure> {
    let recorded = xtask::files::read(&folder.join(CONTRACT))?;
    let [recorded, now] =
        [recorded.as_slice(), contract].map(|text| Items::of(&String::from_utf8_lossy(text)));
    let broken = broken(&manifest.frozen, &recorded?, &now?);
    match broken.is_empty() {
        true => Ok(()),
        false => Err(Failure::Unexpected(broken.join("\n"))),
    }
}

/// The component of a guest in the folder of a line, decompressed where it is kept compressed.
pub fn component(workspace: &Workspace, line: &Path, guest: &str) -> Result<PathBuf, Failure> {
    let kept = line.join(guest);
    let Some(name) = guest.strip_suffix(COMPRESSED) else {
        return Ok(kept);
    };
    let line_name = line.file_name().unwrap_or_default();
    let output = workspace.plugins_target().join("golden").join(line_name);
    let component = output.join(name);
    let wasm = xz(&["--decompress"], &kept)?;
    xtask::files::complete(&component, |unfinished| {
        xtask::files::write(unfinished, wasm)
    })?;
    Ok(component)
}

/// The digest of a file.
pub fn digest_of(path: &Path) -> Result<String, Failure> {
    Ok(digest(&xtask::files::read(path)?))
}

/// Builds a guest into the file that is kept.
fn record_guest(workspace: &Workspace, source: Source, kept: &Path) -> Result<Golden, Failure> {
    let (plugin, component, toolchain) = match source {
        Source::Other(language) => {
            let built = language::build(workspace, language)?;
            (language.plugin(), built.component, built.toolchain)
        }
        Source::Rust(plugin) => {
            let component = plugins::build_without_paths(workspace, plugin)?;
            (plugin, component, toolchain::compiler()?)
        }
    };
    let bytes = match kept.to_string_lossy().ends_with(COMPRESSED) {
        true => xz(&["-9", "--extreme"], &component)?,
        false => xtask::files::read(&component)?,
    };
    xtask::files::write(kept, &bytes)?;
    let source = format!("plugins/{plugin}");
    Ok(Golden {
        digest: digest(&bytes),
        source_digest: files::digest_of_all(&files::read(&workspace.root().join(&source))?),
        source,
        toolchain,
    })
}

/// What `xz` makes of a file.
fn xz(options: &[&str], file: &Path) -> Result<Vec<u8>, Failure> {
    packages::install(packages::COMPRESSION)?;
    let mut xz = Command::new("xz");
    command::read_bytes(xz.args(options).arg("--stdout").arg(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROZEN: &str = "package a:b@0.1.0;
        interface types { record error { code: u8 } enum kind { image, directory } }
        interface pool { use types.{error}; stat: func(path: string) -> result<u64, error>; }";

    fn broken_by(before: &str, after: &str) -> Vec<String> {
        let now = FROZEN.replace(before, after);
        assert_ne!(now, FROZEN);
        let frozen = Items::of(FROZEN).unwrap();
        broken(&frozen.digests(), &frozen, &Items::of(&now).unwrap())
    }

    #[test]
    fn a_frozen_interface_takes_no_change() {
        for (before, after, expected) in [
            (
                "code: u8",
                "code: u8, message: string",
                "the interface `types` is frozen and was changed: gone is `record error { code: u8, }`, new is \
                 `record error { code: u8, message: string, }`. Undo that, and add an interface for what is new",
            ),
            (
                "image, directory",
                "image",
                "the interface `types` is frozen and was changed: gone is `enum kind { image, directory, }`, new is \
                 `enum kind { image, }`. Undo that, and add an interface for what is new",
            ),
            (
                "stat:",
                "free: func() -> u64; stat:",
                "the interface `pool` is frozen and was changed: gone is nothing, new is `free: func() -> u64;`. Undo that, and add an \
                 interface for what is new",
            ),
        ] {
            assert_eq!(broken_by(before, after), [expected]);
        }
    }

    #[test]
    fn a_line_takes_new_interfaces_and_comments() {
        for (before, after) in [
            (
                "interface pool",
                "interface more { free: func() -> u64; } interface pool",
            ),
            ("interface pool", "/// Words.\ninterface pool"),
            ("stat:", "/// Words.\nstat:"),
        ] {
            assert_eq!(broken_by(before, after), [""; 0]);
        }
    }

    #[test]
    fn an_interface_that_is_not_frozen_may_change() {
        let (before, now) = (Items::of(FROZEN).unwrap(), FROZEN.replace("u64", "u32"));
        let mut frozen = before.digests();
        frozen.remove("pool");
        assert_eq!(broken(&frozen, &before, &Items::of(&now).unwrap()), [""; 0]);
    }

    #[test]
    fn a_record_that_was_changed_with_the_contract_is_noticed() {
        let changed = Items::of(&FROZEN.replace("u64", "u32")).unwrap();
        let frozen = Items::of(FROZEN).unwrap().digests();
        assert_eq!(
            broken(&frozen, &changed, &changed),
            [
                "contract.wit beside the manifest has another interface `pool` than the one that was frozen: restore it"
            ]
        );
    }
}
