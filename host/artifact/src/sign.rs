//! Puts a signature beside an artifact, where cosign puts it: a manifest at the tag `sha256-<hex>.sig` with a layer for each signature (cosign,
//! `specs/SIGNATURE_SPEC.md`).

use crate::attached::cosign_tag;
use crate::error::RegistryError;
use crate::judged::{Extent, judged};
use crate::manifest::Descriptor;
use crate::media_type::COSIGN_SIGNATURE;
use crate::registry::Registry;
use crate::signature::{
    KeyError, NamedKey, Payload, PrivateKey, SIGNATURE_ANNOTATION, SignerKeys, Unreadable, encoded,
    payload,
};
use crate::signature_tag::Signatures;
use bytes::Bytes;
use wasmount_core::document::Reference;

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
    let repository = format!("{}/{}", reference.registry(), reference.repository());
    let payload = payload(&repository, subject.digest.as_str())?;
    let signed = key.sign(payload.as_bytes())?;
    let layers = vec![layer(&payload, &signed)];
    let payload = Bytes::copy_from_slice(payload.as_bytes());
    registry.push_blob("a signature", payload).await?;
    let signatures = Signatures {
        layers,
        manifest: None,
    };
    registry.add_signatures(&subject.digest, signatures).await?;
    Ok(SignedArtifact {
        reference,
        signature,
        added: true,
    })
}

/// A signature as a manifest names it.
fn layer(payload: &Payload, signed: &[u8]) -> Descriptor {
    let mut layer = Descriptor::of(COSIGN_SIGNATURE, payload.as_bytes());
    let encoded = encoded(signed);
    layer
        .annotations
        .insert(SIGNATURE_ANNOTATION.to_owned(), encoded);
    layer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::signature::{Evidence, Subject};

    #[test]
    fn a_layer_is_a_payload_with_its_signature_beside_it() {
        let key = PrivateKey::generate().unwrap();
        let payload = payload("a.b/c", Digest::of(b"manifest").as_str()).unwrap();
        let layer = layer(&payload, &key.sign(payload.as_bytes()).unwrap());
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
