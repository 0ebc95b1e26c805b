//! Signs an artifact, and stores signatures as cosign does: a manifest at the tag `sha256-<hex>.sig` with a layer for each signature (cosign,
//! `specs/SIGNATURE_SPEC.md`).

use crate::attached::{BLOBS, Extent, cosign_tag};
use crate::digest::Digest;
use crate::error::RegistryError;
use crate::judged::judged;
use crate::manifest::{Annotations, Descriptor, Document, Manifest};
use crate::media_type::COSIGN_SIGNATURE;
use crate::registry::Registry;
use crate::signature::{NamedKey, PrivateKey, SIGNATURE_ANNOTATION, SignerKeys, encoded, payload};
use bytes::Bytes;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use wasmount_core::document::Reference;

/// The config of such a manifest: cosign makes it look like an image, for registries that support nothing else.
const IMAGE_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// Attempts to write the manifest: with a few clients that sign at once, each round lets at least one of them succeed.
const ATTEMPTS: u32 = 10;
/// How often 400 counts as transient: Debian's docker-registry answers so while another client pushes the same blobs.
const REFUSALS: u32 = 4;
/// Bounds of the pause before the check whether another client has written meanwhile, which takes about as long as this client took.
const SHORTEST_PAUSE: Duration = Duration::from_millis(300);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// An artifact that was signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedArtifact {
    /// Its name by the digest of what was signed.
    pub reference: Reference,
    /// Where the signature is.
    pub signature: Reference,
}

/// Signs what the registry's artifact name resolves to: a manifest, or an index. It is signed once, however often this is called.
pub async fn sign(registry: &Registry, key: &PrivateKey) -> Result<SignedArtifact, RegistryError> {
    let subject = registry
        .manifest(registry.reference().digest_or_tag())
        .await?;
    let reference = registry.reference().pinned(subject.digest.to_string());
    let signature = registry.reference().tagged(cosign_tag(&subject.digest));
    let own = SignerKeys::new(vec![NamedKey::new("own", key.verifying_key())], Vec::new());
    let there = judged(registry, &subject, &own, Extent::UntilSigned).await;
    // Otherwise this key had signed the artifact before.
    if there.verdict.is_err() {
        let repository = format!("{}/{}", reference.registry(), reference.repository());
        let payload = payload(&repository, subject.digest.as_str());
        let signed = key.sign(&payload);
        let signed = signed.map_err(|error| RegistryError::Other(format!("the key {error}")))?;
        let layers = vec![layer(&payload, &signed)];
        registry
            .push_blob("a signature", Bytes::from(payload))
            .await?;
        registry
            .add_signatures(&subject.digest, layers, None)
            .await?;
    }
    Ok(SignedArtifact {
        reference,
        signature,
    })
}

/// The descriptor of a signature in a manifest.
fn layer(payload: &[u8], signed: &[u8]) -> Descriptor {
    let mut layer = Descriptor::of(COSIGN_SIGNATURE, payload);
    let encoded = encoded(signed);
    layer
        .annotations
        .insert(SIGNATURE_ANNOTATION.to_owned(), encoded);
    layer
}

impl Registry {
    /// Adds the signatures of these layers, whose blobs are in the registry already, to those at the tag, and returns when they have been read back
    /// from there. `manifest` is the media type and the bytes of a manifest of exactly these layers, if there is one: it keeps its digest.
    pub(crate) async fn add_signatures(
        &self,
        subject: &Digest,
        layers: Vec<Descriptor>,
        manifest: Option<(String, Vec<u8>)>,
    ) -> Result<(), RegistryError> {
        let tag = cosign_tag(subject);
        let what = format!("the signatures `{}`", self.reference().tagged(tag.clone()));
        for attempt in 0..=ATTEMPTS {
            let begun = Instant::now();
            let there = self.signatures_at(&tag, &what).await?;
            let present = there.as_ref().map(|it| it.layers.as_slice());
            let present = present.unwrap_or_default();
            let lacking: Vec<_> = layers.iter().filter(|it| !present.contains(it)).collect();
            if lacking.is_empty() && there.is_some() {
                return Ok(());
            }
            if present.len() + lacking.len() > BLOBS {
                return Err(RegistryError::Other(format!(
                    "{what}: there would be more than {BLOBS}, and no client reads more; delete that tag, and try again"
                )));
            }
            if attempt == ATTEMPTS {
                break;
            }
            let lacking: Vec<_> = lacking.into_iter().cloned().collect();
            let (media_type, bytes) = match (there, &manifest) {
                (None, Some(manifest)) => manifest.clone(),
                (there, _) => {
                    let (manifest, config) = with(there, lacking);
                    self.push_blob("the config of a signature", Bytes::from(config))
                        .await?;
                    (manifest.media_type().to_owned(), manifest.to_bytes())
                }
            };
            match self.push_manifest(&tag, &media_type, bytes).await {
                Ok(_) => {}
                Err(RegistryError::Refused { status: 400, .. }) if attempt < REFUSALS => {}
                Err(error) => return Err(error),
            }
            sleep(pause(begun.elapsed())).await;
        }
        Err(RegistryError::Other(format!(
            "{what}: another client writes to that tag too, and our signature was overwritten {ATTEMPTS} times; try again when it has ended"
        )))
    }

    async fn signatures_at(
        &self,
        tag: &str,
        what: &str,
    ) -> Result<Option<Manifest>, RegistryError> {
        match self.find_manifest(tag).await?.map(|it| it.document) {
            None => Ok(None),
            Some(Document::Manifest(manifest)) => Ok(Some(*manifest)),
            // The index would be lost.
            Some(Document::Index(_)) => Err(self.malformed(
                what,
                "a list of manifests lies there, and no signatures; delete that tag",
            )),
        }
    }
}

/// The manifest with additional signatures, and its config.
fn with(there: Option<Manifest>, layers: Vec<Descriptor>) -> (Manifest, Vec<u8>) {
    let nothing = || {
        Manifest::new(
            Descriptor::of(IMAGE_CONFIG, b""),
            Vec::new(),
            Annotations::new(),
        )
    };
    let mut manifest = there.unwrap_or_else(nothing);
    manifest.layers.extend(layers);
    let contents: Vec<_> = manifest.layers.iter().map(|it| it.digest.clone()).collect();
    let config = config(&contents);
    manifest.config = Descriptor::of(IMAGE_CONFIG, &config);
    (manifest, config)
}

/// A config of an image that has only these layers.
fn config(contents: &[Digest]) -> Vec<u8> {
    let config = json!({
        "architecture": "",
        "config": {},
        "os": "",
        "rootfs": { "type": "layers", "diff_ids": contents },
    });
    config.to_string().into_bytes()
}

/// Twice the time of reading and writing, plus up to the same time at random: clients that sign at once should not do so again.
fn pause(took: Duration) -> Duration {
    let least = (took * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
    least + least.mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::{Evidence, Subject};

    #[test]
    fn a_layer_is_a_payload_with_its_signature_beside_it() {
        let key = PrivateKey::generate().unwrap();
        let payload = payload("a.b/c", Digest::of(b"manifest").as_str());
        let layer = layer(&payload, &key.sign(&payload).unwrap());
        assert_eq!(
            layer.media_type,
            "application/vnd.dev.cosign.simplesigning.v1+json"
        );
        assert_eq!(layer.digest, Digest::of(&payload));
        let encoded = &layer.annotations["dev.cosignproject.cosign/signature"];
        let evidence = Evidence::from_simple_signing(&payload, encoded).unwrap();
        assert!(evidence.signs(&key.verifying_key(), &Subject::new(b"manifest")));
    }

    #[test]
    fn a_signature_is_added_behind_those_that_are_there() {
        let layer = |bytes: &[u8]| Descriptor::of(COSIGN_SIGNATURE, bytes);
        let (one, _) = with(None, vec![layer(b"a")]);
        let (two, config) = with(Some(one), vec![layer(b"b")]);
        assert_eq!(two.layers, [layer(b"a"), layer(b"b")]);
        assert_eq!(two.config, Descriptor::of(IMAGE_CONFIG, &config));
        assert_eq!(two.media_type(), crate::media_type::OCI_MANIFEST);
    }

    #[test]
    fn a_config_names_every_layer_as_an_image_would() {
        let contents = [Digest::of(b"a"), Digest::of(b"b")];
        let config: serde_json::Value = serde_json::from_slice(&config(&contents)).unwrap();
        assert_eq!(config["rootfs"]["type"], "layers");
        assert_eq!(config["rootfs"]["diff_ids"][1], contents[1].as_str());
    }

    #[test]
    fn a_pause_is_longer_than_another_needs_and_has_an_end() {
        for (took, least) in [
            (Duration::ZERO, SHORTEST_PAUSE),
            (Duration::from_secs(1), Duration::from_secs(2)),
            (Duration::from_secs(60), LONGEST_PAUSE),
        ] {
            for _ in 0..ATTEMPTS {
                let pause = pause(took);
                assert!((least..=least * 2).contains(&pause), "{pause:?}");
            }
        }
    }
}
