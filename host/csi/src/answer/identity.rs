//! Answers of the Identity service.

use crate::wire::csi::v1 as wire;
use wasmount_core::capabilities::PluginCapability;
use wasmount_core::driver::PluginInfo;
use wire::plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion};

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
    wire::GetPluginCapabilitiesResponse {
        capabilities: capabilities.into_iter().map(plugin_capability).collect(),
    }
}

fn plugin_capability(capability: PluginCapability) -> wire::PluginCapability {
    let service = |r#type: service::Type| {
        Type::Service(Service {
            r#type: r#type.into(),
        })
    };
    let expansion = |r#type: volume_expansion::Type| {
        Type::VolumeExpansion(VolumeExpansion {
            r#type: r#type.into(),
        })
    };
    wire::PluginCapability {
        r#type: Some(match capability {
            PluginCapability::ControllerService => service(service::Type::ControllerService),
            PluginCapability::VolumeAccessibilityConstraints => {
                service(service::Type::VolumeAccessibilityConstraints)
            }
            PluginCapability::GroupControllerService => {
                service(service::Type::GroupControllerService)
            }
            PluginCapability::SnapshotMetadataService => {
                service(service::Type::SnapshotMetadataService)
            }
            PluginCapability::SnapshotAccessibilityConstraints => {
                service(service::Type::SnapshotAccessibilityConstraints)
            }
            PluginCapability::VolumeExpansionOnline => expansion(volume_expansion::Type::Online),
            PluginCapability::VolumeExpansionOffline => expansion(volume_expansion::Type::Offline),
        }),
    }
}
