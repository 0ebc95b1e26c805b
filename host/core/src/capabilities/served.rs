//! The capability that each RPC requires.

use super::{
    Capabilities, ControllerCapability, GroupCapability, NodeCapability, PluginCapability,
};
use crate::rpc::Rpc;
use crate::services::{Service, ServiceSet};

/// What must be advertised for a call to be served.
enum Needs {
    /// Nothing.
    Nothing,
    /// One of the services of the plugin.
    Plugin(PluginCapability),
    /// A capability of the controller.
    Controller(ControllerCapability),
    /// A capability of the group controller.
    Group(GroupCapability),
    /// A node service.
    Node,
    /// A node service that stages or publishes.
    Publishing,
    /// A capability of the node.
    NodeAbility(NodeCapability),
    /// The interface `node-register`.
    Registering,
}

fn needs(rpc: Rpc) -> Needs {
    use ControllerCapability as C;
    use NodeCapability as N;
    match rpc {
        Rpc::GetPluginInfo | Rpc::GetPluginCapabilities | Rpc::Probe => Needs::Nothing,
        Rpc::ControllerGetCapabilities | Rpc::ValidateVolumeCapabilities => {
            Needs::Plugin(PluginCapability::ControllerService)
        }
        Rpc::CreateVolume | Rpc::DeleteVolume => Needs::Controller(C::CreateDeleteVolume),
        Rpc::ControllerPublishVolume | Rpc::ControllerUnpublishVolume => {
            Needs::Controller(C::PublishUnpublishVolume)
        }
        Rpc::ListVolumes => Needs::Controller(C::ListVolumes),
        Rpc::ControllerListVolumeHealth => Needs::Controller(C::ListVolumeHealth),
        Rpc::ControllerGetVolumeHealth => Needs::Controller(C::GetVolumeHealth),
        Rpc::GetCapacity => Needs::Controller(C::GetCapacity),
        Rpc::CreateSnapshot | Rpc::DeleteSnapshot => Needs::Controller(C::CreateDeleteSnapshot),
        Rpc::ListSnapshots => Needs::Controller(C::ListSnapshots),
        Rpc::GetSnapshot => Needs::Controller(C::GetSnapshot),
        Rpc::ControllerExpandVolume => Needs::Controller(C::ExpandVolume),
        Rpc::ControllerGetVolume => Needs::Controller(C::GetVolume),
        Rpc::ControllerModifyVolume => Needs::Controller(C::ModifyVolume),
        Rpc::GroupControllerGetCapabilities => {
            Needs::Plugin(PluginCapability::GroupControllerService)
        }
        Rpc::CreateVolumeGroupSnapshot
        | Rpc::DeleteVolumeGroupSnapshot
        | Rpc::GetVolumeGroupSnapshot => {
            Needs::Group(GroupCapability::CreateDeleteGetVolumeGroupSnapshot)
        }
        Rpc::GetMetadataAllocated | Rpc::GetMetadataDelta => {
            Needs::Plugin(PluginCapability::SnapshotMetadataService)
        }
        // Teardown is never rejected: an earlier version of the plugin may have staged the volume.
        Rpc::NodeUnstageVolume | Rpc::NodeUnpublishVolume => Needs::Nothing,
        Rpc::NodeGetCapabilities | Rpc::NodeGetInfo => Needs::Node,
        Rpc::NodePublishVolume => Needs::Publishing,
        Rpc::NodeStageVolume => Needs::NodeAbility(N::StageUnstageVolume),
        Rpc::NodeGetVolumeStats => Needs::NodeAbility(N::GetVolumeStats),
        Rpc::NodeExpandVolume => Needs::NodeAbility(N::ExpandVolume),
        Rpc::NodeGetVolumeHealth => Needs::NodeAbility(N::GetVolumeHealth),
        Rpc::NodeGetStorageHealth => Needs::NodeAbility(N::GetStorageHealth),
        Rpc::RegisterNode | Rpc::UnregisterNode => Needs::Registering,
    }
}

/// Whether a backend with these services and advertised capabilities serves a call. The role is not considered.
pub(crate) fn serves(offer: &ServiceSet, capabilities: &Capabilities, rpc: Rpc) -> bool {
    match needs(rpc) {
        Needs::Nothing => true,
        Needs::Plugin(capability) => capabilities.plugin.contains(&capability),
        Needs::Controller(capability) => capabilities.controller.contains(&capability),
        Needs::Group(capability) => capabilities.group.contains(&capability),
        Needs::Node => offer.has_node_service(),
        Needs::Publishing => offer.has(Service::NodeStage) || offer.has(Service::NodePublish),
        Needs::NodeAbility(capability) => capabilities.node.contains(&capability),
        Needs::Registering => offer.has(Service::NodeRegister),
    }
}

/// The capabilities whose hiding hides a call, by CSI's names: its own, and for the health list also that of a single volume, from which the list is
/// built.
pub(crate) fn advertised_as(rpc: Rpc) -> impl Iterator<Item = &'static str> {
    let own = match needs(rpc) {
        Needs::Nothing | Needs::Node | Needs::Publishing | Needs::Registering => None,
        Needs::Plugin(capability) => Some(capability.name()),
        Needs::Controller(capability) => Some(capability.name()),
        Needs::Group(capability) => Some(capability.name()),
        Needs::NodeAbility(capability) => Some(capability.name()),
    };
    let made_of = (rpc == Rpc::ControllerListVolumeHealth)
        .then_some(ControllerCapability::GetVolumeHealth.name());
    own.into_iter().chain(made_of)
}

/// Calls that the kernel and the journal can answer: those of the node, and two about the driver. Stage and publish are included: for a volume that is
/// already staged, a repeated stage and a publish need no plan.
pub(crate) fn needs_no_plugin(rpc: Rpc) -> bool {
    rpc.service() == "Node" || matches!(rpc, Rpc::GetPluginInfo | Rpc::Probe)
}

#[cfg(test)]
mod tests;
