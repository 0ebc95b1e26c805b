//! The component of a file with its digest and its signatures, as the document wants them: the first three steps of admission. Apart because a
//! person's command does them in its own process, with that person's rights; a host has another process do it.

use crate::regular_file;
use std::path::Path;
use wasmount_artifact::signature::{KEY_BYTES, SignerKeys, bundle_file, signature_file};
use wasmount_artifact::{Beside, FetchRequest, Wanted, fetch};
use wasmount_core::document::{PluginPlace, PluginSource, Signers};
use wasmount_versions::{PLUGIN_BYTES, Refusal, RefusalKind, Step, Trail, read_plugin};

/// Largest file of a signature that is read, in bytes: what the policy takes of one.
const SIGNATURE_BYTES: u64 = 64 << 10;

/// The bytes, each step noted.
pub(super) async fn component(
    plugin: &PluginSource,
    folder: &Path,
    trail: &mut Trail,
) -> Result<Vec<u8>, Refusal> {
    let read = read_plugin(plugin, folder).await;
    let (size, digest) = match &read {
        Ok(wasm) => (format!("{} bytes", wasm.len()), true),
        Err(refusal) => match refusal.kind() {
            RefusalKind::Digest => (String::new(), false),
            RefusalKind::NotAComponent => (String::new(), true),
            _ => {
                trail.refused(Step::Size, refusal.to_string());
                return read;
            }
        },
    };
    trail.passed(Step::Size, size);
    if let (Err(refusal), false) = (&read, digest) {
        trail.refused(Step::Digest, refusal.to_string());
        return read;
    }
    let wanted = match &plugin.digest {
        Some(_) => "as the document wants it",
        None => "the document names none",
    };
    trail.passed(Step::Digest, wanted);
    // What it is comes after who signed it.
    let (wasm, no_component) = match read {
        Ok(wasm) => (wasm, None),
        Err(refusal) => (raw(plugin, folder, &refusal)?, Some(refusal)),
    };
    let (wasm, signers) = match signed(plugin, folder, wasm).await {
        Ok(signed) => signed,
        Err(reason) => {
            let refusal = Refusal::Signature { reason };
            trail.refused(Step::Signature, refusal.to_string());
            return Err(refusal);
        }
    };
    let said = match signers.as_slice() {
        [] => "the document wants nobody's".to_owned(),
        signers => format!("by {}", signers.join(", ")),
    };
    trail.passed(Step::Signature, said);
    match no_component {
        None => Ok(wasm),
        Some(refusal) => {
            trail.refused(Step::Component, refusal.to_string());
            Err(refusal)
        }
    }
}

/// Whatever the file holds, which was refused for that.
#[expect(
    clippy::result_large_err,
    reason = "a refusal is made once an admission, and every caller wants it as it is"
)]
fn raw(plugin: &PluginSource, folder: &Path, refusal: &Refusal) -> Result<Vec<u8>, Refusal> {
    let PluginPlace::File(file) = &plugin.place else {
        return Ok(Vec::new());
    };
    regular_file::read(&folder.join(file), PLUGIN_BYTES).map_err(|_| Refusal::Source {
        place: file.display().to_string(),
        reason: format!("it changes while it is read; before that, {refusal}"),
        passes: true,
    })
}

/// The bytes, and the names of keys that signed them; or why those do not suffice.
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
    let found = |path: &Path| regular_file::read(path, SIGNATURE_BYTES).ok();
    let request = FetchRequest {
        wanted: Wanted::File {
            wasm,
            beside: Beside {
                signature: found(&signature_file(&file)),
                bundle: found(&bundle_file(&file)),
            },
        },
        digest: None,
        signers,
    };
    let fetched = fetch(request).await.map_err(|error| error.to_string())?;
    Ok((fetched.wasm, fetched.signed_by))
}

/// The keys that a document names, read; or why they cannot be.
pub(crate) fn signer_keys(signers: &Signers, folder: &Path) -> Result<SignerKeys, String> {
    let read = |path: &Path| {
        let most = u64::try_from(KEY_BYTES).unwrap_or(u64::MAX);
        regular_file::read(&folder.join(path), most).map_err(|refused| refused.to_string())
    };
    SignerKeys::of(signers, read).map_err(|error| error.to_string())
}
