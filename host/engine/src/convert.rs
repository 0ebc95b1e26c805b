//! The host's words as the guest's: requests on their way in. Nothing can fail here, since requests were checked where they arrived. The way
//! back is [`crate::answer`], where everything can.
//!
//! Every structure is taken apart by name: a field that is added on one side only does not compile.

use crate::bindings::types;
use wasmount_core::attributes::Attributes;
use wasmount_core::code::Code;
use wasmount_core::topology::{Topology, TopologyRequirement};
use wasmount_core::volume::{
    AccessMode, AccessType, CapacityRange, ContentSource, MountAccess, PageRequest,
    VolumeCapability,
};

macro_rules! codes {
    ($($name:ident),+ $(,)?) => {
        /// A gRPC code as the guest knows it.
        pub(crate) fn code_to_guest(code: Code) -> types::Code {
            match code { $(Code::$name => types::Code::$name),+ }
        }

        /// A guest's code as the host knows it.
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

pub(crate) fn capacity_range_to_guest(range: &CapacityRange) -> types::CapacityRange {
    types::CapacityRange {
        required_bytes: range.required(),
        limit_bytes: range.limit(),
    }
}

pub(crate) fn capability_to_guest(capability: VolumeCapability) -> types::VolumeCapability {
    let VolumeCapability {
        access_type,
        access_mode,
    } = capability;
    types::VolumeCapability {
        access_type: match access_type {
            AccessType::Block => types::AccessType::Block,
            AccessType::Mount(mount) => types::AccessType::Mount(mount_to_guest(mount)),
            AccessType::Other(number) => types::AccessType::Other(number),
        },
        access_mode: access_mode_to_guest(access_mode),
    }
}

pub(crate) fn capabilities_to_guest(
    capabilities: Vec<VolumeCapability>,
) -> Vec<types::VolumeCapability> {
    capabilities.into_iter().map(capability_to_guest).collect()
}

pub(crate) fn content_source_to_guest(source: &ContentSource) -> types::ContentSource {
    match source {
        ContentSource::Snapshot(id) => types::ContentSource::Snapshot(id.to_string()),
        ContentSource::Volume(id) => types::ContentSource::Volume(id.to_string()),
    }
}

pub(crate) fn topology_to_guest(topology: &Topology) -> types::Topology {
    let Topology { segments } = topology;
    types::Topology {
        segments: attributes_to_guest(segments),
    }
}

pub(crate) fn requirement_to_guest(
    requirement: &TopologyRequirement,
) -> types::TopologyRequirement {
    let TopologyRequirement {
        requisite,
        preferred,
    } = requirement;
    types::TopologyRequirement {
        requisite: requisite.iter().map(topology_to_guest).collect(),
        preferred: preferred.iter().map(topology_to_guest).collect(),
    }
}

pub(crate) fn page_to_guest(page: &PageRequest) -> types::PageRequest {
    let PageRequest {
        max_entries,
        starting_token,
    } = page;
    types::PageRequest {
        max_entries: *max_entries,
        starting_token: starting_token.clone(),
    }
}

fn mount_to_guest(mount: MountAccess) -> types::MountAccess {
    let MountAccess {
        fs_type,
        mount_flags,
        volume_mount_group,
    } = mount;
    types::MountAccess {
        fs_type,
        mount_flags,
        volume_mount_group,
    }
}

fn access_mode_to_guest(mode: AccessMode) -> types::AccessMode {
    match mode {
        AccessMode::SingleNodeWriter => types::AccessMode::SingleNodeWriter,
        AccessMode::SingleNodeReaderOnly => types::AccessMode::SingleNodeReaderOnly,
        AccessMode::MultiNodeReaderOnly => types::AccessMode::MultiNodeReaderOnly,
        AccessMode::MultiNodeSingleWriter => types::AccessMode::MultiNodeSingleWriter,
        AccessMode::MultiNodeMultiWriter => types::AccessMode::MultiNodeMultiWriter,
        AccessMode::SingleNodeSingleWriter => types::AccessMode::SingleNodeSingleWriter,
        AccessMode::SingleNodeMultiWriter => types::AccessMode::SingleNodeMultiWriter,
        AccessMode::Other(number) => types::AccessMode::Other(number),
    }
}
