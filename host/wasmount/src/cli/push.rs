//! `wasmount push`: copies a component into a registry.

use super::registry::{RegistryFlags, artifact};
use super::show::print;
use super::transfer::{component, wait};
use crate::component_facts::facts;
use crate::fault::Fault;
use clap::Args;
use std::path::PathBuf;
use wasmount_artifact::Bundle;
use wasmount_core::document::Reference;

/// Push a component to a registry as a CNCF Wasm OCI artifact
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount push plugin.wasm oci://registry.example.com/storage/nas:1.4.0

Prints the name of the artifact by its digest. The same component pushed twice is one artifact. Title, version and authors come from what the
component says of itself (`wasm-tools metadata add`).

Exit codes: 0, 64 for wrong flags, 1 for any other failure.")]
pub(crate) struct Flags {
    /// The component
    file: PathBuf,

    /// Destination reference
    #[arg(value_name = "REFERENCE", value_parser = tagged)]
    reference: Reference,

    #[command(flatten)]
    registry: RegistryFlags,
}

/// Pushes the component.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let Flags {
        file,
        reference,
        registry,
    } = flags;
    let wasm = component(&file)?;
    let failed = || format!("{} is not pushed", file.display());
    let facts = facts(&wasm).map_err(Fault::failed(failed()))?;
    let registry = registry.connect(&reference)?;
    let pushed = wait(Bundle::of_component(wasm, &facts).push(&registry))?;
    let pushed = pushed.map_err(Fault::failed(failed()))?;
    print(&format!("{}\n", pushed.reference))
}

/// The digest is a result of the push: only a tag can be chosen.
pub(super) fn tagged(value: &str) -> Result<Reference, String> {
    let reference = artifact(value)?;
    match reference.digest() {
        None => Ok(reference),
        Some(_) => Err("it names a digest, which follows from the content; name a tag".to_owned()),
    }
}
