//! The signatures of a file, taken along in a bundle of it. They are over the bytes of the component, so they lie beside a file again, and no
//! registry has a use for them.
//!
//! In the layout they are a manifest that speaks of the artifact's, of a type of our own: other tools pass it over.

use super::Bundle;
use crate::attached::AttachedManifest;
use crate::fetch::Beside;
use crate::manifest::{Descriptor, Manifest};
use crate::signature::BUNDLE_TYPE;
use crate::wasm_config::Annotations;

/// What the manifest is.
const FILE_SIGNATURES: &str = "application/vnd.wasmount.file.signatures.v1+json";
/// Its layer that is a `.sig` file.
const SIGNATURE: &str = "application/vnd.wasmount.file.signature.v1";
/// A config that says nothing (OCI image specification 1.1, "Guidance for an Empty Descriptor"), and its bytes.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
const EMPTY_BYTES: &[u8] = b"{}";

impl Bundle {
    /// It with what lies beside the file that it was made of.
    pub fn with_beside(mut self, beside: Beside) -> Self {
        let Beside { signature, bundle } = beside;
        let kinds = [(SIGNATURE, signature), (BUNDLE_TYPE, bundle)];
        let (descriptors, layers): (Vec<_>, Vec<_>) = kinds
            .into_iter()
            .filter_map(|(kind, bytes)| bytes.map(|bytes| (Descriptor::of(kind, &bytes), bytes)))
            .unzip();
        if layers.is_empty() {
            return self;
        }
        let config = Descriptor::of(EMPTY, EMPTY_BYTES);
        let mut manifest = Manifest::new(config, descriptors, Annotations::new());
        manifest.artifact_type = Some(FILE_SIGNATURES.to_owned());
        manifest.subject = Some(Descriptor::of(&self.raw.media_type, &self.raw.bytes));
        let bytes = manifest.to_bytes();
        self.attached.push(AttachedManifest {
            at_tag: false,
            media_type: manifest.media_type().to_owned(),
            bytes,
            manifest,
            config: EMPTY_BYTES.to_vec(),
            layers,
        });
        self
    }

    /// What belongs beside a file of its component.
    pub fn beside(&self) -> Beside {
        let attached = self.attached.iter().filter(|it| is_of_file(it));
        let layers = || {
            let both = attached
                .clone()
                .flat_map(|it| it.manifest.layers.iter().zip(&it.layers));
            both.map(|(layer, bytes)| (layer.media_type.as_str(), bytes))
        };
        let of = |kind: &str| {
            layers()
                .find(|(it, _)| *it == kind)
                .map(|(_, it)| it.clone())
        };
        Beside {
            signature: of(SIGNATURE),
            bundle: of(BUNDLE_TYPE),
        }
    }

    /// How many manifests are attached that a registry has a use for: signatures of the artifact.
    pub fn of_registry(&self) -> usize {
        self.attached.iter().filter(|it| !is_of_file(it)).count()
    }
}

/// Whether it holds signatures of a file.
pub(crate) fn is_of_file(attached: &AttachedManifest) -> bool {
    attached.manifest.artifact_type.as_deref() == Some(FILE_SIGNATURES)
}
