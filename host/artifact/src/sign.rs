//! Puts a signature beside an artifact, where cosign puts it: a manifest at the tag `sha256-<hex>.sig` with a layer for each signature (cosign,
//! `specs/SIGNATURE_SPEC.md`). Apart because it is a vendor's work, with a private key.
//!
//! It does not know where the key came from.

use crate::attached::{BLOBS, cosign_tag};
use crate::digest::Digest;
use crate::error::RegistryError;
use crate::fetch::SIGNATURE;
use crate::judged::{Extent, judged};
use crate::manifest::{Descriptor, Document, Manifest};
use crate::media_type::COSIGN_SIGNATURE;
use crate::registry::Registry;
use crate::signature::{
    KeyError, NamedKey, Payload, PrivateKey, SignerKeys, Unreadable, encoded, payload,
};
use crate::wasm_config::Annotations;
use bytes::Bytes;
use serde_json::json;
use wasmount_core::document::Reference;

/// The config of such a manifest: cosign makes it look like an image, for registries that know nothing else.
const IMAGE_CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// An artifact that is signed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedArtifact {
    /// Its name by the digest of what was signed.
    pub reference: Reference,
    /// Where the signature is.
    pub signature: Reference,
    /// Whether it was put there now; else this key had signed it before.
    pub added: bool,
}

/// Why an artifact is not signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// Something between the registry and us.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The key.
    #[error("the key {0}")]
    Key(#[from] KeyError),
    /// The payload cannot be made.
    #[error("what would be signed {0}")]
    Payload(#[from] Unreadable),
    /// There is no room.
    #[error(
        "{signature} has {BLOBS} signatures already, and more are read by nobody; delete that tag, and sign again"
    )]
    Full {
        /// Where they are.
        signature: Reference,
    },
}

/// Signs what the name of the registry's artifact means: a manifest, or the list that it leads to. It is signed once, however often this is called.
pub async fn sign(registry: &Registry, key: &PrivateKey) -> Result<SignedArtifact, SignError> {
    let subject = registry.manifest(registry.reference().wanted()).await?;
    let tag = cosign_tag(&subject.digest);
    let reference = registry.reference().pinned(subject.digest.to_string());
    let signature = registry.reference().tagged(tag.clone());
    let own = SignerKeys::new(vec![NamedKey::new("own", key.verifying_key())], Vec::new());
    let there = judged(registry, &subject, &own, Extent::UntilSigned).await;
    if there.verdict.is_ok() {
        return Ok(SignedArtifact {
            reference,
            signature,
            added: false,
        });
    }
    // It is written anew with what it holds: what cannot be read would be lost.
    let before = match registry.find_manifest(&tag).await?.map(|it| it.document) {
        Some(Document::Manifest(manifest)) => manifest.layers,
        Some(Document::Index(_)) | None => Vec::new(),
    };
    if before.len() >= BLOBS {
        return Err(SignError::Full { signature });
    }

    let repository = format!("{}/{}", reference.registry(), reference.repository());
    let payload = payload(&repository, subject.digest.as_str())?;
    let signed = key.sign(payload.as_bytes())?;
    let (manifest, config) = with(before, &payload, &signed);
    let payload = Bytes::copy_from_slice(payload.as_bytes());
    registry.push_blob("a signature", payload).await?;
    registry
        .push_blob("the config of a signature", Bytes::from(config))
        .await?;
    registry
        .push_manifest(&tag, manifest.media_type(), manifest.to_bytes())
        .await?;
    Ok(SignedArtifact {
        reference,
        signature,
        added: true,
    })
}

/// The manifest with one more signature than these, and its config.
fn with(mut layers: Vec<Descriptor>, payload: &Payload, signed: &[u8]) -> (Manifest, Vec<u8>) {
    let mut layer = Descriptor::of(COSIGN_SIGNATURE, payload.as_bytes());
    let encoded = encoded(signed);
    layer.annotations.insert(SIGNATURE.to_owned(), encoded);
    layers.push(layer);
    let contents: Vec<_> = layers.iter().map(|layer| layer.digest.clone()).collect();
    let config = config(&contents);
    let described = Descriptor::of(IMAGE_CONFIG, &config);
    let manifest = Manifest::new(described, layers, Annotations::new());
    (manifest, config)
}

/// A config of an image that has these layers and nothing else.
fn config(contents: &[Digest]) -> Vec<u8> {
    let config = json!({
        "architecture": "",
        "config": {},
        "os": "",
        "rootfs": { "type": "layers", "diff_ids": contents },
    });
    config.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::{Evidence, Subject};

    #[test]
    fn a_signature_is_added_behind_those_that_are_there() {
        let keys = [
            PrivateKey::generate().unwrap(),
            PrivateKey::generate().unwrap(),
        ];
        let payload = payload("a.b/c", Digest::of(b"manifest").as_str()).unwrap();
        let mut layers = Vec::new();
        for key in &keys {
            let signed = key.sign(payload.as_bytes()).unwrap();
            let (manifest, config) = with(layers, &payload, &signed);
            assert_eq!(manifest.config.digest, Digest::of(&config));
            layers = manifest.layers;
        }
        assert_eq!(layers.len(), 2);
        for (layer, key) in layers.iter().zip(&keys) {
            assert_eq!(
                layer.media_type,
                "application/vnd.dev.cosign.simplesigning.v1+json"
            );
            assert_eq!(layer.digest, Digest::of(payload.as_bytes()));
            let encoded = &layer.annotations["dev.cosignproject.cosign/signature"];
            let evidence = Evidence::from_simple_signing(payload.as_bytes(), encoded).unwrap();
            assert!(evidence.signs(&key.verifying_key(), &Subject::new(b"manifest")));
        }
    }

    #[test]
    fn a_config_names_every_layer_as_an_image_would() {
        let contents = [Digest::of(b"a"), Digest::of(b"b")];
        let config: serde_json::Value = serde_json::from_slice(&config(&contents)).unwrap();
        assert_eq!(config["rootfs"]["type"], "layers");
        assert_eq!(config["rootfs"]["diff_ids"][1], contents[1].as_str());
    }
}
