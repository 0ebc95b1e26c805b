//! `wasmount load`: the counterpart of `save`.

use super::push::tagged;
use super::registry::RegistryFlags;
use super::show::print;
use super::transfer::{other_than, output_file, wait, write_beside, write_whole};
use crate::fault::Fault;
use crate::regular_file;
use clap::Args;
use std::io::BufReader;
use std::path::PathBuf;
use wasmount_artifact::{Beside, Bundle, Digest};
use wasmount_core::document::Reference;

/// Extract a component from a bundle of `wasmount save`, or push the bundle to a registry
#[derive(Debug, Args)]
#[command(after_help = "\
Example, into a file, and nas.wasm.sig beside it if the bundle was made of a file that had one:
  $ wasmount load nas.tar -o nas.wasm

Example, into a registry, with its signatures:
  $ wasmount load nas.tar --to oci://registry.internal:5000/storage/nas:1.4.0

With neither, the file is checked and its digests are printed. Every byte is compared with its digest; a document says which signatures are required.

Exit codes: 0, 64 for wrong flags, 1 for any other failure.")]
pub(crate) struct Flags {
    /// The bundle that `wasmount save` wrote
    file: PathBuf,

    /// The file to write the component to
    #[arg(short, long, value_name = "FILE", value_parser = output_file)]
    output: Option<PathBuf>,

    /// The artifact to push it to
    #[arg(long, value_name = "REFERENCE", value_parser = tagged, conflicts_with = "output")]
    to: Option<Reference>,

    #[command(flatten)]
    registry: RegistryFlags,
}

/// Loads the bundle.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let file = &flags.file;
    let failed = || format!("{} is not loaded", file.display());
    if let Some(output) = &flags.output {
        other_than(output, file)?;
    }
    let opened = regular_file::open(file).map_err(Fault::failed(failed()))?;
    let bundle = Bundle::read(BufReader::new(opened)).map_err(Fault::failed(failed()))?;
    let digest = Digest::of(bundle.component());
    let (beside, of_registry) = (bundle.beside(), bundle.of_registry());
    if let Some(reference) = &flags.to {
        let not_for_registries = match beside == Beside::default() {
            true => "",
            false => {
                "left out: the signatures of a file, which no registry has a use for; `wasmount sign oci://..` signs the artifact\n"
            }
        };
        let registry = flags.registry.connect(reference)?;
        let pushed = wait(bundle.push(&registry))?.map_err(Fault::failed(failed()))?;
        let attached = pushed.attached;
        return print(&format!(
            "{}\n{digest}, {attached} attached\n{}",
            pushed.reference, not_for_registries
        ));
    }
    let manifest = bundle.manifest_digest();
    match &flags.output {
        Some(output) => {
            // Before the component: a host that follows the file must not find it unsigned.
            let signatures = write_beside(output, beside)?;
            write_whole(output, bundle.component())?;
            let mut text = format!("{manifest}\n{digest} {}\n", output.display());
            for signature in signatures {
                text.push_str(&format!("{}\n", signature.display()));
            }
            if of_registry > 0 {
                text.push_str(&format!(
                    "left out: {of_registry} attached, which sign the artifact in a registry and no file; `--to oci://..` takes them along, \
                     `wasmount sign {}` signs the file\n",
                    output.display()
                ));
            }
            print(&text)
        }
        None => {
            let attached = bundle.attached().len();
            print(&format!("{manifest}\n{digest}, {attached} attached\n"))
        }
    }
}
