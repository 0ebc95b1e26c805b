//! `wasmount save`: a component and its signatures as one file, for machines without access to a registry.

use super::registry::{RegistryFlags, Source, source};
use super::show::{harmless, print};
use super::transfer::{beside, component, no_signature_of, other_than, output_file, wait};
use crate::component_facts::facts;
use crate::fault::Fault;
use crate::whole_file;
use clap::Args;
use std::path::PathBuf;
use wasmount_artifact::Bundle;

/// Write a component and its signatures to a bundle
#[derive(Debug, Args)]
#[command(after_help = "\
Example, on a machine that reaches the registry, and then on one that does not:
  $ wasmount save oci://registry.example.com/storage/nas:1.4.0 -o nas.tar
  $ wasmount load nas.tar -o nas.wasm

A bundle of an artifact has the signatures that lie beside it in its registry; one of a file has FILE.sig and FILE.bundle.
The file is an OCI image layout in a tar: `skopeo copy oci-archive:nas.tar:1.4.0 ..` reads it too.

Exit codes: 0, 64 for wrong flags, 1 for any other failure.")]
pub(crate) struct Flags {
    /// The artifact (`oci://..`), or a file with a component
    #[arg(value_name = "REFERENCE|FILE", value_parser = source)]
    source: Source,

    /// The file to write
    #[arg(short, long, value_name = "FILE", value_parser = output_file)]
    output: PathBuf,

    #[command(flatten)]
    registry: RegistryFlags,
}

/// Saves the component.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let output = &flags.output;
    let (bundle, left_out, tag) = match &flags.source {
        Source::File(file) => {
            other_than(output, file)?;
            no_signature_of(output, file)?;
            let wasm = component(file)?;
            let failed = format!("{} is not saved", file.display());
            let facts = facts(&wasm).map_err(Fault::failed(failed))?;
            let bundle = Bundle::of_component(wasm, &facts).with_beside(beside(file)?);
            (bundle, Vec::new(), None)
        }
        Source::Artifact(reference) => {
            let registry = flags.registry.connect(reference)?;
            let bundle = wait(Bundle::pull(&registry))?;
            let (bundle, left_out) =
                bundle.map_err(Fault::failed(format!("{reference} is not saved")))?;
            (bundle, left_out, reference.tag().map(str::to_owned))
        }
    };
    whole_file::write(output, whole_file::NEW_FILE, |file| {
        bundle.write(tag.as_deref(), file)
    })
    .map_err(Fault::failed(format!(
        "{} is not written",
        output.display()
    )))?;
    let (digest, signatures) = (bundle.manifest_digest(), bundle.attached().len());
    let file = output.display();
    let mut text = format!("{digest} {file}, {signatures} attached\n");
    for thing in left_out {
        text.push_str(&format!("left out: {}\n", harmless(&thing)));
    }
    print(&text)
}
