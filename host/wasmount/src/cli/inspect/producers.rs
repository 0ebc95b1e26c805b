//! The tools that made a component: the `producers` sections of it and of all nested parts (WebAssembly tool conventions, "Producers Section").

use crate::component_facts::walk;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use wasm_metadata::Producers;
use wasmparser::{KnownCustom, Payload};

/// The custom section in which the guest SDK names itself: a linker writes the `producers` section.
const SDK_SECTION: &str = "wasmount:sdk";
/// The SDK's field in the output.
const SDK: &str = "sdk";
/// Longest name and version, in bytes: each is a line of a table.
const SDK_BYTES: usize = 128;
/// Most names of one kind: no real component has more.
const NAMES: usize = 32;

/// Names and versions by field: `language`, `processed-by`, `sdk`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Makers(BTreeMap<String, BTreeSet<Maker>>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Maker {
    name: String,
    version: String,
}

impl Makers {
    /// Reads them, as far as the bytes can be parsed.
    pub(super) fn of(wasm: &[u8]) -> Self {
        let mut makers = Self::default();
        let _ = walk(wasm, |_, payload| {
            let Payload::CustomSection(section) = payload else {
                return Ok(());
            };
            let (bytes, offset) = (section.data(), section.data_offset());
            if section.name() == SDK_SECTION {
                let text = bytes.get(..bytes.len().min(SDK_BYTES)).unwrap_or_default();
                let text = String::from_utf8_lossy(text);
                let (name, version) = text.split_once(' ').unwrap_or((&text, ""));
                makers.add(SDK, name, version);
            }
            if let KnownCustom::Producers(_) = section.as_known()
                && let Ok(found) = Producers::from_bytes(bytes, offset)
            {
                for (field, names) in found.iter() {
                    let names = names.iter();
                    names.for_each(|(name, version)| makers.add(field, name, version));
                }
            }
            Ok(())
        });
        makers
    }

    fn add(&mut self, field: &str, name: &str, version: &str) {
        if self.0.len() >= NAMES && !self.0.contains_key(field) {
            return;
        }
        let known = self.0.entry(field.to_owned()).or_default();
        if known.len() < NAMES {
            let (name, version) = (name.to_owned(), version.to_owned());
            known.insert(Maker { name, version });
        }
    }

    /// The names of one field, for people.
    pub(super) fn names(&self, field: &str) -> Vec<String> {
        let makers = self.0.get(field).into_iter().flatten();
        let names = makers.map(|it| format!("{} {}", it.name, it.version));
        names.map(|name| name.trim_end().to_owned()).collect()
    }
}
