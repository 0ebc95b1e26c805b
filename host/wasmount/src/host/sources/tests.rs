//! Which files a backend depends on, and how component files are rejected.

use super::*;
use std::fs;
use wasmount_core::status::RefusalKind;
use wasmount_versions::DesiredFrom;

/// `more` is the text below `spec`.
fn desired(folder: &Path, more: &str) -> Desired {
    let file = folder.join("backend.yaml");
    let text = format!(
        "apiVersion: wasmount.io/v1alpha1\nkind: StorageBackend\nmetadata: {{ name: a }}\nspec:\n  driverName: a.b\n{more}"
    );
    fs::write(&file, text).unwrap();
    let configured = crate::config::load_one(&file).unwrap();
    Desired {
        document: configured.document,
        folder: configured.folder,
        from: DesiredFrom::File(file),
    }
}

async fn refused(more: &str, wasm: &[u8]) -> (RefusalKind, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("p.wasm"), wasm).unwrap();
    let sources = HostSources { secrets: None };
    let desired = desired(folder.path(), more);
    let refusal = sources.component(&desired).await.unwrap_err();
    (refusal.kind(), refusal.to_string())
}

#[tokio::test]
async fn a_component_of_a_file_is_read_with_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let wasm = b"\0asm\x0d\0\x01\0";
    fs::write(folder.path().join("p.wasm"), wasm).unwrap();
    let desired = desired(folder.path(), "  plugin: { path: p.wasm }\n");
    let sources = HostSources { secrets: None };
    let fetched = sources.component(&desired).await.unwrap();
    assert_eq!(fetched.component.wasm(), wasm);
    assert_eq!(
        fetched.origin,
        folder.path().join("p.wasm").display().to_string()
    );
    assert!(fetched.signed_by.is_empty());
}

#[tokio::test]
async fn what_is_no_component_or_not_the_one_that_is_meant_is_refused() {
    let plain = "  plugin: { path: p.wasm }\n";
    let (kind, _) = refused(plain, b"half").await;
    assert_eq!(kind, RefusalKind::NotAComponent);
    let digest = format!(
        "  plugin: {{ path: p.wasm, digest: 'sha256:{}' }}\n",
        "0".repeat(64)
    );
    let (kind, reason) = refused(&digest, b"\0asm\x0d\0\x01\0").await;
    assert_eq!(kind, RefusalKind::Digest);
    assert!(reason.contains(&"0".repeat(64)), "{reason}");
    let (kind, _) = refused("  plugin: { path: other.wasm }\n", b"").await;
    assert_eq!(kind, RefusalKind::Source);
}

#[tokio::test]
async fn a_secret_of_an_object_needs_an_api_server() {
    let folder = tempfile::tempdir().unwrap();
    let more = "  plugin: { path: p.wasm }\n  secrets: { a: { secret: { namespace: apps, name: pass, key: word } } }\n";
    let desired = desired(folder.path(), more);
    let sources = HostSources { secrets: None };
    let refusal = sources.secrets(&desired).await.unwrap_err();
    assert_eq!(refusal.kind(), RefusalKind::Secret);
    assert!(refusal.to_string().contains("no API server"), "{refusal}");
}

#[test]
fn every_file_that_a_document_points_to_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let more = "  plugin: { path: p.wasm, verify: { anyOf: [{ file: /keys/a.pub }] } }\n  secrets: { a: { file: password } }\n";
    let root = folder.path();
    assert_eq!(
        files(&desired(root, more)),
        BTreeSet::from([
            root.join("p.wasm"),
            root.join("p.wasm.sig"),
            root.join("p.wasm.bundle"),
            root.join("password"),
            PathBuf::from("/keys/a.pub"),
        ])
    );
}
