//! The services (one exported interface each) and features (traits that no export can show) that a backend offers.

use std::collections::BTreeSet;

named! {
    /// An optional interface of the contract, `wasmount:csi/<interface>`.
    pub enum Service, interface {
        /// Create, delete, validate.
        Controller = "controller",
        /// Attach and detach.
        ControllerPublish = "controller-publish",
        /// Expansion on the controller.
        ControllerExpand = "controller-expand",
        /// VolumeAttributesClass.
        ControllerModify = "controller-modify",
        /// ListVolumes.
        VolumeListing = "volume-listing",
        /// ControllerGetVolume.
        VolumeLookup = "volume-lookup",
        /// GetCapacity.
        Capacity = "capacity",
        /// Create, delete and get snapshots.
        Snapshots = "snapshots",
        /// ListSnapshots.
        SnapshotListing = "snapshot-listing",
        /// The group controller.
        GroupSnapshots = "group-snapshots",
        /// The snapshot metadata service.
        SnapshotMetadata = "snapshot-metadata",
        /// Volume conditions.
        VolumeHealth = "volume-health",
        /// Node id, limits and topology from the backend.
        NodeInfo = "node-info",
        /// NodeStageVolume.
        NodeStage = "node-stage",
        /// NodePublishVolume with a plan of its own.
        NodePublish = "node-publish",
        /// A call before each unstage.
        NodeHooks = "node-hooks",
        /// Nodes as hosts of the storage system.
        NodeRegister = "node-register",
    }
}

named! {
    /// A trait that no export can show, from `plugin-info.features`.
    pub enum Feature, name {
        /// CreateVolume takes another volume as its source.
        CloneVolume = "clone-volume",
        /// ControllerPublishVolume honours `readonly`.
        PublishReadonly = "publish-readonly",
        /// Listings contain the nodes where a volume is published.
        PublishedNodes = "published-nodes",
        /// Knows SINGLE_NODE_SINGLE_WRITER and SINGLE_NODE_MULTI_WRITER.
        SingleNodeMultiWriter = "single-node-multi-writer",
        /// Honours `volume_mount_group`.
        VolumeMountGroup = "volume-mount-group",
        /// Volumes are not reachable from everywhere.
        Topology = "topology",
        /// Snapshots are not usable from everywhere (CSI 1.13).
        SnapshotTopology = "snapshot-topology",
        /// A volume must not be published while it is expanded.
        OfflineExpansion = "offline-expansion",
        /// Volumes are expanded on the node only.
        NodeOnlyExpansion = "node-only-expansion",
    }
}

/// The services and features of one version of a backend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceSet {
    services: BTreeSet<Service>,
    features: BTreeSet<Feature>,
}

impl ServiceSet {
    /// From the results of admission.
    pub fn new(
        services: impl IntoIterator<Item = Service>,
        features: impl IntoIterator<Item = Feature>,
    ) -> Self {
        Self {
            services: services.into_iter().collect(),
            features: features.into_iter().collect(),
        }
    }

    /// Whether an interface is exported.
    pub fn has(&self, service: Service) -> bool {
        self.services.contains(&service)
    }

    /// Whether a feature is claimed.
    pub fn claims(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Exported interfaces, in the order of the contract.
    pub fn services(&self) -> impl Iterator<Item = Service> {
        self.services.iter().copied()
    }

    /// Claimed features.
    pub fn features(&self) -> impl Iterator<Item = Feature> {
        self.features.iter().copied()
    }

    /// Any of `node-info`, `node-stage` and `node-publish` makes a node service.
    pub fn has_node_service(&self) -> bool {
        [Service::NodeInfo, Service::NodeStage, Service::NodePublish]
            .into_iter()
            .any(|service| self.has(service))
    }
}
