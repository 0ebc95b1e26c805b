//! A host whose backend comes from a registry, signed: what serves, what is refused before it is compiled, and what a registry that is away costs.

use crate::registry::server::{Server, component, good, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::sleep;
use wasmount_control::Client;
use wasmount_control::messages::{DriverStatus, Phase, RefusalKind, Swap, VersionRecord};
use wasmount_tests::builds;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::keys::key_pair;
use wasmount_tests::namespace;
use wasmount_tests::root::needs_root;

const DRIVER: &str = "fetched.example.com";
const TAG: &str = "acme/directory:stable";
/// Where a registry is asked what the tag stands for.
const MANIFEST_OF_TAG: &str = "acme/directory/manifests/stable";
/// Makes another version of the same component.
const OTHER_LIMITS: &str = "  limits: { time: 77s }\n";
const LOOK: Duration = Duration::from_millis(10);

/// A component of this mark under the tag; gives the digest of its manifest.
fn push(server: &Server, mark: &str) -> String {
    let path = server.path().join(format!("{mark}.wasm"));
    fs::write(&path, builds::build_of("directory", mark).unwrap()).unwrap();
    let words = ["push", text(&path), &server.reference(TAG)];
    let printed = good(&mut server.wasmount(&words));
    printed.trim().split_once('@').unwrap().1.to_owned()
}

fn sign(server: &Server, key: &Path, digest: &str) {
    let name = server.reference(&format!("acme/directory@{digest}"));
    let mut command = server.wasmount(&["sign", &name, "--key", text(key)]);
    good(command.env("WASMOUNT_KEY_PASSWORD", ""));
}

fn key(server: &Server) -> PathBuf {
    key_pair(server.path(), "cosign", "").unwrap();
    server.path().join("cosign.key")
}

fn document(server: &Server) -> PathBuf {
    let path = server.path().join("backend.yaml");
    let text = format!(
        "apiVersion: wasmount.io/v1alpha1\nkind: StorageBackend\nmetadata: {{ name: fetched }}\nspec:\n  driverName: {DRIVER}\n  plugin:\n    \
         reference: {}\n    registry: {{ credentials: {{ file: config.json }}, caFile: {} }}\n    verify: {{ anyOf: [{{ file: cosign.pub }}] }}\n  \
         grants: {{ pools: {{ volumes: {{ path: pools/fetched }} }} }}\n",
        server.reference(TAG),
        server.certificates.authority.display(),
    );
    server.config();
    fs::write(&path, text).unwrap();
    path
}

/// As soon as it is known what serves: calls may be answered a moment before.
async fn status(client: &Client) -> DriverStatus {
    loop {
        let mut drivers = client.status().await.unwrap().drivers;
        let driver = drivers.remove(0).status;
        if driver.version.is_some() {
            return driver;
        }
        sleep(LOOK).await;
    }
}

/// As soon as the version of this number serves.
async fn version(client: &Client, number: u64) -> VersionRecord {
    loop {
        let version = status(client).await.version.unwrap();
        if version.number == number {
            return version;
        }
        sleep(LOOK).await;
    }
}

fn started(server: &Server) -> (Host, PathBuf, Client) {
    let document = document(server);
    let host = Host::start(HostOptions {
        backends: vec![document.clone()],
        ..HostOptions::default()
    })
    .unwrap();
    let client = Client::new(host.data().join("admin.sock"));
    (host, document, client)
}

fn compiled(host: &Host) -> usize {
    fs::read_dir(host.data().join("compiled")).unwrap().count()
}

#[tokio::test]
async fn privileged_an_unsigned_artifact_is_not_compiled() {
    needs_root();
    namespace::enter();
    assert!(component().exists());
    let mut server = Server::start();
    let key = key(&server);
    let first = push(&server, "first");
    sign(&server, &key, &first);
    let (mut host, _, client) = started(&server);
    host.orchestrator()
        .await
        .unwrap()
        .created("one")
        .await
        .unwrap();
    let serving = status(&client).await.version.unwrap();
    // The tag was resolved once, and is recorded as what it meant.
    assert!(serving.origin.contains(&first), "{serving:?}");
    let public = server.path().join("cosign.pub");
    assert_eq!(serving.signed_by, [text(&public)]);

    let second = push(&server, "second");
    let before = compiled(&host);
    let refused = client.swap(DRIVER, &Swap::default()).await.unwrap_err();
    assert!(
        refused.to_string().contains("has no signature"),
        "{refused}"
    );
    assert_eq!(compiled(&host), before);
    let now = status(&client).await;
    assert_eq!(now.refused.unwrap().kind, RefusalKind::Signature);
    assert_eq!(now.version.unwrap().number, serving.number);

    sign(&server, &key, &second);
    let done = client.swap(DRIVER, &Swap::default()).await.unwrap();
    let version = done.version.unwrap();
    assert!(version.origin.contains(&second), "{version:?}");

    // Without its registry the host serves on, says why nothing newer comes, and starts from its own disk.
    server.end();
    let away = client.swap(DRIVER, &Swap::default()).await.unwrap_err();
    assert!(away.to_string().contains("localhost:"), "{away}");
    host.kill_9().unwrap();
    host.restart().unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    orchestrator
        .is_known(&orchestrator.created("one").await.unwrap().id)
        .await
        .unwrap();
    let after = status(&client).await;
    assert_eq!(after.version.unwrap().digest, version.digest);
    assert!(
        matches!(after.phase, Phase::Serving | Phase::Refused),
        "{:?}",
        after.phase
    );
    host.abandon().unwrap();
}

#[tokio::test]
async fn privileged_a_moved_tag_takes_effect_with_a_swap() {
    needs_root();
    namespace::enter();
    let server = Server::start();
    let key = key(&server);
    let first = push(&server, "first");
    sign(&server, &key, &first);
    let (mut host, document, client) = started(&server);
    host.orchestrator().await.unwrap();
    let serving = version(&client, 1).await;
    assert!(serving.origin.contains(&first), "{serving:?}");
    let second = push(&server, "second");
    sign(&server, &key, &second);
    let asked = server.asked(MANIFEST_OF_TAG);
    assert!(asked > 0);

    // The registry is there, and what the tag stands for now may serve.
    host.terminate().unwrap();
    host.restart().unwrap();
    host.orchestrator().await.unwrap();
    assert_eq!(version(&client, 1).await.digest, serving.digest);
    // Another version is made of it: what was resolved then counts for this too.
    let text = fs::read_to_string(&document).unwrap();
    let aside = server.path().join("aside.yaml");
    fs::write(&aside, text + OTHER_LIMITS).unwrap();
    fs::rename(&aside, &document).unwrap();
    let other = version(&client, 2).await;
    assert_eq!(
        (&other.digest, &other.origin),
        (&serving.digest, &serving.origin)
    );
    assert_eq!(server.asked(MANIFEST_OF_TAG), asked);

    let done = client.swap(DRIVER, &Swap::default()).await.unwrap();
    let swapped = done.version.unwrap();
    assert!(swapped.origin.contains(&second), "{swapped:?}");
    assert_ne!(swapped.digest, serving.digest);
    assert!(server.asked(MANIFEST_OF_TAG) > asked);
    host.abandon().unwrap();
}
