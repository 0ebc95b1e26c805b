//! `fetch-child`, started as the host starts it: finds a registry by name, speaks TLS, compares digests and signatures, and answers, all from
//! behind its walls.

use crate::registry::bundles::connected;
use crate::registry::server::{Server, component, good, text, wasmount};
use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};
use wasmount_artifact::signature::{NamedKey, Password, PrivateKey, PrivateKeyFile, SignerKeys};
use wasmount_artifact::{
    Access, Annotations, Beside, ComponentSource, Descriptor, Digest, FetchError, FetchRequest,
    Fetched, Manifest, RegistryError, login, sign, system_certificates,
};
use wasmount_core::document::Reference;
use wasmount_tests::keys::key_pair;

fn asked(work: &str, request: FetchRequest) -> Result<Fetched, FetchError> {
    let output = heard(work, request);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Fetched::decode(&output.stdout).unwrap()
}

fn heard(work: &str, request: FetchRequest) -> Output {
    let mut child = wasmount(&["fetch-child", work])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let message = request.encode().unwrap();
    child.stdin.take().unwrap().write_all(&message).unwrap();
    child.wait_with_output().unwrap()
}

fn request(server: &Server, reference: &str) -> FetchRequest {
    let reference = Reference::parse(reference).unwrap();
    let config = fs::read(server.config()).unwrap();
    FetchRequest {
        wanted: ComponentSource::Artifact {
            access: Box::new(Access {
                credentials: login(&config, "a test", &reference).unwrap(),
                system_ca: system_certificates(),
                extra_ca: Some(fs::read(&server.certificates.authority).unwrap()),
                ..Access::default()
            }),
            reference,
        },
        digest: None,
        signers: SignerKeys::default(),
    }
}

fn private_key() -> PrivateKey {
    let folder = tempfile::tempdir().unwrap();
    key_pair(folder.path(), "a", "").unwrap();
    let pem = fs::read_to_string(folder.path().join("a.key")).unwrap();
    let PrivateKeyFile::Sealed(sealed) = PrivateKeyFile::from_pem(&pem).unwrap() else {
        panic!("{pem}");
    };
    sealed.open(&Password::default()).unwrap()
}

fn somebody() -> SignerKeys {
    let key = private_key().verifying_key();
    SignerKeys::new(vec![NamedKey::new("ann", key)], Vec::new())
}

#[test]
fn a_confined_child_fetches_what_is_named() {
    let server = Server::start();
    let reference = server.reference("storage/nas:1");
    let pinned = good(&mut server.wasmount(&["push", text(&component()), &reference]));
    let wasm = fs::read(component()).unwrap();
    let mut known = request(&server, &reference);
    known.digest = Some(Digest::of(&wasm).to_string());
    for request in [request(&server, &reference), known] {
        let fetched = asked("registry", request).unwrap();
        assert_eq!(fetched.wasm, wasm);
        assert_eq!(fetched.reference.as_deref(), Some(pinned.trim()));
        assert_eq!(fetched.signed_by, [""; 0]);
    }
}

#[test]
fn what_is_not_as_it_must_be_is_refused_in_the_child() {
    let server = Server::start();
    let reference = server.reference("storage/nas:1");
    good(&mut server.wasmount(&["push", text(&component()), &reference]));
    let mut other = request(&server, &reference);
    other.digest = Some(Digest::of(b"other").to_string());
    let refused = asked("registry", other).unwrap_err();
    assert!(
        matches!(refused, FetchError::AnotherComponent { .. }),
        "{refused}"
    );
    let mut unsigned = request(&server, &reference);
    unsigned.signers = somebody();
    let refused = asked("registry", unsigned).unwrap_err();
    assert!(matches!(refused, FetchError::Signature(_)), "{refused}");
    let absent = request(&server, &server.reference("storage/nas:2"));
    let refused = asked("registry", absent).unwrap_err();
    assert!(
        matches!(
            refused,
            FetchError::Registry(RegistryError::NotFound { .. })
        ),
        "{refused}"
    );
}

/// A manifest that speaks of another, is called a signature, and is a mebibyte of annotations: read into memory it has twenty times that.
fn bloated(subject: &Descriptor, number: usize) -> (Descriptor, Vec<u8>) {
    const ANNOTATIONS: usize = 90_000;
    let nothing = Descriptor::of("application/vnd.oci.empty.v1+json", b"{}");
    let annotations = (0..ANNOTATIONS).map(|at| (format!("{at:05}"), String::new()));
    let mut annotations: Annotations = annotations.collect();
    annotations.insert("number".to_owned(), number.to_string());
    let mut manifest = Manifest::new(nothing.clone(), vec![nothing], annotations);
    manifest.subject = Some(subject.clone());
    let bytes = manifest.to_bytes();
    let mut entry = Descriptor::of(manifest.media_type(), &bytes);
    entry.artifact_type = Some("application/vnd.dev.cosign.artifact.sig.v1+json".to_owned());
    (entry, bytes)
}

#[test]
fn rubbish_beside_a_good_signature_takes_no_memory_of_the_child() {
    const REFERRERS: usize = 32;
    let server = Server::start();
    let reference = server.reference("storage/nas:1");
    good(&mut server.wasmount(&["push", text(&component()), &reference]));
    let (ann, bob) = (private_key(), private_key());
    let named = |name: &str, key: &PrivateKey| NamedKey::new(name, key.verifying_key());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let registry = connected(&server, &reference);
        let signed = registry.manifest("1").await.unwrap();
        let subject = Descriptor::of(&signed.media_type, &signed.bytes);
        let nothing = b"{}".to_vec();
        registry.push_blob("nothing", nothing.into()).await.unwrap();
        for number in 0..REFERRERS {
            let (entry, bytes) = bloated(&subject, number);
            registry
                .attach(&signed.digest, &entry, bytes)
                .await
                .unwrap();
        }
        sign(&registry, &ann).await.unwrap();
    });
    let mut signed = request(&server, &reference);
    signed.signers = SignerKeys::new(vec![named("ann", &ann)], Vec::new());
    assert_eq!(asked("registry", signed).unwrap().signed_by, ["ann"]);
    // All of it is looked at for a key that has not signed.
    let mut unsigned = request(&server, &reference);
    unsigned.signers = SignerKeys::new(Vec::new(), vec![named("ann", &ann), named("bob", &bob)]);
    let refused = asked("registry", unsigned).unwrap_err();
    let said = refused.to_string();
    assert!(matches!(refused, FetchError::Signature(_)), "{said}");
    assert!(said.contains("28 more of this kind"), "{said}");
}

#[test]
fn a_child_for_files_checks_signatures_without_network() {
    let key = private_key();
    let wasm = fs::read(component()).unwrap();
    let signed = SignerKeys::new(vec![NamedKey::new("ann", key.verifying_key())], Vec::new());
    let signature = openssl_base64(&key.sign(&wasm).unwrap());
    let of_file = |signers: SignerKeys| FetchRequest {
        wanted: ComponentSource::File {
            wasm: wasm.clone(),
            beside: Beside {
                signature: Some(signature.clone()),
                bundle: None,
            },
        },
        digest: None,
        signers,
    };
    let fetched = asked("file", of_file(signed)).unwrap();
    assert_eq!(
        (fetched.signed_by, fetched.wasm.len()),
        (vec!["ann".to_owned()], wasm.len())
    );
    let refused = asked("file", of_file(somebody())).unwrap_err();
    assert!(matches!(refused, FetchError::Signature(_)), "{refused}");
    let server = Server::start();
    let pull = self::request(&server, &server.reference("storage/nas:1"));
    let output = heard("file", pull);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said, "the request is for another kind of work\n");
}

/// As `cosign sign-blob` writes a signature.
fn openssl_base64(signature: &[u8]) -> Vec<u8> {
    let mut child = std::process::Command::new("openssl")
        .args(["base64", "-A"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(signature).unwrap();
    child.wait_with_output().unwrap().stdout
}
