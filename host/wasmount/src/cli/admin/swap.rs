//! `wasmount swap`: another version, now.

use super::{DriverFlags, ask, print_done};
use crate::fault::Fault;
use clap::Args;
use std::path::PathBuf;
use wasmount_control::words::{Plugin, Swap};
use wasmount_core::document::Reference;

/// Activate the version that a driver's document names, or another one, and report the result
#[derive(Debug, Args)]
#[command(after_help = "\
Example, after the file that the document names was replaced:
  $ wasmount swap directory.wasmount.io

Example, to try another build until the document changes:
  $ wasmount swap directory.wasmount.io --file ./directory.wasm

A version that may not serve is refused in words, and the one that serves goes on. A swap also lifts what a rollback holds. Calls that run
end on the version that they began with.

Exit codes: 0 also if it serves already, 64 for wrong flags, 1 for a refusal and any other failure.")]
pub(crate) struct Flags {
    #[command(flatten)]
    of: DriverFlags,

    /// Path of a component on the host's node, instead of the document's; it needs the document's signatures, its digest is not compared
    #[arg(long, value_name = "FILE", conflicts_with = "reference")]
    file: Option<PathBuf>,

    /// An artifact instead of the document's
    #[arg(long, value_name = "oci://..", value_parser = reference)]
    reference: Option<Reference>,

    /// Allow the new version to lack services or features of the serving one
    #[arg(long)]
    allow_service_change: bool,
}

/// Asks and prints.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let Flags {
        of: DriverFlags { driver, host, form },
        file,
        reference,
        allow_service_change,
    } = flags;
    let file = match file {
        None => None,
        // The host has another working directory.
        Some(file) => Some(std::path::absolute(&file).map_err(|error| Fault::Flag {
            flag: "--file",
            value: file.display().to_string(),
            reason: error.to_string(),
        })?),
    };
    let plugin = match (file, reference) {
        (Some(file), _) => Some(Plugin::File(utf8(file)?)),
        (None, Some(reference)) => Some(Plugin::Reference(reference.to_string())),
        (None, None) => None,
    };
    let swap = Swap {
        allow_service_change,
        plugin,
    };
    print_done(&ask(host.client().swap(&driver, &swap))?, form)
}

fn utf8(file: PathBuf) -> Result<String, Fault> {
    file.into_os_string()
        .into_string()
        .map_err(|name| Fault::Flag {
            flag: "--file",
            value: name.display().to_string(),
            reason: "is not UTF-8".to_owned(),
        })
}

fn reference(word: &str) -> Result<Reference, String> {
    Reference::parse(word).map_err(|invalid| invalid.to_string())
}
