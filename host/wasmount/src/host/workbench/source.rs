//! The component of a file with its digest and its signatures, as the document requires: the first three steps of admission.

use crate::host::settled_file::unreadable;
use crate::regular_file;
use crate::signature_files::{beside, signer_keys};
use std::path::Path;
use wasmount_artifact::check_file;
use wasmount_core::document::{PluginPlace, PluginSource};
use wasmount_versions::{AdmissionReport, Component, PLUGIN_BYTES, Refusal, Step};

/// The bytes of the file; each step is recorded. The next step checks whether they are a component.
pub(super) async fn component(
    plugin: &PluginSource,
    folder: &Path,
    report: &mut AdmissionReport,
) -> Result<Vec<u8>, Refusal> {
    let PluginPlace::File(path) = &plugin.place else {
        let path = folder.to_owned();
        return Err(Refusal::NotAFile { path });
    };
    let path = folder.join(path);
    let wasm = regular_file::read(&path, PLUGIN_BYTES);
    let wasm = wasm.map_err(|refused| unreadable(refused, &path));
    let wasm = report.take(Step::Size, wasm, |wasm| format!("{} bytes", wasm.len()))?;
    let outcome = match &plugin.digest {
        Some(_) => "as the document wants it",
        None => "the document names none",
    };
    let component = Component::of(wasm).await?;
    let digest = component.check_digest(plugin.digest.as_deref());
    report.take(Step::Digest, digest, |()| outcome.to_owned())?;
    let checked = signer_keys(&plugin.signers).and_then(|keys| {
        let checked = check_file(component.into_wasm(), &beside(&path)?, None, &keys);
        checked.map_err(|error| error.to_string())
    });
    let checked = checked.map_err(Refusal::Signature);
    let checked = report.take(Step::Signature, checked, |checked| {
        match checked.signed_by.as_slice() {
            [] => "the document requires none".to_owned(),
            signers => format!("by {}", signers.join(", ")),
        }
    })?;
    Ok(checked.wasm)
}
