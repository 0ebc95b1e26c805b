//! Components of other versions of the contract: compatible ones are accepted, others are rejected before they serve.
//!
//! They are built from a real one by overwriting one name with another of the same length, which leaves a valid component.

use crate::harness::{call, engine, parts, wasm};
use crate::memory::Memory;
use std::sync::Arc;
use std::time::Duration;
use wasmount_core::document::Limits;
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;
use wasmount_core::services::Service;
use wasmount_engine::EngineError;

/// The plugin with every occurrence of one name overwritten with another.
fn renamed(old: &str, new: &str) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let mut wasm = wasm("misbehave");
    let places: Vec<usize> = (0..wasm.len())
        .filter(|at| wasm[*at..].starts_with(old.as_bytes()))
        .collect();
    assert!(!places.is_empty(), "the plugin has no `{old}` any more");
    for at in places {
        wasm[at..at + new.len()].copy_from_slice(new.as_bytes());
    }
    wasm
}

/// Its services, if it can be prepared.
async fn prepared(old: &str, new: &str) -> Result<Vec<Service>, EngineError> {
    let component = engine().load(renamed(old, new)).await?;
    let parts = parts(
        &Arc::new(Memory::default()),
        Limits::default(),
        Secrets::default(),
    );
    let call = call(Rpc::GetPluginInfo, Duration::from_secs(60));
    Ok(component.prepare(parts, &call).await?.services())
}

#[tokio::test]
async fn a_compatible_contract_obeyed() {
    let services = prepared("csi/identity@0.1.0", "csi/identity@0.1.7")
        .await
        .unwrap();
    assert!(services.contains(&Service::VolumeListing));
    // This host does not use an export that it does not know.
    let services = prepared("csi/volume-listing@", "csi/volume-telepor@")
        .await
        .unwrap();
    assert!(services.contains(&Service::Controller));
    assert!(!services.contains(&Service::VolumeListing));
}

#[tokio::test]
async fn the_shape_of_the_contract_violated() {
    for (interface, old, new) in [
        // A record with another field.
        ("identity", "manifest", "manifold"),
        // A function that is missing.
        ("identity", "check-settings", "check-sittings"),
        // A variant with another case.
        ("controller", "unsupported", "unsupportet"),
    ] {
        match prepared(old, new).await {
            Err(EngineError::Shape {
                interface: found, ..
            }) => assert_eq!(found, interface),
            other => panic!("{old}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn an_import_that_this_host_does_not_have_violated() {
    let error = prepared("is-cancelled", "is-cancellet").await.unwrap_err();
    assert!(matches!(error, EngineError::Link(_)), "{error}");
    assert!(error.to_string().contains("is-cancellet"), "{error}");
}

#[tokio::test]
async fn another_line_of_the_contract_violated() {
    let error = prepared("csi/identity@0.1.0", "csi/identity@0.2.0")
        .await
        .unwrap_err();
    assert!(matches!(error, EngineError::NoIdentity), "{error}");
}
