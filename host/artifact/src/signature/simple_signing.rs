//! The payload that cosign signs for an artifact in a registry: JSON that names the manifest's digest (containers/image, containers-signature(5),
//! "JSON data format").
//!
//! The claimed name of the artifact, `docker-reference`, is written and never checked: a mirror has another name, and the digest identifies the
//! artifact.

use super::evidence::{Evidence, Unreadable, bounded, signature};
use serde::Deserialize;
use serde_json::json;
use wasmount_core::document::is_digest;

/// The annotation of a payload's layer that holds its signature.
pub(crate) const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";

/// The payload's type, as cosign writes it.
const TYPE: &str = "cosign container image signature";

/// The fields that are read; nothing here depends on the annotations of the signer.
#[derive(Debug, Deserialize)]
struct Whole {
    critical: Critical,
}

#[derive(Debug, Deserialize)]
struct Critical {
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Debug, Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    docker_manifest_digest: String,
}

impl Evidence {
    /// A payload, and the signature in base64 that a manifest has beside it.
    pub fn from_simple_signing(payload: &[u8], encoded: &str) -> Result<Self, Unreadable> {
        let payload = bounded(payload)?;
        let of = signed_digest(payload)?;
        bounded(encoded.as_bytes())?;
        let signatures = vec![signature(encoded)?];
        Ok(Self::of_statement(payload.to_vec(), vec![of], signatures))
    }
}

/// The payload to sign for a manifest; `repository` is `host/name`, without tag or digest. The order of keys is cosign's.
pub fn payload(repository: &str, manifest_digest: &str) -> Vec<u8> {
    let payload = json!({
        "critical": {
            "identity": { "docker-reference": repository },
            "image": { "docker-manifest-digest": manifest_digest },
            "type": TYPE,
        },
        "optional": null,
    });
    payload.to_string().into_bytes()
}

/// The digest of the manifest that a payload names.
fn signed_digest(payload: &[u8]) -> Result<String, Unreadable> {
    let refused = |reason: String| Err(Unreadable::Payload(reason));
    let whole: Whole = match serde_json::from_slice(payload) {
        Ok(whole) => whole,
        Err(error) => return refused(error.to_string()),
    };
    let Critical { image, kind } = whole.critical;
    if kind != TYPE {
        return refused(format!("its type is not `{TYPE}`"));
    }
    if !is_digest(&image.docker_manifest_digest) {
        return refused("its digest is not `sha256:` and 64 hexadecimal digits".to_owned());
    }
    Ok(image.docker_manifest_digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;

    #[test]
    fn a_payload_is_byte_for_byte_what_cosign_writes() {
        let of = Digest::of(b"manifest").to_string();
        let payload = payload("nas.example/acme/csi", &of);
        let expected = format!(
            "{{\"critical\":{{\"identity\":{{\"docker-reference\":\"nas.example/acme/csi\"}},\
             \"image\":{{\"docker-manifest-digest\":\"{of}\"}},\"type\":\"cosign container image signature\"}},\"optional\":null}}"
        );
        assert_eq!(std::str::from_utf8(&payload).unwrap(), expected);
        assert_eq!(signed_digest(&payload).unwrap(), of);
    }

    #[test]
    fn annotations_of_the_signer_change_nothing() {
        let of = Digest::of(b"manifest").to_string();
        let text = String::from_utf8(payload("a.b/c", &of)).unwrap();
        for optional in ["{\"creator\":\"x\"}", "{}", "null"] {
            let text = text.replace("\"optional\":null", &format!("\"optional\":{optional}"));
            assert_eq!(signed_digest(text.as_bytes()).unwrap(), of);
        }
    }

    #[test]
    fn what_does_not_say_what_cosign_says_is_refused() {
        let of = Digest::of(b"manifest").to_string();
        let text = String::from_utf8(payload("a.b/c", &of)).unwrap();
        let twice = format!("\"image\":{{\"docker-manifest-digest\":\"{of}\"}},\"image\":");
        for changed in [
            text.replace("cosign container", "atomic container"),
            text.replace("sha256:", "sha512:"),
            text.replace("docker-manifest-digest", "docker-digest"),
            // Two parsers could each take a different one of the two.
            text.replace("\"image\":", &twice),
            text[..text.len() - 1].to_owned(),
            format!("{text}{text}"),
            String::new(),
            "[".repeat(10_000),
        ] {
            let refused = signed_digest(changed.as_bytes());
            assert!(matches!(refused, Err(Unreadable::Payload(_))), "{changed}");
        }
    }
}
