//! What a driver advertises, derived from what its backend offers.
//!
//! The host serves exactly what it advertises: `served` reads the derived lists, so the two cannot differ. This module knows neither the wire numbers
//! (`csi`) nor how an export was found (`engine`).

mod features;
mod hidden;
mod profile;
mod served;

pub use features::{FeatureWithoutExport, check_features};
#[cfg(feature = "schema")]
pub(crate) use hidden::names as hidden_names;
pub use hidden::{Hidden, UnknownCapability};
pub use profile::Profile;
pub(crate) use served::{advertised_as, needs_no_plugin, serves};

use crate::rpc::Rpc;
use crate::services::{Feature, Service, ServiceSet};

named! {
    /// CSI `PluginCapability`: services, and the two kinds of `VolumeExpansion`.
    #[allow(missing_docs, reason = "the names are CSI's, described there")]
    pub enum PluginCapability, name {
        ControllerService = "CONTROLLER_SERVICE",
        VolumeAccessibilityConstraints = "VOLUME_ACCESSIBILITY_CONSTRAINTS",
        GroupControllerService = "GROUP_CONTROLLER_SERVICE",
        SnapshotMetadataService = "SNAPSHOT_METADATA_SERVICE",
        SnapshotAccessibilityConstraints = "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS",
        VolumeExpansionOnline = "ONLINE",
        VolumeExpansionOffline = "OFFLINE",
    }
}

named! {
    /// CSI `ControllerServiceCapability`.
    #[allow(missing_docs, reason = "the names are CSI's, described there")]
    pub enum ControllerCapability, name {
        CreateDeleteVolume = "CREATE_DELETE_VOLUME",
        PublishUnpublishVolume = "PUBLISH_UNPUBLISH_VOLUME",
        ListVolumes = "LIST_VOLUMES",
        GetCapacity = "GET_CAPACITY",
        CreateDeleteSnapshot = "CREATE_DELETE_SNAPSHOT",
        ListSnapshots = "LIST_SNAPSHOTS",
        CloneVolume = "CLONE_VOLUME",
        PublishReadonly = "PUBLISH_READONLY",
        ExpandVolume = "EXPAND_VOLUME",
        ListVolumesPublishedNodes = "LIST_VOLUMES_PUBLISHED_NODES",
        VolumeCondition = "VOLUME_CONDITION",
        GetVolume = "GET_VOLUME",
        SingleNodeMultiWriter = "SINGLE_NODE_MULTI_WRITER",
        ModifyVolume = "MODIFY_VOLUME",
        GetSnapshot = "GET_SNAPSHOT",
        GetVolumeHealth = "GET_VOLUME_HEALTH",
        ListVolumeHealth = "LIST_VOLUME_HEALTH",
    }
}

named! {
    /// CSI `GroupControllerServiceCapability`.
    #[allow(missing_docs, reason = "the names are CSI's, described there")]
    pub enum GroupCapability, name {
        CreateDeleteGetVolumeGroupSnapshot = "CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",
    }
}

named! {
    /// CSI `NodeServiceCapability`.
    #[allow(missing_docs, reason = "the names are CSI's, described there")]
    pub enum NodeCapability, name {
        StageUnstageVolume = "STAGE_UNSTAGE_VOLUME",
        GetVolumeStats = "GET_VOLUME_STATS",
        ExpandVolume = "EXPAND_VOLUME",
        VolumeCondition = "VOLUME_CONDITION",
        SingleNodeMultiWriter = "SINGLE_NODE_MULTI_WRITER",
        VolumeMountGroup = "VOLUME_MOUNT_GROUP",
        GetVolumeHealth = "GET_VOLUME_HEALTH",
        GetStorageHealth = "GET_STORAGE_HEALTH",
    }
}

named! {
    /// Which services this process serves, as on the command line.
    pub enum Role, as_str {
        /// Controller and node.
        All = "all",
        /// The controller services alone.
        Controller = "controller",
        /// The node service alone.
        Node = "node",
    }
}

impl Role {
    /// Whether a call is served in this role. Identity calls always are, and so is NodeGetCapabilities: external-resizer calls it on the controller's
    /// socket, to learn whether a driver without controller expansion expands on the node (`NewResizerFromClient`).
    pub fn serves(self, rpc: Rpc) -> bool {
        rpc == Rpc::NodeGetCapabilities || self.includes(rpc.service())
    }

    /// Whether a service, by CSI's name, is served in this role.
    pub(crate) fn includes(self, service: &str) -> bool {
        match (self, service) {
            (Role::All, _) | (_, "Identity") => true,
            (Role::Controller, service) => service != "Node",
            (Role::Node, service) => service == "Node",
        }
    }
}

/// What a driver advertises, each list in the order of the specification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// GetPluginCapabilities.
    pub plugin: Vec<PluginCapability>,
    /// ControllerGetCapabilities.
    pub controller: Vec<ControllerCapability>,
    /// GroupControllerGetCapabilities.
    pub group: Vec<GroupCapability>,
    /// NodeGetCapabilities.
    pub node: Vec<NodeCapability>,
}

impl Capabilities {
    /// Derives the lists from what a backend offers, for one version of CSI.
    ///
    /// The plugin's list does not depend on the role: it describes the plugin, which has both services wherever one of them runs. The node processes
    /// of real drivers answer this way, and csi-sanity reads it from the node's socket to decide whether to run its life-cycle specs against a
    /// separate controller endpoint. The node's list does not depend on the role either, see [`Role::serves`].
    pub fn derive(offer: &ServiceSet, role: Role, profile: Profile, hidden: &Hidden) -> Self {
        let plugin = PluginCapability::ALL
            .iter()
            .copied()
            .filter(|each| !hidden.hides(each.name()) && plugin_has(offer, profile, hidden, *each));
        let plugin: Vec<_> = plugin.collect();
        let here = |service| role.includes("Controller") && plugin.contains(&service);
        let controller = ControllerCapability::ALL.iter().copied().filter(|each| {
            here(PluginCapability::ControllerService)
                && !hidden.hides(each.name())
                && controller_has(offer, profile, hidden, *each)
        });
        let group = GroupCapability::ALL.iter().copied().filter(|each| {
            here(PluginCapability::GroupControllerService) && !hidden.hides(each.name())
        });
        let node = NodeCapability::ALL.iter().copied().filter(|each| {
            offer.has_node_service()
                && !hidden.hides(each.name())
                && node_has(offer, profile, *each)
        });
        Self {
            controller: controller.collect(),
            group: group.collect(),
            node: node.collect(),
            plugin,
        }
    }

    /// The names of each list, by the part of the driver that answers it.
    pub fn names(&self) -> [(&'static str, Vec<&'static str>); 4] {
        let plugin = self.plugin.iter().map(|it| it.name());
        let controller = self.controller.iter().map(|it| it.name());
        let group = self.group.iter().map(|it| it.name());
        let node = self.node.iter().map(|it| it.name());
        [
            ("plugin", plugin.collect()),
            ("controller", controller.collect()),
            ("groupController", group.collect()),
            ("node", node.collect()),
        ]
    }

    /// Whether another list contains all of these.
    pub fn is_within(&self, other: &Self) -> bool {
        let mut lists = self.names().into_iter().zip(other.names());
        lists.all(|((_, these), (_, others))| these.iter().all(|it| others.contains(it)))
    }

    /// The lists before a plugin was ever loaded: what kubelet needs to tear volumes down.
    pub fn without_plugin(role: Role, hidden: &Hidden) -> Self {
        let tears_down = [
            NodeCapability::StageUnstageVolume,
            NodeCapability::GetVolumeStats,
        ];
        Self {
            node: tears_down
                .into_iter()
                .filter(|capability| role.includes("Node") && !hidden.hides(capability.name()))
                .collect(),
            ..Self::default()
        }
    }
}

fn plugin_has(
    offer: &ServiceSet,
    profile: Profile,
    hidden: &Hidden,
    capability: PluginCapability,
) -> bool {
    let grows = !hidden.hides(ControllerCapability::ExpandVolume.name())
        && (offer.has(Service::ControllerExpand) || offer.claims(Feature::NodeOnlyExpansion));
    match capability {
        PluginCapability::ControllerService => offer.has(Service::Controller),
        PluginCapability::VolumeAccessibilityConstraints => offer.claims(Feature::Topology),
        PluginCapability::GroupControllerService => offer.has(Service::GroupSnapshots),
        PluginCapability::SnapshotMetadataService => offer.has(Service::SnapshotMetadata),
        PluginCapability::SnapshotAccessibilityConstraints => {
            profile.has_snapshot_places() && offer.claims(Feature::SnapshotTopology)
        }
        PluginCapability::VolumeExpansionOnline => {
            grows && !offer.claims(Feature::OfflineExpansion)
        }
        PluginCapability::VolumeExpansionOffline => {
            grows && offer.claims(Feature::OfflineExpansion)
        }
    }
}

fn controller_has(
    offer: &ServiceSet,
    profile: Profile,
    hidden: &Hidden,
    capability: ControllerCapability,
) -> bool {
    use ControllerCapability as C;
    let shows = |capability: C, service| offer.has(service) && !hidden.hides(capability.name());
    let publishes = shows(C::PublishUnpublishVolume, Service::ControllerPublish);
    let lists = shows(C::ListVolumes, Service::VolumeListing);
    let has_lookup = shows(C::GetVolume, Service::VolumeLookup);
    let reports_health = profile.has_health() && shows(C::GetVolumeHealth, Service::VolumeHealth);
    match capability {
        C::CreateDeleteVolume => offer.has(Service::Controller),
        C::PublishUnpublishVolume => publishes,
        C::ListVolumes => lists,
        C::GetCapacity => offer.has(Service::Capacity),
        C::CreateDeleteSnapshot | C::GetSnapshot => offer.has(Service::Snapshots),
        C::ListSnapshots => offer.has(Service::Snapshots) && offer.has(Service::SnapshotListing),
        C::CloneVolume => offer.claims(Feature::CloneVolume),
        C::PublishReadonly => publishes && offer.claims(Feature::PublishReadonly),
        C::ExpandVolume => offer.has(Service::ControllerExpand),
        C::ListVolumesPublishedNodes => publishes && lists && offer.claims(Feature::PublishedNodes),
        C::VolumeCondition => {
            profile.has_conditions() && offer.has(Service::VolumeHealth) && (lists || has_lookup)
        }
        C::GetVolume => has_lookup,
        C::SingleNodeMultiWriter => offer.claims(Feature::SingleNodeMultiWriter),
        C::ModifyVolume => offer.has(Service::ControllerModify),
        C::GetVolumeHealth => reports_health,
        // Derived from the backend's list of volumes, whether or not clients may read that list. "MUST also support the GET_VOLUME_HEALTH
        // capability".
        C::ListVolumeHealth => reports_health && offer.has(Service::VolumeListing),
    }
}

fn node_has(offer: &ServiceSet, profile: Profile, capability: NodeCapability) -> bool {
    match capability {
        NodeCapability::StageUnstageVolume => offer.has(Service::NodeStage),
        // Statistics come from the kernel.
        NodeCapability::GetVolumeStats => true,
        NodeCapability::ExpandVolume => {
            offer.has(Service::ControllerExpand) || offer.claims(Feature::NodeOnlyExpansion)
        }
        // The host inspects its own mounts, devices and pools, so it can report conditions for every backend.
        NodeCapability::VolumeCondition => profile.has_conditions(),
        NodeCapability::GetVolumeHealth | NodeCapability::GetStorageHealth => profile.has_health(),
        NodeCapability::SingleNodeMultiWriter => offer.claims(Feature::SingleNodeMultiWriter),
        NodeCapability::VolumeMountGroup => offer.claims(Feature::VolumeMountGroup),
    }
}

#[cfg(test)]
mod tests;
