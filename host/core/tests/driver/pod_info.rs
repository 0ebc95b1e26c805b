//! The pod info that kubelet must pass: a request without it is rejected if the plugin needs it, and only then.

use crate::common::*;
use std::sync::Arc;
use wasmount_core::call::Incoming;
use wasmount_core::code::Code;
use wasmount_core::driver::{
    DriverConfig, EPHEMERAL, NodePublishRequest, PodInfo, Role, SERVICE_ACCOUNT_TOKENS,
    ServingPolicy,
};
use wasmount_core::services::Service;

const ALL: PodInfo = PodInfo {
    identity: true,
    tokens: true,
};

/// A driver with these pod info requirements and services.
fn wanting(pod_info: PodInfo, services: &[Service]) -> Bench {
    let config = DriverConfig {
        policy: ServingPolicy {
            pod_info,
            ..policy(&[])
        },
        ..config(Role::All, &[])
    };
    with_backend(without_plugin(config), services, &[])
}

/// A publish without a stage. `ephemeral`: the value in the volume context, if any.
fn unstaged(ephemeral: Option<&str>) -> NodePublishRequest {
    let said = ephemeral.map(|it| (EPHEMERAL, it));
    let mut request = publish("v", "/t");
    request.staging_path = None;
    request.volume.ephemeral = ephemeral == Some("true");
    request.volume.volume_context = attributes(said.as_slice());
    request
}

fn with_tokens() -> Incoming {
    let tokens = (SERVICE_ACCOUNT_TOKENS.to_owned(), "{}".to_owned());
    Incoming {
        secrets: Arc::new([tokens].into_iter().collect()),
        ..incoming()
    }
}

#[tokio::test]
async fn a_publish_without_pod_info_names_the_csi_driver_field() {
    let unstaging = &[Service::NodePublish][..];
    let identity = PodInfo {
        tokens: false,
        ..ALL
    };
    for (services, wanted, incoming, request, field) in [
        (
            unstaging,
            identity,
            incoming(),
            unstaged(None),
            "podInfoOnMount: true",
        ),
        (
            Service::ALL,
            identity,
            incoming(),
            unstaged(None),
            "podInfoOnMount: true",
        ),
        (
            unstaging,
            ALL,
            with_tokens(),
            unstaged(None),
            "podInfoOnMount: true",
        ),
        (
            unstaging,
            ALL,
            incoming(),
            unstaged(Some("true")),
            "tokenRequests",
        ),
        (
            Service::ALL,
            ALL,
            incoming(),
            unstaged(Some("true")),
            "tokenRequests",
        ),
    ] {
        let bench = wanting(wanted, services);
        let refused = bench.driver.node_publish_volume(incoming, request).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        let said = refused.to_string();
        let object = "CSIDriver object `fake.example.com`";
        assert!(said.contains(object) && said.contains(field), "{said}");
        assert_eq!(bench.backend.script.calls(), [""; 0]);
        assert_eq!(bench.mounter.script.calls(), [""; 0]);
    }
}

#[tokio::test]
async fn a_publish_that_has_it_or_needs_it_not_is_served() {
    let unstaging = &[Service::NodePublish][..];
    for (services, wanted, incoming, request) in [
        (unstaging, ALL, with_tokens(), unstaged(Some("true"))),
        // A volume of a claim, without a stage step.
        (unstaging, ALL, with_tokens(), unstaged(Some("false"))),
        (Service::ALL, ALL, with_tokens(), unstaged(Some("true"))),
        (unstaging, PodInfo::default(), incoming(), unstaged(None)),
        // A staged volume is published as it is.
        (Service::ALL, ALL, incoming(), publish("v", "/t")),
    ] {
        let bench = wanting(wanted, services);
        let published = bench.driver.node_publish_volume(incoming, request).await;
        published.unwrap();
        assert_eq!(bench.mounter.script.count("publish"), 1);
    }
}
