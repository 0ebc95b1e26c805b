//! `wasmount verify`: checks that a file or an artifact is signed by the expected keys.

use super::keys::signer_keys;
use super::registry::{RegistryFlags, Source, source};
use super::show::print;
use super::transfer::{beside, component, wait};
use crate::fault::Fault;
use clap::Args;
use std::path::PathBuf;
use wasmount_artifact::check_file;

/// Verify that a component is signed by a trusted key
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  $ wasmount verify plugin.wasm --key acme.pub
  $ wasmount verify oci://registry.example.com/storage/nas:1.4.0 \\
      --key acme.pub --key auditors.pub --all

Reads what `wasmount sign` and cosign write: for a file plugin.wasm.sig and plugin.wasm.bundle beside it, for an artifact the tag sha256-...sig and
Sigstore bundles that refer to it. Prints the digest that is signed, by which of the keys, and signatures that were ignored because they cannot be read.
Certificates and transparency logs are not checked.

Exit codes: 0 if it is signed, 64 for wrong flags, 1 if it is not or the check failed.")]
pub(crate) struct Flags {
    /// The component: a file, or oci://..
    #[arg(value_name = "FILE|REFERENCE", value_parser = source)]
    subject: Source,

    /// A public key; may be repeated, one of them is enough
    #[arg(
        long,
        required = true,
        value_name = "FILE",
        env = "VERIFY_KEY",
        value_delimiter = ','
    )]
    key: Vec<PathBuf>,

    /// Require a signature by each of the keys
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    registry: RegistryFlags,
}

/// Prints what is signed, by which keys, and which signatures beside it prove nothing.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let keys = signer_keys(&flags.key, flags.all)?;
    let (what, signed_by, remarks) = match &flags.subject {
        Source::File(file) => {
            let checked = check_file(component(file)?, &beside(file)?, None, &keys);
            let checked = checked.map_err(Fault::failed(file.display().to_string()))?;
            let digest = checked.digest.to_string();
            (digest, checked.signed_by, checked.remarks)
        }
        Source::Artifact(reference) => {
            let registry = flags.registry.connect(reference)?;
            let found = wait(wasmount_artifact::signers(&registry, &keys))?;
            let found = found.map_err(Fault::failed(reference.to_string()))?;
            (found.reference.to_string(), found.by, found.remarks)
        }
    };
    let mut text = format!("{what}\n");
    for name in signed_by {
        text.push_str(&format!("signed by {name}\n"));
    }
    for remark in remarks {
        text.push_str(&format!("ignored: {remark}\n"));
    }
    print(&text)
}
