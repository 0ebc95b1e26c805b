//! The contract for a guest: its world, the bindings for a language, and the component made of core code.

use crate::files::Files;
use std::path::Path;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_PROXY_ADAPTER,
};
use wit_bindgen_core::WorldGenerator;
use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::{Resolve, WorldId};
use xtask::failure::Failure;

/// The file with a plugin's world.
const WORLD_FILE: &str = "plugin.wit";
/// The folder that [`files`] are put into.
pub(crate) const FOLDER: &str = "wit";

/// A plugin's world, with the contract that it refers to.
pub(crate) struct World {
    resolve: Resolve,
    world: WorldId,
}

impl World {
    /// The world of the plugin in a folder, under a text of the contract.
    pub(crate) fn of_plugin(plugin: &Path, contract: &Path) -> Result<Self, Failure> {
        let file = plugin.join(WORLD_FILE);
        let mut resolve = Resolve::default();
        let parse = |resolve: &mut Resolve| {
            resolve.push_path(contract)?;
            let (package, _) = resolve.push_path(&file)?;
            resolve.select_world(&[package], None)
        };
        let world = parse(&mut resolve).map_err(|error| unexpected("parse", &file, &error))?;
        Ok(Self { resolve, world })
    }

    /// Sources in the language of a generator.
    pub(crate) fn bindings(&self, generator: &mut dyn WorldGenerator) -> Result<Files, Failure> {
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
    encoded.map_err(|error| Failure::Unexpected(format!("cannot make a component: {error:#}")))
}

/// A plugin's world and the contract as files, for compilers that are programs.
pub(crate) fn files(plugin: &Path, contract: &Path) -> Result<Files, Failure> {
    let world = xtask::files::read(&plugin.join(WORLD_FILE))?;
    let contract = xtask::files::read(contract)?;
    Ok(Files::from([
        (format!("{FOLDER}/{WORLD_FILE}"), world),
        (format!("{FOLDER}/deps/csi/contract.wit"), contract),
    ]))
}

fn unexpected(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Unexpected(format!("cannot {what} {}: {error:#}", path.display()))
}
