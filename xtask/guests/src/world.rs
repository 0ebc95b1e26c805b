//! The contract for a guest: its world, the bindings for a language, and the component made of core code.

use crate::files::Files;
use std::collections::BTreeSet;
use std::path::Path;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_PROXY_ADAPTER,
};
use wit_bindgen_core::WorldGenerator;
use wit_component::{ComponentEncoder, OutputToString, StringEncoding, WitPrinter};
use wit_parser::{Resolve, WorldId};
use xtask::failure::Failure;
use xtask::workspace::Workspace;

/// The file with a plugin's world.
const WORLD_FILE: &str = "plugin.wit";

/// A plugin's world, with the contract that it refers to.
pub(crate) struct World {
    resolve: Resolve,
    world: WorldId,
}

impl World {
    /// The world of the plugin in a folder.
    pub(crate) fn of_plugin(workspace: &Workspace, plugin: &Path) -> Result<Self, Failure> {
        let file = plugin.join(WORLD_FILE);
        let mut resolve = Resolve::default();
        let parse = |resolve: &mut Resolve| {
            resolve.push_path(workspace.contract())?;
            let (package, _) = resolve.push_path(&file)?;
            resolve.select_world(&[package], None)
        };
        let world = parse(&mut resolve).map_err(|error| unexpected("parse", &file, &error))?;
        Ok(Self { resolve, world })
    }

    /// Sources in C: `plugin.c`, `plugin.h`, and an object file that carries the world.
    pub(crate) fn c_bindings(&self) -> Result<Files, Failure> {
        self.bindings(&mut *wit_bindgen_c::Opts::default().build())
    }

    /// Sources in Go: the module `wit_component`.
    pub(crate) fn go_bindings(&self) -> Result<Files, Failure> {
        self.bindings(&mut *wit_bindgen_go::Opts::default().build())
    }

    fn bindings(&self, generator: &mut dyn WorldGenerator) -> Result<Files, Failure> {
        let mut files = wit_bindgen_core::Files::default();
        generator
            .generate(&mut self.resolve.clone(), self.world, &mut files)
            .map_err(|error| unexpected("generate bindings for", Path::new(WORLD_FILE), &error))?;
        let owned = |(name, bytes): (&str, &[u8])| (name.to_owned(), bytes.to_owned());
        Ok(files.iter().map(owned).collect())
    }

    /// Embeds the world into core code that does not carry it.
    pub(crate) fn embed(&self, core: &mut Vec<u8>) -> Result<(), Failure> {
        wit_component::embed_component_metadata(
            core,
            &self.resolve,
            self.world,
            StringEncoding::UTF8,
        )
        .map_err(|error| unexpected("embed", Path::new(WORLD_FILE), &error))
    }
}

/// Makes a component of core code that carries its world. Its imports of WASI preview 1 are resolved by the adapter of `wasi:http/proxy`, in which
/// files and sockets do not exist and arguments and variables are empty: the component imports none of them. Unused items are not imported.
pub(crate) fn component(core: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true);
    let encoded = encoder
        .module(core)
        .and_then(|encoder| {
            encoder.adapter(
                WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
                WASI_SNAPSHOT_PREVIEW1_PROXY_ADAPTER,
            )
        })
        .and_then(ComponentEncoder::encode);
    encoded.map_err(|error| Failure::Unexpected {
        what: format!("cannot make a component: {error:#}"),
    })
}

/// Every type, alias and function of every interface of a contract, without its comments: these must not change after a release.
pub fn contract_items(wit: &str) -> Result<BTreeSet<String>, Failure> {
    let name = Path::new("the contract");
    let mut resolve = Resolve::default();
    let package = resolve
        .push_str(name, wit)
        .map_err(|error| unexpected("parse", name, &error))?;
    let mut printer = WitPrinter::new(OutputToString::default());
    printer.emit_docs(false);
    printer
        .print(&resolve, package, &[])
        .map_err(|error| unexpected("print", name, &error))?;
    Ok(items(&printer.output.to_string()))
}

/// The items of printed WIT. All start at one depth, and end with `;` at that depth or with `}`.
fn items(printed: &str) -> BTreeSet<String> {
    let mut items = BTreeSet::new();
    let mut interface = None;
    let mut item = String::new();
    for line in printed.lines().filter(|line| !line.is_empty()) {
        let depth = line.len() - line.trim_start().len();
        let text = line.trim();
        if depth == 0 {
            interface = text
                .strip_prefix("interface ")
                .and_then(|rest| rest.strip_suffix(" {"));
            continue;
        }
        // Worlds are only for generators: they may be extended.
        let Some(interface) = interface else {
            continue;
        };
        item.push_str(text);
        if depth > ITEM_DEPTH || text.ends_with('{') {
            item.push(' ');
            continue;
        }
        items.extend(names(&item).map(|item| format!("{interface}: {item}")));
        item.clear();
    }
    items
}

/// The indentation of items in printed WIT.
const ITEM_DEPTH: usize = 2;

/// `use types.{error, extent};` may be extended by a name, so each name is an item; every other line is one item.
fn names(item: &str) -> impl Iterator<Item = String> {
    let used = item
        .strip_prefix("use ")
        .and_then(|rest| rest.strip_suffix("};"))
        .and_then(|rest| rest.split_once(".{"));
    let items: Vec<_> = match used {
        Some((from, names)) => names
            .split(", ")
            .map(|name| format!("use {from}.{{{name}}};"))
            .collect(),
        None => vec![item.to_owned()],
    };
    items.into_iter()
}

fn unexpected(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Unexpected {
        what: format!("cannot {what} {}: {error:#}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASED: &str = "package a:b@0.1.0;
        interface types { record error { code: u8 } record extent { size: u64 } }
        /// Words.
        interface pool {
            use types.{error};
            /// Words.
            enum kind { image, directory }
            stat: func(path: string) -> result<option<kind>, error>;
        }
        world plugin { import pool; }";

    fn lost(before: &str, after: &str) -> Vec<String> {
        let changed = RELEASED.replace(before, after);
        assert_ne!(changed, RELEASED);
        let now = contract_items(&changed).unwrap();
        let released = contract_items(RELEASED).unwrap();
        released.difference(&now).cloned().collect()
    }

    #[test]
    fn items_are_types_uses_and_functions_of_interfaces() {
        let items = contract_items(RELEASED).unwrap();
        assert_eq!(
            items.into_iter().collect::<Vec<_>>(),
            [
                "pool: enum kind { image, directory, }",
                "pool: stat: func(path: string) -> result<option<kind>, error>;",
                "pool: use types.{error};",
                "types: record error { code: u8, }",
                "types: record extent { size: u64, }",
            ]
        );
    }

    #[test]
    fn growth_and_other_comments_lose_nothing() {
        for (before, after) in [
            ("/// Words.", "/// Other words."),
            ("enum kind", "free: func() -> u64; enum kind"),
            ("{error}", "{error, extent}"),
            (
                "world plugin {",
                "interface more {} world plugin { import more;",
            ),
        ] {
            assert_eq!(lost(before, after), [""; 0], "{after}");
        }
    }

    #[test]
    fn a_change_loses_what_it_changed() {
        for (before, after, item) in [
            ("code: u8", "code: u16", "types: record error { code: u8, }"),
            (
                "image, directory",
                "image, directory, other",
                "pool: enum kind { image, directory, }",
            ),
            (
                "path: string",
                "name: string",
                "pool: stat: func(path: string) -> result<option<kind>, error>;",
            ),
            (
                "use types.{error};",
                "record error { code: u8 }",
                "pool: use types.{error};",
            ),
        ] {
            assert_eq!(lost(before, after), [item]);
        }
    }
}
