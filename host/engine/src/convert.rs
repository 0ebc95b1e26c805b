//! Converts requests to the types of the contract. The conversion cannot fail, since requests were checked when they were parsed; [`crate::answer`]
//! checks the answers.
//!
//! Every structure is destructured by name: a field that is added on one side only does not compile.

use crate::bindings::exported::state_migration::StoredRecord;
use crate::bindings::exported::{
    capacity, controller, controller_expand, controller_publish, group_snapshots, node_publish,
    node_stage, snapshot_listing, snapshots,
};
use crate::bindings::types;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{
    ControllerExpand, ControllerPublish, CreateGroup, CreateSnapshot, CreateVolume, GetCapacity,
    ListSnapshots, NodePublish, NodeStage, ValidateVolume,
};
use wasmount_core::code::Code;
use wasmount_core::names::{SnapshotId, VolumeId};
use wasmount_core::state::StateEntry;
use wasmount_core::topology::{Topology, TopologyRequirement};
use wasmount_core::volume::{
    AccessMode, AccessType, CapacityRange, ContentSource, MountAccess, PageRequest,
    VolumeCapability,
};

macro_rules! codes {
    ($($name:ident),+ $(,)?) => {
        /// Converts a gRPC code to the contract's type.
        pub(crate) fn code_to_guest(code: Code) -> types::Code {
            match code { $(Code::$name => types::Code::$name),+ }
        }

        /// Converts the contract's code to a gRPC code.
        pub(crate) fn code_of_guest(code: types::Code) -> Code {
            match code { $(types::Code::$name => Code::$name),+ }
        }
    };
}

codes! {
    Cancelled, Unknown, InvalidArgument, DeadlineExceeded, NotFound, AlreadyExists, PermissionDenied, ResourceExhausted,
    FailedPrecondition, Aborted, OutOfRange, Unimplemented, Internal, Unavailable, DataLoss, Unauthenticated,
}

pub(crate) fn attributes_to_guest(attributes: &Attributes) -> types::Attributes {
    attributes
        .iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

pub(crate) fn ids_to_guest(snapshots: Vec<SnapshotId>) -> Vec<String> {
    snapshots.into_iter().map(SnapshotId::into_string).collect()
}

fn capabilities_to_guest(capabilities: Vec<VolumeCapability>) -> Vec<types::VolumeCapability> {
    capabilities.into_iter().map(Into::into).collect()
}

impl From<CreateVolume> for controller::CreateVolumeArgs {
    fn from(args: CreateVolume) -> Self {
        let CreateVolume {
            name,
            capacity,
            capabilities,
            parameters,
            mutable_parameters,
            content_source,
            accessibility,
        } = args;
        Self {
            name: name.into_string(),
            capacity: capacity.into(),
            capabilities: capabilities_to_guest(capabilities),
            parameters: attributes_to_guest(&parameters),
            mutable_parameters: attributes_to_guest(&mutable_parameters),
            content_source: content_source.map(Into::into),
            accessibility: accessibility.map(Into::into),
        }
    }
}

impl From<ValidateVolume> for controller::ValidateArgs {
    fn from(args: ValidateVolume) -> Self {
        let ValidateVolume {
            id,
            context,
            capabilities,
            parameters,
            mutable_parameters,
        } = args;
        Self {
            id: id.into_string(),
            context: attributes_to_guest(&context),
            capabilities: capabilities_to_guest(capabilities),
            parameters: attributes_to_guest(&parameters),
            mutable_parameters: attributes_to_guest(&mutable_parameters),
        }
    }
}

impl From<ControllerPublish> for controller_publish::ControllerPublishArgs {
    fn from(args: ControllerPublish) -> Self {
        let ControllerPublish {
            id,
            node,
            capability,
            readonly,
            context,
        } = args;
        Self {
            id: id.into_string(),
            node: node.into_string(),
            capability: capability.into(),
            readonly,
            context: attributes_to_guest(&context),
        }
    }
}

impl From<ControllerExpand> for controller_expand::ExpandArgs {
    fn from(args: ControllerExpand) -> Self {
        let ControllerExpand {
            id,
            capacity,
            capability,
        } = args;
        Self {
            id: id.into_string(),
            capacity: capacity.into(),
            capability: capability.map(Into::into),
        }
    }
}

impl From<GetCapacity> for capacity::CapacityArgs {
    fn from(args: GetCapacity) -> Self {
        let GetCapacity {
            capabilities,
            parameters,
            accessible_topology,
        } = args;
        Self {
            capabilities: capabilities_to_guest(capabilities),
            parameters: attributes_to_guest(&parameters),
            accessible_topology: accessible_topology.map(Into::into),
        }
    }
}

impl From<CreateSnapshot> for snapshots::CreateSnapshotArgs {
    fn from(args: CreateSnapshot) -> Self {
        let CreateSnapshot {
            source_volume,
            name,
            parameters,
            accessibility,
        } = args;
        Self {
            source_volume: source_volume.into_string(),
            name: name.into_string(),
            parameters: attributes_to_guest(&parameters),
            accessibility: accessibility.map(Into::into),
        }
    }
}

impl From<ListSnapshots> for snapshot_listing::ListSnapshotsArgs {
    fn from(args: ListSnapshots) -> Self {
        let ListSnapshots {
            source_volume,
            page,
        } = args;
        Self {
            source_volume: source_volume.map(VolumeId::into_string),
            page: page.into(),
        }
    }
}

impl From<CreateGroup> for group_snapshots::CreateGroupArgs {
    fn from(args: CreateGroup) -> Self {
        let CreateGroup {
            name,
            source_volumes,
            parameters,
        } = args;
        let sources = source_volumes.into_iter().map(VolumeId::into_string);
        Self {
            name: name.into_string(),
            source_volumes: sources.collect(),
            parameters: attributes_to_guest(&parameters),
        }
    }
}

impl From<NodeStage> for node_stage::NodeStageArgs {
    fn from(args: NodeStage) -> Self {
        let NodeStage {
            id,
            capability,
            publish_context,
            volume_context,
        } = args;
        Self {
            id: id.into_string(),
            capability: capability.into(),
            publish_context: attributes_to_guest(&publish_context),
            volume_context: attributes_to_guest(&volume_context),
        }
    }
}

impl From<NodePublish> for node_publish::NodePublishArgs {
    fn from(args: NodePublish) -> Self {
        let NodePublish {
            id,
            capability,
            readonly,
            ephemeral,
            publish_context,
            volume_context,
        } = args;
        Self {
            id: id.into_string(),
            capability: capability.into(),
            readonly,
            ephemeral,
            publish_context: attributes_to_guest(&publish_context),
            volume_context: attributes_to_guest(&volume_context),
        }
    }
}

impl From<StateEntry> for StoredRecord {
    fn from(entry: StateEntry) -> Self {
        let StateEntry {
            key,
            value,
            revision: _,
        } = entry;
        Self { key, value }
    }
}

impl From<CapacityRange> for types::CapacityRange {
    fn from(range: CapacityRange) -> Self {
        Self {
            required_bytes: range.required(),
            limit_bytes: range.limit(),
        }
    }
}

impl From<VolumeCapability> for types::VolumeCapability {
    fn from(capability: VolumeCapability) -> Self {
        let VolumeCapability {
            access_type,
            access_mode,
        } = capability;
        Self {
            access_type: match access_type {
                AccessType::Block => types::AccessType::Block,
                AccessType::Mount(mount) => types::AccessType::Mount(mount.into()),
                AccessType::Other(number) => types::AccessType::Other(number),
            },
            access_mode: match access_mode {
                AccessMode::SingleNodeWriter => types::AccessMode::SingleNodeWriter,
                AccessMode::SingleNodeReaderOnly => types::AccessMode::SingleNodeReaderOnly,
                AccessMode::MultiNodeReaderOnly => types::AccessMode::MultiNodeReaderOnly,
                AccessMode::MultiNodeSingleWriter => types::AccessMode::MultiNodeSingleWriter,
                AccessMode::MultiNodeMultiWriter => types::AccessMode::MultiNodeMultiWriter,
                AccessMode::SingleNodeSingleWriter => types::AccessMode::SingleNodeSingleWriter,
                AccessMode::SingleNodeMultiWriter => types::AccessMode::SingleNodeMultiWriter,
                AccessMode::Other(number) => types::AccessMode::Other(number),
            },
        }
    }
}

impl From<MountAccess> for types::MountAccess {
    fn from(mount: MountAccess) -> Self {
        let MountAccess {
            fs_type,
            mount_flags,
            volume_mount_group,
        } = mount;
        Self {
            fs_type,
            mount_flags,
            volume_mount_group,
        }
    }
}

impl From<ContentSource> for types::ContentSource {
    fn from(source: ContentSource) -> Self {
        match source {
            ContentSource::Snapshot(id) => Self::Snapshot(id.into_string()),
            ContentSource::Volume(id) => Self::Volume(id.into_string()),
        }
    }
}

impl From<Topology> for types::Topology {
    fn from(topology: Topology) -> Self {
        let Topology { segments } = topology;
        Self {
            segments: attributes_to_guest(&segments),
        }
    }
}

impl From<TopologyRequirement> for types::TopologyRequirement {
    fn from(requirement: TopologyRequirement) -> Self {
        let TopologyRequirement {
            requisite,
            preferred,
        } = requirement;
        Self {
            requisite: requisite.into_iter().map(Into::into).collect(),
            preferred: preferred.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<PageRequest> for types::PageRequest {
    fn from(page: PageRequest) -> Self {
        let PageRequest {
            max_entries,
            starting_token,
        } = page;
        Self {
            max_entries,
            starting_token,
        }
    }
}
