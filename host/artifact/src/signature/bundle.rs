//! A Sigstore bundle (`sigstore/protobuf-specs`, sigstore_bundle.proto, version 0.3): cosign 3 writes it in place of bare signatures.
//!
//! Only signatures by a key count: certificates, log entries and time stamps are other ways to identify the signer, and are ignored.

use super::evidence::{Evidence, Unreadable, bounded, signature};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;
use wasmount_core::document::DIGEST_PREFIX;

/// The media type of a bundle, in the bundle and in a registry's manifest.
pub const BUNDLE_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The same media type in the form of early writers of that version.
const BUNDLE_TYPE_WITH_PARAMETER: &str = "application/vnd.dev.sigstore.bundle+json;version=0.3";
/// The payload type of the envelope (in-toto attestation framework, "Envelope").
const STATEMENT_TYPE: &str = "application/vnd.in-toto+json";
/// Versions of the statement (in-toto attestation framework, "Statement").
const STATEMENTS: [&str; 2] = [
    "https://in-toto.io/Statement/v1",
    "https://in-toto.io/Statement/v0.1",
];
/// The predicate type of a signature; any other is a statement about something else, such as provenance or vulnerabilities.
const SIGN_PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";
/// The key of the digest by which a statement names its subject.
const SHA256: &str = "sha256";
/// The same algorithm as an enumerator.
const SHA2_256: &str = "SHA2_256";
/// Most signatures of one envelope. cosign writes one.
const ENVELOPE_SIGNATURES: usize = 8;
/// Most subjects of a statement. cosign writes one.
const SUBJECTS: usize = 64;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    media_type: String,
    message_signature: Option<MessageSignature>,
    dsse_envelope: Option<Envelope>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageSignature {
    message_digest: Option<MessageDigest>,
    signature: String,
}

#[derive(Deserialize)]
struct MessageDigest {
    algorithm: String,
    digest: String,
}

/// DSSE, version 1.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
struct EnvelopeSignature {
    sig: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    predicate_type: String,
    subject: Vec<StatementSubject>,
}

#[derive(Deserialize)]
struct StatementSubject {
    #[serde(default)]
    digest: BTreeMap<String, String>,
}

/// Whether this is the media type of a supported bundle: both forms of version 0.3.
pub fn is_bundle_type(media_type: &str) -> bool {
    [BUNDLE_TYPE, BUNDLE_TYPE_WITH_PARAMETER].contains(&media_type)
}

impl Evidence {
    /// Reads a Sigstore bundle.
    pub fn from_bundle(json: &[u8]) -> Result<Self, Unreadable> {
        let bundle: Bundle =
            serde_json::from_slice(bounded(json)?).map_err(|error| not(error.to_string()))?;
        if !is_bundle_type(&bundle.media_type) {
            return Err(not(format!("its media type is not `{BUNDLE_TYPE}`")));
        }
        match (bundle.message_signature, bundle.dsse_envelope) {
            (Some(message), None) => read_message(&message),
            (None, Some(envelope)) => read_envelope(&envelope),
            _ => Err(not(
                "it must have one of `messageSignature` and `dsseEnvelope`",
            )),
        }
    }
}

/// A signature over the subject itself. The digest beside it is a hint of the signer; it is only checked to be of a supported kind, since the
/// signature covers the bytes.
fn read_message(message: &MessageSignature) -> Result<Evidence, Unreadable> {
    if let Some(MessageDigest { algorithm, digest }) = &message.message_digest
        && (algorithm != SHA2_256 || STANDARD.decode(digest).is_err())
    {
        return Err(not("its digest is not of SHA-256"));
    }
    let signature = signature(&message.signature)?;
    Ok(Evidence::of_subject(vec![signature]))
}

/// A statement about subjects.
fn read_envelope(envelope: &Envelope) -> Result<Evidence, Unreadable> {
    let signatures = &envelope.signatures;
    if envelope.payload_type != STATEMENT_TYPE {
        return Err(not("its payload is no in-toto statement"));
    }
    let payload = STANDARD
        .decode(&envelope.payload)
        .map_err(|_| not("its payload is not base64"))?;
    let statement: Statement =
        serde_json::from_slice(&payload).map_err(|error| not(error.to_string()))?;
    if !STATEMENTS.contains(&statement.kind.as_str()) {
        return Err(not("its statement has a type that is not known"));
    }
    if statement.predicate_type != SIGN_PREDICATE {
        return Err(not(format!(
            "it is an attestation that says something else (`{}`)",
            statement.predicate_type
        )));
    }
    if signatures.is_empty() || signatures.len() > ENVELOPE_SIGNATURES {
        return Err(not(format!(
            "it has no signature, or more than {ENVELOPE_SIGNATURES}"
        )));
    }
    let mut subjects = statement.subject.iter();
    let of: Vec<_> = subjects
        .by_ref()
        .take(SUBJECTS)
        .filter_map(|subject| subject.digest.get(SHA256))
        .map(|hex| format!("{DIGEST_PREFIX}{hex}"))
        .collect();
    if of.is_empty() || subjects.next().is_some() {
        return Err(not(format!(
            "it names no subject by SHA-256, or more than {SUBJECTS}"
        )));
    }
    let signatures = signatures.iter().map(|one| signature(&one.sig));
    Ok(Evidence::of_statement(
        pre_authentication_encoding(&envelope.payload_type, &payload),
        of,
        signatures.collect::<Result<_, _>>()?,
    ))
}

/// The bytes that are signed (DSSE protocol, "Signature Definition"): the lengths separate type and payload.
fn pre_authentication_encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        payload.len()
    );
    [head.as_bytes(), payload].concat()
}

fn not(reason: impl Into<String>) -> Unreadable {
    Unreadable::Bundle(reason.into())
}

#[cfg(test)]
mod tests;
