//! `wasmount pull`: copies a component from a registry into a file.

use super::registry::{RegistryFlags, artifact};
use super::show::print;
use super::transfer::{output_file, wait, write_whole};
use crate::fault::Fault;
use clap::Args;
use std::path::PathBuf;
use wasmount_artifact::pull;
use wasmount_core::document::Reference;

/// Pull a component from a registry
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount pull oci://registry.example.com/storage/nas:1.4.0 -o nas.wasm

Prints the name of the artifact by its digest, which is immutable, and the digest of the component, as `plugin.digest` of a document wants
it. No signature is checked: `wasmount verify` does that.

Exit codes: 0, 64 for wrong flags, 1 for any other failure.")]
pub(crate) struct Flags {
    /// The artifact
    #[arg(value_name = "REFERENCE", value_parser = artifact)]
    reference: Reference,

    /// The file to write [default: the last part of the repository, with `.wasm`]
    #[arg(short, long, value_name = "FILE", value_parser = output_file)]
    output: Option<PathBuf>,

    #[command(flatten)]
    registry: RegistryFlags,
}

/// Pulls the component.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let reference = &flags.reference;
    let registry = flags.registry.connect(reference)?;
    let pulled = wait(pull(&registry))?;
    let pulled = pulled.map_err(Fault::failed(format!("{reference} is not pulled")))?;
    let output = flags.output.unwrap_or_else(|| usual_file(reference));
    write_whole(&output, &pulled.wasm)?;
    let (reference, digest, file) = (&pulled.reference, &pulled.digest, output.display());
    print(&format!("{reference}\n{digest} {file}\n"))
}

fn usual_file(reference: &Reference) -> PathBuf {
    let repository = reference.repository();
    let last = repository.rsplit('/').next().unwrap_or(repository);
    PathBuf::from(format!("{last}.wasm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_called_as_its_repository() {
        let reference = Reference::parse("a.b/storage/nas:1").unwrap();
        assert_eq!(usual_file(&reference), PathBuf::from("nas.wasm"));
    }
}
