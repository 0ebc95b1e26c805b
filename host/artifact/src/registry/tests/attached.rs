//! Signatures in a registry where broken data lies beside them: it is skipped and reported, and neither hides a valid signature nor counts as one.

use super::hostile::{Reply, Server};
use super::*;
use crate::attached::{BLOBS, Extent, REFERRER_BYTES, cosign_tag};
use crate::bundle::Bundle;
use crate::error::{FetchError, RegistryError};
use crate::fetch::{Signed, signers};
use crate::judged::judged;
use crate::manifest::{Index, Manifest};
use crate::media_type::{COSIGN_SIGNATURE, EMPTY, OCI_INDEX};
use crate::signature::{
    NamedKey, PrivateKey, SIGNATURE_ANNOTATION, SignatureError, SignerKeys, encoded, payload,
};
use std::collections::BTreeMap;

/// The content of the config of signatures here.
const CONFIG: &[u8] = b"{}";

/// A registry's paths and what they answer.
#[derive(Default)]
struct Shelf(BTreeMap<String, Reply>);

impl Shelf {
    /// A shelf with the signed artifact.
    fn new() -> Self {
        let mut shelf = Self::default();
        let reply = Reply::ok(manifest()).typed(OCI_MANIFEST);
        shelf.put(TAG.to_owned(), reply);
        shelf.blob(CONFIG, Reply::ok(CONFIG));
        shelf
    }

    fn put(&mut self, path: String, reply: Reply) {
        self.0.insert(path, reply);
    }

    fn blob(&mut self, bytes: &[u8], reply: Reply) {
        self.put(blob_of(bytes), reply);
    }

    /// cosign's manifest of signatures.
    fn signatures(&mut self, layers: Vec<Descriptor>) {
        self.signatures_of(&signed_digest(), layers);
    }

    fn signatures_of(&mut self, signed: &Digest, layers: Vec<Descriptor>) {
        let config = Descriptor::of(WASM_CONFIG, CONFIG);
        let bytes = Manifest::new(config, layers, Annotations::new()).to_bytes();
        let path = format!("/v2/x/manifests/{}", cosign_tag(signed));
        self.put(path, Reply::ok(bytes).typed(OCI_MANIFEST));
    }

    /// The referrers of the artifact, in this order.
    fn refer(&mut self, manifests: Vec<(Descriptor, Vec<u8>)>) {
        let entries = manifests.iter().map(|(entry, _)| entry.clone()).collect();
        let list = Index::new(entries).to_bytes();
        self.put(referrers(), Reply::ok(list));
        for (entry, bytes) in manifests.into_iter().filter(|(_, it)| !it.is_empty()) {
            let path = format!("/v2/x/manifests/{}", entry.digest);
            self.put(path, Reply::ok(bytes).typed(OCI_MANIFEST));
        }
    }

    async fn served(self) -> Server {
        Server::start(move |path| self.0.get(path).cloned()).await
    }
}

/// A manifest that refers to the artifact, and its entry in an index.
fn referrer(layers: Vec<Descriptor>) -> (Descriptor, Vec<u8>) {
    let config = Descriptor::of(WASM_CONFIG, CONFIG);
    let mut referrer = Manifest::new(config, layers, Annotations::new());
    referrer.subject = Some(Descriptor::of(OCI_MANIFEST, &manifest()));
    listed(referrer.to_bytes())
}

fn listed(referrer: Vec<u8>) -> (Descriptor, Vec<u8>) {
    let mut entry = Descriptor::of(OCI_MANIFEST, &referrer);
    entry.artifact_type = Some("application/vnd.dev.cosign.artifact.sig.v1+json".to_owned());
    (entry, referrer)
}

fn blob_of(bytes: &[u8]) -> String {
    format!("/v2/x/blobs/{}", Digest::of(bytes))
}

fn signed_digest() -> Digest {
    Digest::of(&manifest())
}

/// An index that names the artifact.
fn list() -> Vec<u8> {
    Index::new(vec![Descriptor::of(OCI_MANIFEST, &manifest())]).to_bytes()
}

fn referrers() -> String {
    format!("/v2/x/referrers/{}", signed_digest())
}

/// A signature of the artifact: the descriptor of the layer, and its bytes.
fn signature(key: &PrivateKey) -> (Descriptor, Vec<u8>) {
    signature_of(key, &signed_digest())
}

fn signature_of(key: &PrivateKey, signed: &Digest) -> (Descriptor, Vec<u8>) {
    let bytes = payload("a.b/x", signed.as_str());
    let mut layer = Descriptor::of(COSIGN_SIGNATURE, &bytes);
    let signed = encoded(&key.sign(&bytes).unwrap());
    layer
        .annotations
        .insert(SIGNATURE_ANNOTATION.to_owned(), signed);
    (layer, bytes)
}

/// A layer that the registry does not have.
fn absent(number: usize) -> Descriptor {
    Descriptor::of(COSIGN_SIGNATURE, format!("absent {number}").as_bytes())
}

async fn verified(server: &Server, key: &PrivateKey) -> Result<Signed, FetchError> {
    let keys = SignerKeys::new(vec![NamedKey::new("ann", key.verifying_key())], Vec::new());
    signers(&connected(&server.host(), access()), &keys).await
}

#[tokio::test]
async fn a_valid_signature_counts_among_broken_ones() {
    let key = PrivateKey::generate().unwrap();
    let (good, bytes) = signature(&key);
    let forged = Descriptor::of(COSIGN_SIGNATURE, b"as it was pushed");
    let mut large = Descriptor::of(COSIGN_SIGNATURE, b"large");
    large.size = 1 << 30;
    let mut shelf = Shelf::new();
    shelf.blob(&bytes, Reply::ok(&bytes));
    shelf.blob(b"as it was pushed", Reply::ok(b"as it was forged"));
    shelf.signatures(vec![absent(0), forged.clone(), large, good]);
    let server = shelf.served().await;
    let signed = verified(&server, &key).await.unwrap();
    assert_eq!(signed.by, ["ann"]);
    let place = format!("the tag {}: its blob", cosign_tag(&signed_digest()));
    let forgery = Digest::of(b"as it was forged");
    assert_eq!(
        signed.remarks,
        [
            format!("{place} {} is not there", absent(0).digest),
            format!("{place} {} has the digest {forgery}", forged.digest),
            format!(
                "{place} {} is larger than 65536 bytes, the most that is read",
                Digest::of(b"large")
            ),
        ]
    );
}

#[tokio::test]
async fn broken_ones_alone_prove_nothing_and_the_refusal_names_them() {
    let mut shelf = Shelf::new();
    shelf.signatures(vec![absent(0)]);
    let server = shelf.served().await;
    let key = PrivateKey::generate().unwrap();
    let refused = verified(&server, &key).await.unwrap_err();
    assert!(
        matches!(
            &refused,
            FetchError::Signature(SignatureError::ByNobodyNamed { found: 1, .. })
        ),
        "{refused}"
    );
    let named = format!("its blob {} is not there", absent(0).digest);
    assert!(refused.to_string().contains(&named), "{refused}");
}

#[tokio::test]
async fn a_broken_tag_does_not_hide_referrers_or_the_reverse() {
    let key = PrivateKey::generate().unwrap();
    let (good, bytes) = signature(&key);
    // The index is corrupt, the tag is valid.
    let mut shelf = Shelf::new();
    shelf.blob(&bytes, Reply::ok(&bytes));
    shelf.signatures(vec![good.clone()]);
    shelf.put(referrers(), Reply::ok(b"rubbish"));
    let signed = verified(&shelf.served().await, &key).await.unwrap();
    assert_eq!(signed.by, ["ann"]);
    assert!(
        signed.remarks[0].starts_with("the list of what refers to it is not well-formed: "),
        "{:?}",
        signed.remarks
    );

    // The tag is corrupt, a referrer is valid.
    let (entry, referrer) = referrer(vec![good]);
    let absent = Descriptor {
        artifact_type: entry.artifact_type.clone(),
        ..Descriptor::of(OCI_MANIFEST, b"absent")
    };
    let gone = absent.digest.clone();
    let mut shelf = Shelf::new();
    shelf.blob(&bytes, Reply::ok(&bytes));
    let tag = cosign_tag(&signed_digest());
    shelf.put(format!("/v2/x/manifests/{tag}"), Reply::ok(b"rubbish"));
    shelf.refer(vec![(absent, Vec::new()), (entry, referrer)]);
    let signed = verified(&shelf.served().await, &key).await.unwrap();
    assert_eq!(signed.by, ["ann"]);
    assert_eq!(signed.remarks.len(), 2, "{:?}", signed.remarks);
    assert!(signed.remarks[0].starts_with(&format!("the tag {tag} is not well-formed: ")));
    assert_eq!(
        signed.remarks[1],
        format!("the referrer {gone} is not there")
    );
}

#[tokio::test]
async fn a_referrer_listed_by_its_config_is_what_it_says_itself() {
    let key = PrivateKey::generate().unwrap();
    let (good, bytes) = signature(&key);
    let of_cosign = "application/vnd.dev.cosign.artifact.sig.v1+json";
    for (kind, listed_as, counts) in [
        (of_cosign, Some(EMPTY), true),
        (of_cosign, Some(OCI_MANIFEST), true),
        (of_cosign, None, true),
        (of_cosign, Some("application/spdx+json"), false),
        ("application/spdx+json", Some(EMPTY), false),
        ("application/spdx+json", None, false),
    ] {
        let config = Descriptor::of(EMPTY, CONFIG);
        let mut referrer = Manifest::new(config, vec![good.clone()], Annotations::new());
        referrer.subject = Some(Descriptor::of(OCI_MANIFEST, &manifest()));
        referrer.artifact_type = Some(kind.to_owned());
        let (mut entry, referrer) = listed(referrer.to_bytes());
        entry.artifact_type = listed_as.map(str::to_owned);
        let mut shelf = Shelf::new();
        shelf.blob(&bytes, Reply::ok(&bytes));
        shelf.refer(vec![(entry, referrer)]);
        let signed = verified(&shelf.served().await, &key).await;
        assert_eq!(signed.is_ok(), counts, "{kind} {listed_as:?}");
    }
}

#[tokio::test]
async fn a_failing_registry_does_not_count_as_unsigned() {
    let key = PrivateKey::generate().unwrap();
    let (good, bytes) = signature(&key);
    let mut shelf = Shelf::new();
    shelf.blob(&bytes, Reply::status(500, b""));
    shelf.signatures(vec![good]);
    let refused = verified(&shelf.served().await, &key).await.unwrap_err();
    assert!(
        matches!(
            refused,
            FetchError::Registry(RegistryError::Busy { status: 500, .. })
        ),
        "{refused}"
    );
}

#[tokio::test]
async fn of_broken_ones_only_so_many_are_asked_for() {
    let key = PrivateKey::generate().unwrap();
    let (good, bytes) = signature(&key);
    let mut shelf = Shelf::new();
    shelf.blob(&bytes, Reply::ok(&bytes));
    let mut layers: Vec<_> = (0..BLOBS).map(absent).collect();
    layers.push(good);
    shelf.signatures(layers);
    let server = shelf.served().await;
    let refused = verified(&server, &key).await.unwrap_err();
    assert!(
        refused.to_string().contains("28 more of this kind"),
        "{refused}"
    );
    let request_count = |bytes: &[u8]| server.request_count(&blob_of(bytes));
    assert_eq!(request_count(format!("absent {}", BLOBS - 1).as_bytes()), 1);
    assert_eq!(request_count(&bytes), 0);
}

#[tokio::test]
async fn rubbish_takes_no_place_from_a_good_signature_behind_it() {
    let key = PrivateKey::generate().unwrap();
    let (good, bytes) = signature(&key);
    // Many broken manifests, and one with as many broken layers as are read; each blob exists.
    let rubbish = |number: usize| format!("rubbish {number}").into_bytes();
    let layer = |number: usize| Descriptor::of(COSIGN_SIGNATURE, &rubbish(number));
    let mut shelf = Shelf::new();
    shelf.blob(&bytes, Reply::ok(&bytes));
    for number in 0..2 * BLOBS {
        shelf.blob(&rubbish(number), Reply::ok(rubbish(number)));
    }
    let mut manifests: Vec<_> = (0..2 * BLOBS)
        .map(|number| referrer(vec![layer(number)]))
        .collect();
    manifests.push(referrer((0..BLOBS).map(layer).collect()));
    manifests.push(referrer(vec![good]));
    shelf.refer(manifests);
    let server = shelf.served().await;
    let signed = verified(&server, &key).await.unwrap();
    assert_eq!(signed.by, ["ann"]);
    assert_eq!(signed.remarks[4], "92 more of this kind");
}

#[tokio::test]
async fn a_manifest_of_a_referrer_is_small_or_is_not_read() {
    let key = PrivateKey::generate().unwrap();
    let (good, bytes) = signature(&key);
    let config = Descriptor::of(WASM_CONFIG, CONFIG);
    let most = usize::try_from(REFERRER_BYTES).unwrap();
    let mut bloated = Manifest::new(config, vec![good.clone()], Annotations::new());
    bloated.subject = Some(Descriptor::of(OCI_MANIFEST, &manifest()));
    let space = most + 1 - bloated.to_bytes().len();
    // Of the largest allowed size, and one byte more.
    for (spaces, is_signed) in [(space - 1, true), (space, false)] {
        let mut bytes_of = bloated.to_bytes();
        bytes_of.extend(vec![b' '; spaces]);
        let mut shelf = Shelf::new();
        shelf.blob(&bytes, Reply::ok(&bytes));
        let (entry, referrer) = listed(bytes_of);
        let place = format!("the referrer {}", entry.digest);
        shelf.refer(vec![(entry, referrer)]);
        let result = verified(&shelf.served().await, &key).await;
        match is_signed {
            true => assert_eq!(result.unwrap().by, ["ann"]),
            false => {
                let error = result.unwrap_err().to_string();
                let named = format!("{place} is larger than {most} bytes");
                assert!(error.contains(&named), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn verification_stops_at_the_first_valid_signature() {
    let key = PrivateKey::generate().unwrap();
    let (good, bytes) = signature(&key);
    let keys = SignerKeys::new(vec![NamedKey::new("ann", key.verifying_key())], Vec::new());
    for (extent, expected) in [(Extent::UntilSigned, 0), (Extent::All, 1)] {
        let mut shelf = Shelf::new();
        shelf.blob(&bytes, Reply::ok(&bytes));
        shelf.signatures(vec![good.clone()]);
        let (entry, behind) = referrer(vec![absent(0)]);
        let path = format!("/v2/x/manifests/{}", entry.digest);
        shelf.refer(vec![(entry, behind)]);
        let server = shelf.served().await;
        let registry = connected(&server.host(), access());
        let signed = registry.manifest("1").await.unwrap();
        let judged = judged(&registry, &signed, &keys, extent).await;
        assert_eq!(judged.verdict.unwrap(), ["ann"]);
        assert_eq!(server.request_count(&path), expected, "{extent:?}");
    }
}

#[tokio::test]
async fn the_name_of_what_is_signed_is_given_and_no_other() {
    let key = PrivateKey::generate().unwrap();
    for signs_list in [true, false] {
        let what = match signs_list {
            true => Digest::of(&list()),
            false => signed_digest(),
        };
        let (layer, bytes) = signature_of(&key, &what);
        let mut shelf = Shelf::new();
        shelf.put(TAG.to_owned(), Reply::ok(list()).typed(OCI_INDEX));
        let path = format!("/v2/x/manifests/{}", signed_digest());
        shelf.put(path, Reply::ok(manifest()).typed(OCI_MANIFEST));
        shelf.blob(&bytes, Reply::ok(&bytes));
        shelf.blob(WASM, Reply::ok(WASM));
        shelf.signatures_of(&what, vec![layer]);
        let server = shelf.served().await;
        let signed = verified(&server, &key).await.unwrap();
        assert!(signed.reference.to_string().ends_with(what.as_str()));
        // A bundle holds no index, and reports the consequence.
        let registry = connected(&server.host(), access());
        let (bundle, left_out) = Bundle::pull(&registry).await.unwrap();
        let message =
            format!("signatures of the list {what}: a bundle holds one manifest; sign that one");
        let expected = signs_list.then_some(message);
        assert_eq!(left_out, Vec::from_iter(expected));
        assert_eq!(bundle.attached().len(), usize::from(!signs_list));
    }
}
