//! Bundles as cosign writes them, and untrusted ones.

use super::*;
use crate::digest::Digest;
use crate::signature::evidence::Finding;
use crate::signature::{PrivateKey, Subject};
use serde_json::{Value, json};

const V03: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

fn digest_of(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

fn message(key: &PrivateKey, bytes: &[u8]) -> Value {
    json!({
        "mediaType": V03,
        "verificationMaterial": { "publicKey": { "hint": "x" }, "tlogEntries": [] },
        "messageSignature": {
            "messageDigest": { "algorithm": "SHA2_256", "digest": "AAAA" },
            "signature": STANDARD.encode(key.sign(bytes).unwrap()),
        },
    })
}

fn statement(of: &str) -> Value {
    let hex = of.strip_prefix("sha256:").unwrap();
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "digest": { "sha256": hex } }],
        "predicateType": SIGN_PREDICATE,
        "predicate": {},
    })
}

fn envelope(key: &PrivateKey, statement: &Value) -> Value {
    let payload = serde_json::to_vec(statement).unwrap();
    let signed = pre_authentication_encoding(STATEMENT_TYPE, &payload);
    json!({
        "mediaType": V03,
        "dsseEnvelope": {
            "payload": STANDARD.encode(&payload),
            "payloadType": STATEMENT_TYPE,
            "signatures": [{ "sig": STANDARD.encode(key.sign(&signed).unwrap()) }],
        },
    })
}

fn reads(bundle: &Value) -> Result<Evidence, Unreadable> {
    Evidence::from_bundle(&serde_json::to_vec(bundle).unwrap())
}

#[test]
fn the_encoding_is_that_of_the_protocol() {
    // DSSE, protocol.md, its example.
    let encoded = pre_authentication_encoding("http://example.com/HelloWorld", b"hello world");
    assert_eq!(
        encoded,
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    );
}

#[test]
fn a_message_signature_speaks_of_the_bytes_that_were_signed() {
    let key = PrivateKey::generate().unwrap();
    let evidence = reads(&message(&key, b"a component")).unwrap();
    let public = key.verifying_key();
    let examine = |bytes| evidence.examine(&public, &Subject::new(bytes));
    assert_eq!(examine(b"a component"), Finding::Signed);
    assert_eq!(examine(b"another"), Finding::NotTheirs);
}

#[test]
fn a_statement_speaks_of_the_manifest_that_it_names() {
    let key = PrivateKey::generate().unwrap();
    let of = digest_of(b"manifest");
    let evidence = reads(&envelope(&key, &statement(&of))).unwrap();
    let public = key.verifying_key();
    let examine = |bytes| evidence.examine(&public, &Subject::new(bytes));
    assert_eq!(examine(b"manifest"), Finding::Signed);
    assert_eq!(examine(b"another"), Finding::Another(of));
    let stranger = PrivateKey::generate().unwrap().verifying_key();
    let found = evidence.examine(&stranger, &Subject::new(b"manifest"));
    assert_eq!(found, Finding::NotTheirs);
}

#[test]
fn an_attestation_about_a_manifest_is_no_signature_of_it() {
    let key = PrivateKey::generate().unwrap();
    let mut statement = statement(&digest_of(b"manifest"));
    statement["predicateType"] = json!("https://slsa.dev/provenance/v1");
    let refused = reads(&envelope(&key, &statement)).unwrap_err().to_string();
    assert!(
        refused
            .contains("an attestation that says something else (`https://slsa.dev/provenance/v1`)"),
        "{refused}"
    );
}

#[test]
fn what_is_no_bundle_of_a_key_is_refused() {
    let key = PrivateKey::generate().unwrap();
    let good = envelope(&key, &statement(&digest_of(b"manifest")));
    let blob = message(&key, b"a component");
    let changed = |bundle: &Value, pointer: &str, value: Value| {
        let mut bundle = bundle.clone();
        *bundle.pointer_mut(pointer).unwrap() = value;
        bundle
    };
    let both = {
        let mut both = good.clone();
        both["messageSignature"] = blob["messageSignature"].clone();
        both
    };
    let mut nameless = statement(&digest_of(b"manifest"));
    nameless["subject"] = json!([{ "digest": { "sha512": "00" } }]);
    let mut crowded = nameless.clone();
    crowded["subject"] = json!(vec![json!({ "digest": { "sha256": "00" } }); SUBJECTS + 1]);
    for (bundle, message) in [
        (
            changed(&good, "/mediaType", json!("application/json")),
            "its media type",
        ),
        (both, "it must have one of"),
        (json!({ "mediaType": V03 }), "it must have one of"),
        (
            changed(&good, "/dsseEnvelope/payloadType", json!("text/plain")),
            "its payload is no in-toto",
        ),
        (
            changed(&good, "/dsseEnvelope/payload", json!("%")),
            "its payload is not base64",
        ),
        (
            changed(&good, "/dsseEnvelope/signatures", json!([])),
            "it has no signature",
        ),
        (envelope(&key, &nameless), "it names no subject"),
        (envelope(&key, &crowded), "it names no subject"),
        (
            changed(
                &blob,
                "/messageSignature/messageDigest/algorithm",
                json!("MD5"),
            ),
            "its digest is not",
        ),
    ] {
        let refused = reads(&bundle).unwrap_err().to_string();
        assert!(refused.contains(message), "{message}: {refused}");
    }
    let cut = changed(&blob, "/messageSignature/signature", json!("MEUC"));
    assert_eq!(reads(&cut).unwrap_err(), Unreadable::NotASignature);
}
