//! A host whose backend comes from a registry, signed: what serves, what is refused before it is compiled, and what a registry that is away costs.

use crate::server::{Server, component, good, text, wasmount};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::sleep;
use wasmount_control::Client;
use wasmount_control::words::{DriverStatus, Phase, Swap};
use wasmount_tests::builds;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::namespace;
use wasmount_tests::root::needs_root;

const DRIVER: &str = "fetched.example.com";
const TAG: &str = "acme/directory:stable";
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
    let mut keygen = wasmount(&["keygen", "--output-key-prefix", "cosign"]);
    keygen
        .env("WASMOUNT_KEY_PASSWORD", "")
        .current_dir(server.path());
    assert!(keygen.output().unwrap().status.success());
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
        let driver = drivers.remove(0);
        if driver.version.is_some() {
            return driver;
        }
        sleep(LOOK).await;
    }
}

fn compiled(host: &Host) -> usize {
    fs::read_dir(host.data().join("compiled")).unwrap().count()
}

#[tokio::test]
async fn privileged_a_signed_artifact_serves_and_an_unsigned_one_is_refused_before_it_is_compiled()
{
    needs_root();
    namespace::enter();
    assert!(component().exists());
    let mut server = Server::start();
    let key = key(&server);
    let first = push(&server, "first");
    sign(&server, &key, &first);
    let mut host = Host::start(HostOptions {
        backends: vec![document(&server)],
        ..HostOptions::default()
    })
    .unwrap();
    host.orchestrator()
        .await
        .unwrap()
        .created("one")
        .await
        .unwrap();
    let client = Client::new(host.data().join("admin.sock"));
    let serving = status(&client).await.version.unwrap();
    // The tag was resolved once, and is recorded as what it meant.
    assert!(serving.origin.contains(&first), "{serving:?}");
    let public = server.path().join("cosign.pub");
    assert_eq!(serving.signed_by, [text(&public)]);

    let second = push(&server, "second");
    let before = compiled(&host);
    let refused = client.swap(DRIVER, &Swap::default()).await.unwrap_err();
    assert!(
        refused.to_string().contains("nobody has signed"),
        "{refused}"
    );
    assert_eq!(compiled(&host), before);
    let now = status(&client).await;
    assert_eq!(now.refused.unwrap().kind, "signature");
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
