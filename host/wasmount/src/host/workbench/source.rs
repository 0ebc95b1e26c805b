//! The component of a file with its digest and its signatures, as the document requires: the first three steps of admission.

use crate::host::sources::unreadable;
use crate::regular_file;
use std::path::Path;
use wasmount_artifact::signature::{
    KEY_BYTES, SIGNATURE_BYTES, SignerKeys, bundle_file, signature_file,
};
use wasmount_artifact::{Beside, FetchRequest, Wanted, fetch};
use wasmount_core::document::{PluginPlace, PluginSource, Signers};
use wasmount_versions::{AdmissionReport, Component, PLUGIN_BYTES, Refusal, Step};

/// The bytes of the file; each step is recorded. The next step checks whether they are a component.
pub(super) async fn component(
    plugin: &PluginSource,
    folder: &Path,
    report: &mut AdmissionReport,
) -> Result<Vec<u8>, Refusal> {
    let wasm = match &plugin.place {
        PluginPlace::File(path) => {
            let path = folder.join(path);
            regular_file::read(&path, PLUGIN_BYTES).map_err(|refused| unreadable(refused, &path))
        }
        PluginPlace::Registry(_) => Err(Refusal::NotAFile {
            path: folder.to_owned(),
        }),
    };
    let wasm = report.take(Step::Size, wasm, |wasm| format!("{} bytes", wasm.len()))?;
    let wanted = match &plugin.digest {
        Some(_) => "as the document wants it",
        None => "the document names none",
    };
    let component = Component::of(wasm).await?;
    let digest = component.check_digest(plugin.digest.as_deref());
    report.take(Step::Digest, digest, |()| wanted.to_owned())?;
    let signed = signed(plugin, folder, component.into_wasm()).await;
    let signed = signed.map_err(Refusal::Signature);
    let (wasm, _) = report.take(Step::Signature, signed, |(_, signers)| {
        match signers.as_slice() {
            [] => "the document wants nobody's".to_owned(),
            signers => format!("by {}", signers.join(", ")),
        }
    })?;
    Ok(wasm)
}

/// The bytes, and the names of the keys that signed them; or why the signatures do not suffice.
async fn signed(
    plugin: &PluginSource,
    folder: &Path,
    wasm: Vec<u8>,
) -> Result<(Vec<u8>, Vec<String>), String> {
    let signers = signer_keys(&plugin.signers, folder)?;
    let PluginPlace::File(file) = &plugin.place else {
        return Ok((wasm, Vec::new()));
    };
    let file = folder.join(file);
    let request = FetchRequest {
        wanted: Wanted::File {
            wasm,
            beside: beside(&file),
        },
        digest: None,
        signers,
    };
    let fetched = fetch(request).await.map_err(|error| error.to_string())?;
    Ok((fetched.wasm, fetched.signed_by))
}

/// The signatures beside a file, as far as they can be read.
pub(crate) fn beside(file: &Path) -> Beside {
    let found = |path: &Path| regular_file::read(path, SIGNATURE_BYTES as u64).ok();
    Beside {
        signature: found(&signature_file(file)),
        bundle: found(&bundle_file(file)),
    }
}

/// The keys that a document names, read; or why they cannot be.
pub(crate) fn signer_keys(signers: &Signers, folder: &Path) -> Result<SignerKeys, String> {
    let read = |path: &Path| {
        let most = u64::try_from(KEY_BYTES).unwrap_or(u64::MAX);
        regular_file::read(&folder.join(path), most).map_err(|refused| refused.to_string())
    };
    SignerKeys::of(signers, read).map_err(|error| error.to_string())
}
