//! Identity and capabilities of a driver, as wire messages. Capabilities have the same names on the wire, so the generated enums are looked up by
//! name; a test covers all of them.

use crate::wire::csi::v1 as wire;
use wasmount_core::capabilities::{
    ControllerCapability, GroupCapability, NodeCapability, PluginCapability,
};
use wasmount_core::driver::PluginInfo;

pub(crate) fn plugin_info(info: PluginInfo) -> wire::GetPluginInfoResponse {
    let PluginInfo {
        name,
        vendor_version,
        manifest,
    } = info;
    wire::GetPluginInfoResponse {
        name: name.into(),
        vendor_version,
        manifest: manifest.into_map(),
    }
}

pub(crate) fn plugin_capabilities(
    capabilities: Vec<PluginCapability>,
) -> wire::GetPluginCapabilitiesResponse {
    use wire::plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion};
    let capability = |each: PluginCapability| {
        let expansion = |named: volume_expansion::Type| {
            Type::VolumeExpansion(VolumeExpansion {
                r#type: named.into(),
            })
        };
        let service = |named: service::Type| {
            Type::Service(Service {
                r#type: named.into(),
            })
        };
        let named = volume_expansion::Type::from_str_name(each.name()).map(expansion);
        wire::PluginCapability {
            r#type: named.or_else(|| service::Type::from_str_name(each.name()).map(service)),
        }
    };
    wire::GetPluginCapabilitiesResponse {
        capabilities: capabilities.into_iter().map(capability).collect(),
    }
}

/// The capability list of one service. The messages of the services differ only by name.
macro_rules! list {
    ($list:ident: $capability:ty, $module:ident, $message:ident, $response:ident) => {
        pub(crate) fn $list(capabilities: Vec<$capability>) -> wire::$response {
            use wire::$module::{Rpc, Type, rpc};
            let capability = |each: $capability| wire::$message {
                r#type: rpc::Type::from_str_name(each.name()).map(|named| {
                    Type::Rpc(Rpc {
                        r#type: named.into(),
                    })
                }),
            };
            wire::$response {
                capabilities: capabilities.into_iter().map(capability).collect(),
            }
        }
    };
}

list!(
    controller_capabilities: ControllerCapability,
    controller_service_capability,
    ControllerServiceCapability,
    ControllerGetCapabilitiesResponse
);
list!(
    group_capabilities: GroupCapability,
    group_controller_service_capability,
    GroupControllerServiceCapability,
    GroupControllerGetCapabilitiesResponse
);
list!(
    node_capabilities: NodeCapability,
    node_service_capability,
    NodeServiceCapability,
    NodeGetCapabilitiesResponse
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_capability_of_the_core_is_one_of_the_wire() {
        let plugin = plugin_capabilities(PluginCapability::ALL.to_vec()).capabilities;
        assert!(plugin.iter().all(|each| each.r#type.is_some()));
        let controller = controller_capabilities(ControllerCapability::ALL.to_vec()).capabilities;
        assert!(controller.iter().all(|each| each.r#type.is_some()));
        let group = group_capabilities(GroupCapability::ALL.to_vec()).capabilities;
        assert!(group.iter().all(|each| each.r#type.is_some()));
        let node = node_capabilities(NodeCapability::ALL.to_vec()).capabilities;
        assert!(node.iter().all(|each| each.r#type.is_some()));
    }
}
