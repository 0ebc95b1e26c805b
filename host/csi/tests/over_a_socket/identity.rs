//! The driver's identity and capabilities, and the rejection of RPCs that it does not advertise.

use crate::support::{CONNECTIONS, Served, config, in_1_13, refused};
use prost::Message;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use wasmount_core::driver::Role;
use wasmount_core::rpc::Rpc;
use wasmount_core::services::{Service, ServiceSet};
use wasmount_csi::wire::csi::v1 as wire;

/// Calls any method with an empty message and returns only the status.
async fn bare_call(channel: Channel, path: &str) -> Result<(), Status> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let path = PathAndQuery::try_from(path.to_owned()).unwrap();
    let codec = ProstCodec::<wire::ProbeRequest, Anything>::default();
    client
        .unary(Request::new(wire::ProbeRequest {}), path, codec)
        .await
        .map(drop)
}

/// Decodes from any message.
#[derive(Clone, PartialEq, Message)]
struct Anything {}

/// The codes of all calls, each with an empty message.
async fn codes(served: &Served) -> Vec<(Rpc, Code)> {
    let channel = served.channel().await;
    let mut codes = Vec::new();
    for rpc in Rpc::ALL {
        let path = format!("/csi.v1.{}/{rpc}", rpc.service());
        let code = bare_call(channel.clone(), &path)
            .await
            .map_or_else(|status| status.code(), |()| Code::Ok);
        codes.push((*rpc, code));
    }
    codes
}

#[tokio::test]
async fn the_plugin_says_who_it_is_and_that_it_is_ready() {
    let served = Served::whole();
    let mut identity = served.identity().await;
    let info = identity
        .get_plugin_info(wire::GetPluginInfoRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (info.name.as_str(), info.vendor_version.as_str()),
        ("memory.wasmount.io", "1.2.3")
    );
    assert_eq!(
        info.manifest.get("language").map(String::as_str),
        Some("rust")
    );
    let probe = identity
        .probe(wire::ProbeRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(probe.ready, Some(true));
}

#[tokio::test]
async fn capabilities_arrive_with_the_numbers_of_the_specification() {
    use wire::controller_service_capability as controller;
    use wire::node_service_capability as node;
    use wire::plugin_capability as plugin;
    let served = Served::whole();

    let plugin_answer = served
        .identity()
        .await
        .get_plugin_capabilities(wire::GetPluginCapabilitiesRequest {})
        .await;
    let numbers = plugin_answer
        .unwrap()
        .into_inner()
        .capabilities
        .into_iter()
        .map(|each| match each.r#type.unwrap() {
            plugin::Type::Service(service) => ("service", service.r#type),
            plugin::Type::VolumeExpansion(expansion) => ("expansion", expansion.r#type),
        });
    let expected = [
        ("service", 1),
        ("service", 2),
        ("service", 3),
        ("service", 4),
        ("expansion", 1),
    ];
    assert_eq!(numbers.collect::<Vec<_>>(), expected);

    let request = wire::ControllerGetCapabilitiesRequest {};
    let answer = served
        .controller()
        .await
        .controller_get_capabilities(request)
        .await
        .unwrap()
        .into_inner();
    let numbers = answer.capabilities.into_iter().map(|each| {
        let controller::Type::Rpc(rpc) = each.r#type.unwrap();
        rpc.r#type
    });
    // Without PUBLISH_READONLY and LIST_VOLUMES_PUBLISHED_NODES, which are features that this backend does not claim.
    assert_eq!(
        numbers.collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6, 7, 9, 11, 12, 13, 14, 15]
    );

    let answer = served
        .node()
        .await
        .node_get_capabilities(wire::NodeGetCapabilitiesRequest {})
        .await;
    let numbers = answer
        .unwrap()
        .into_inner()
        .capabilities
        .into_iter()
        .map(|each| {
            let node::Type::Rpc(rpc) = each.r#type.unwrap();
            rpc.r#type
        });
    assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 3, 4, 5]);

    let request = wire::GroupControllerGetCapabilitiesRequest {};
    let answer = served
        .groups()
        .await
        .group_controller_get_capabilities(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.capabilities.len(), 1);
}

#[tokio::test]
async fn an_empty_message_is_rejected_where_a_field_is_required() {
    let takes_nothing = [
        Rpc::GetPluginInfo,
        Rpc::GetPluginCapabilities,
        Rpc::Probe,
        Rpc::ListVolumes,
        Rpc::ControllerListVolumeHealth,
        Rpc::GetCapacity,
        Rpc::ControllerGetCapabilities,
        Rpc::ListSnapshots,
        Rpc::GroupControllerGetCapabilities,
        Rpc::NodeGetCapabilities,
        Rpc::NodeGetInfo,
        Rpc::NodeGetStorageHealth,
    ];
    for (rpc, code) in codes(&Served::whole_in_1_13()).await {
        let expected = if takes_nothing.contains(&rpc) {
            Code::Ok
        } else {
            Code::InvalidArgument
        };
        assert_eq!(code, expected, "{rpc}");
    }
}

#[tokio::test]
async fn services_not_exported_are_unimplemented() {
    for (rpc, code) in codes(&Served::offering(ServiceSet::default())).await {
        let expected = match rpc {
            Rpc::GetPluginInfo | Rpc::GetPluginCapabilities | Rpc::Probe => Code::Ok,
            // Served, and rejected for missing fields: an earlier version may have staged.
            Rpc::NodeUnstageVolume | Rpc::NodeUnpublishVolume => Code::InvalidArgument,
            _ => Code::Unimplemented,
        };
        assert_eq!(code, expected, "{rpc}");
    }
}

#[tokio::test]
async fn what_the_role_excludes_is_unimplemented() {
    for role in [Role::Controller, Role::Node] {
        let offer = ServiceSet::new(Service::ALL.iter().copied(), []);
        let served = Served::configured(in_1_13(config(role)), offer, CONNECTIONS);
        for (rpc, code) in codes(&served).await {
            assert_eq!(
                code == Code::Unimplemented,
                !role.serves(rpc),
                "{rpc} as {role:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_refusal_says_which_call_and_why() {
    let served = Served::offering(ServiceSet::new([Service::Controller], []));
    let answer = served
        .controller()
        .await
        .list_volumes(wire::ListVolumesRequest::default())
        .await;
    let expected = "ListVolumes is not served: the backend does not offer it".to_owned();
    assert_eq!(refused(answer), (Code::Unimplemented, expected));
}

#[tokio::test]
async fn a_method_or_service_that_csi_does_not_have_is_unimplemented() {
    let channel = Served::whole();
    let channel = channel.channel().await;
    for path in [
        "/csi.v1.Node/NodeFly",
        "/csi.v1.Identity/",
        "/csi.v2.Node/NodeGetInfo",
        "/nonsense",
    ] {
        let status = bare_call(channel.clone(), path).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{path}");
    }
}
