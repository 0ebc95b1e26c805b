//! The object of each kind of driver, and the change for each difference.

use super::keep::change;
use super::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use serde_json::Value;
use wasmount_core::capabilities::{Hidden, Profile};
use wasmount_core::driver::Role;
use wasmount_core::services::{Feature, Service, ServiceSet};

fn advertised(services: &[Service], features: &[Feature], hidden: &[&str]) -> Capabilities {
    let offer = ServiceSet::new(services.iter().copied(), features.iter().copied());
    let hidden = Hidden::parse(hidden).unwrap();
    Capabilities::derive(&offer, Role::All, Profile::V1_12, &hidden)
}

fn spec(capabilities: &Capabilities, document: Value) -> Value {
    let name = DriverName::parse("a.b").unwrap();
    let document = serde_json::from_value(document).unwrap();
    serde_json::to_value(csi_driver(&name, capabilities, &document).unwrap().spec).unwrap()
}

#[test]
fn the_csi_driver_object_follows_exports_and_document_only() {
    use Service as S;
    let plain = advertised(&[S::Controller, S::NodeStage], &[], &[]);
    let local = advertised(
        &[
            S::Controller,
            S::ControllerPublish,
            S::Capacity,
            S::NodeInfo,
            S::NodeStage,
        ],
        &[Feature::Topology],
        &[],
    );
    let hidden = advertised(
        &[S::Controller, S::ControllerPublish, S::NodeStage],
        &[],
        &["PUBLISH_UNPUBLISH_VOLUME"],
    );
    let without = json!({ "attachRequired": false, "storageCapacity": false, "volumeLifecycleModes": ["Persistent"] });
    for (capabilities, document, expected) in [
        (&plain, json!({}), without.clone()),
        (&hidden, json!({}), without),
        (
            &local,
            json!({}),
            json!({ "attachRequired": true, "storageCapacity": true, "volumeLifecycleModes": ["Persistent"] }),
        ),
        (
            &local,
            json!({ "storageCapacity": false, "podInfoOnMount": false }),
            json!({ "attachRequired": true, "storageCapacity": false, "podInfoOnMount": false, "volumeLifecycleModes": ["Persistent"] }),
        ),
        (
            &plain,
            json!({
                "volumeLifecycleModes": ["Ephemeral"], "tokenRequests": [{ "audience": "vault", "expirationSeconds": 600 }],
                "fsGroupPolicy": "File", "requiresRepublish": true, "seLinuxMount": true, "nodeAllocatableUpdatePeriodSeconds": 60,
                "serviceAccountTokenInSecrets": true, "preventPodSchedulingIfMissing": true,
            }),
            json!({
                "attachRequired": false, "storageCapacity": false, "podInfoOnMount": true, "volumeLifecycleModes": ["Ephemeral"],
                "tokenRequests": [{ "audience": "vault", "expirationSeconds": 600 }], "fsGroupPolicy": "File", "requiresRepublish": true,
                "seLinuxMount": true, "nodeAllocatableUpdatePeriodSeconds": 60, "serviceAccountTokenInSecrets": true,
                "preventPodSchedulingIfMissing": true,
            }),
        ),
    ] {
        assert_eq!(spec(capabilities, document.clone()), expected, "{document}");
    }
}

#[test]
fn implausible_capacities_are_rejected() {
    let name = DriverName::parse("a.b").unwrap();
    let document = serde_json::from_value(json!({ "storageCapacity": true })).unwrap();
    for features in [&[][..], &[Feature::Topology]] {
        let capabilities = advertised(&[Service::Controller, Service::NodeInfo], features, &[]);
        let refused = csi_driver(&name, &capabilities, &document).unwrap_err();
        assert!(matches!(refused, KubernetesError::NoCapacity(_)));
    }
}

fn object(spec: Value) -> CSIDriver {
    serde_json::from_value(json!({ "metadata": { "name": "a.b" }, "spec": spec })).unwrap()
}

fn managed(mut object: CSIDriver, manager: &str, fields: &[&str]) -> CSIDriver {
    let fields: serde_json::Map<_, _> = fields
        .iter()
        .map(|field| (format!("f:{field}"), json!({})))
        .collect();
    let entry = ManagedFieldsEntry {
        manager: Some(manager.to_owned()),
        operation: Some("Apply".to_owned()),
        fields_v1: Some(FieldsV1(json!({ "f:spec": fields }))),
        ..ManagedFieldsEntry::default()
    };
    object
        .metadata
        .managed_fields
        .get_or_insert_default()
        .push(entry);
    object
}

#[test]
fn an_equal_csi_driver_object_is_not_written() {
    let desired = object(
        json!({ "attachRequired": false, "volumeLifecycleModes": ["Ephemeral", "Persistent"] }),
    );
    let live = object(json!({
        "attachRequired": false, "volumeLifecycleModes": ["Persistent", "Ephemeral"], "seLinuxMount": true,
    }));
    assert_eq!(change(Some(&live), &desired).unwrap(), None);
    let others = managed(live.clone(), "kubectl", &["attachRequired", "seLinuxMount"]);
    assert_eq!(change(Some(&others), &desired).unwrap(), None);
    let ours = managed(
        live,
        "wasmount",
        &["attachRequired", "volumeLifecycleModes"],
    );
    assert_eq!(change(Some(&ours), &desired).unwrap(), None);
}

#[test]
fn what_is_missing_differs_or_is_no_longer_said_is_applied() {
    let desired = object(json!({ "attachRequired": true, "storageCapacity": true }));
    let apply = Some(desired.clone());
    assert_eq!(change(None, &desired).unwrap(), apply);
    let other = object(json!({ "attachRequired": true, "storageCapacity": false }));
    assert_eq!(change(Some(&other), &desired).unwrap(), apply);
    let earlier = object(
        json!({ "attachRequired": true, "storageCapacity": true, "requiresRepublish": true }),
    );
    assert_eq!(
        change(
            Some(&managed(
                earlier.clone(),
                "wasmount",
                &["requiresRepublish"]
            )),
            &desired
        )
        .unwrap(),
        apply
    );
    assert_eq!(
        change(
            Some(&managed(earlier, "kubectl", &["requiresRepublish"])),
            &desired
        )
        .unwrap(),
        None
    );
}

#[test]
fn a_field_that_cannot_change_is_named_with_both_values() {
    let live = object(json!({ "attachRequired": false, "volumeLifecycleModes": ["Persistent"] }));
    for (desired, named) in [
        (
            json!({ "attachRequired": true }),
            "`attachRequired` is false, wanted true",
        ),
        (
            json!({ "volumeLifecycleModes": ["Ephemeral"], "storageCapacity": true }),
            "`volumeLifecycleModes` is [\"Persistent\"], wanted [\"Ephemeral\"]",
        ),
    ] {
        let refused = change(Some(&live), &object(desired)).unwrap_err();
        let message = format!("CSIDriver a.b: {named}; these fields are immutable.");
        assert!(refused.to_string().starts_with(&message), "{refused}");
    }
}
