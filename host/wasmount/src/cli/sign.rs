//! `wasmount sign`: writes a signature beside a file or an artifact, where cosign and a host look for it.

use super::keys::private_key;
use super::registry::{RegistryFlags, Source, source};
use super::show::print;
use super::transfer::{component, wait, write_whole};
use crate::fault::Fault;
use crate::regular_file;
use clap::Args;
use std::path::{Path, PathBuf};
use wasmount_artifact::signature::{
    Evidence, PrivateKey, SIGNATURE_BYTES, Subject, encoded, signature_file,
};

/// Sign a component, in a file or in a registry
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  $ wasmount sign plugin.wasm --key acme.key
  $ wasmount sign oci://registry.example.com/storage/nas:1.4.0 --key acme.key

A file is signed as `cosign sign-blob` does it, into plugin.wasm.sig; an artifact as `cosign sign --new-bundle-format=false` does it, at a tag of its
repository. What is signed is the digest that the name has now: sign `@sha256:..` to sign what you mean. `cosign generate-key-pair` makes keys. The
password is taken from WASMOUNT_KEY_PASSWORD or COSIGN_PASSWORD, else it is asked for.

Exit codes: 0, 64 for wrong flags, 1 for any other failure.")]
pub(crate) struct Flags {
    /// The component: a file, or oci://..
    #[arg(value_name = "FILE|REFERENCE", value_parser = source)]
    subject: Source,

    /// The private key: from `cosign generate-key-pair`, or PKCS #8
    #[arg(long, value_name = "FILE", env = "SIGNING_KEY")]
    key: PathBuf,

    /// Append to the existing signatures of a file; cosign reads only files with one line
    #[arg(long)]
    add: bool,

    #[command(flatten)]
    registry: RegistryFlags,
}

/// Signs the component.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    match &flags.subject {
        Source::File(file) => sign_file(file, &private_key(&flags.key)?, flags.add),
        Source::Artifact(_) if flags.add => {
            let reason = "is for files; a registry keeps all signatures";
            Err(Fault::flag("--add", true, reason))
        }
        Source::Artifact(reference) => {
            let key = private_key(&flags.key)?;
            let registry = flags.registry.connect(reference)?;
            let signed = wait(wasmount_artifact::sign(&registry, &key))?;
            let signed = signed.map_err(Fault::failed(format!("{reference} is not signed")))?;
            print(&format!("{}\n{}\n", signed.reference, signed.signature))
        }
    }
}

fn sign_file(file: &Path, key: &PrivateKey, add: bool) -> Result<(), Fault> {
    let wasm = component(file)?;
    let beside = signature_file(file);
    let mut lines = String::new();
    if add {
        // If the file is missing, there is no signature yet.
        let failed = || beside.display().to_string();
        let there = regular_file::read_if_there(&beside, SIGNATURE_BYTES as u64);
        if let Some(there) = there.map_err(Fault::failed(failed()))? {
            let evidence = Evidence::from_signature_file(&there);
            let evidence = evidence.map_err(Fault::failed(failed()))?;
            if evidence.signs(&key.verifying_key(), &Subject::new(&wasm)) {
                return print(&format!("{}\n", beside.display()));
            }
            lines = String::from_utf8_lossy(&there).trim_end().to_owned();
            lines.push('\n');
        }
    }
    let failed = format!("{} is not signed", file.display());
    let signature = key.sign(&wasm).map_err(Fault::failed(failed))?;
    lines.push_str(&encoded(&signature));
    write_whole(&beside, lines.as_bytes())?;
    print(&format!("{}\n", beside.display()))
}
