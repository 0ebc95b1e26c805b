//! Conversions between the host's types and the contract's that cannot fail: requests were checked when they were parsed, and [`crate::answer`] checks
//! what needs a check in an answer.
//!
//! Types that have the same fields or variants on both sides are lists of these: one that is added on one side only does not compile.

use crate::bindings::exported::{
    capacity, controller, controller_expand, controller_publish, group_snapshots, node_publish,
    node_stage, snapshot_listing, snapshot_metadata, snapshots, state_migration, volume_health,
};
use crate::bindings::imported::{node_plan, pool, secrets, state};
use crate::bindings::types;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{
    ControllerExpand, ControllerPublish, CreateGroup, CreateSnapshot, CreateVolume, GetCapacity,
    ListSnapshots, NodePublish, NodeStage, ValidateVolume,
};
use wasmount_core::code::Code;
use wasmount_core::health::HealthStatus;
use wasmount_core::migration::Migration;
use wasmount_core::names::{NodeId, RequestedName, SnapshotId, VolumeId};
use wasmount_core::plan::PlanFile;
use wasmount_core::plan::attached::SecretScope;
use wasmount_core::pool::{Extents, PoolEntry, PoolEntryKind, PoolUsage};
use wasmount_core::snapshot::{BlockType, Extent};
use wasmount_core::state::{Expect, Outcome, StateEntry};
use wasmount_core::topology::{Topology, TopologyRequirement};
use wasmount_core::volume::{
    AccessMode, AccessType, CapacityRange, ContentSource, MountAccess, PageRequest,
    VolumeCapability,
};

/// Converts a value to the type of the other side. It is not `From`, which cannot be implemented for lists and options of such types.
pub(crate) trait Convert<T> {
    fn convert(self) -> T;
}

impl<T: Convert<G>, G> Convert<Option<G>> for Option<T> {
    fn convert(self) -> Option<G> {
        self.map(T::convert)
    }
}

impl<T: Convert<G>, G> Convert<Vec<G>> for Vec<T> {
    fn convert(self) -> Vec<G> {
        self.into_iter().map(T::convert).collect()
    }
}

impl Convert<types::Attributes> for &Attributes {
    fn convert(self) -> types::Attributes {
        self.iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }
}

impl Convert<types::CapacityRange> for CapacityRange {
    fn convert(self) -> types::CapacityRange {
        types::CapacityRange {
            required_bytes: self.required(),
            limit_bytes: self.limit(),
        }
    }
}

/// Types that are the same on both sides.
macro_rules! unchanged {
    ($($type:ty),+) => {$(
        impl Convert<$type> for $type {
            fn convert(self) -> $type {
                self
            }
        }
    )+};
}

unchanged!(bool, u32, u64, String, Vec<u8>);

macro_rules! identifiers {
    ($($type:ty),+) => {$(
        impl Convert<String> for $type {
            fn convert(self) -> String {
                self.into_string()
            }
        }
    )+};
}

identifiers!(NodeId, RequestedName, SnapshotId, VolumeId);

/// The fields after `without` are the host's own matter.
macro_rules! structures {
    ($($from:path => $to:path { $($field:ident),+ $(,)? $(; without $($own:ident),+)? })+) => {$(
        impl Convert<$to> for $from {
            fn convert(self) -> $to {
                let $from { $($field),+ $(, $($own: _),+)? } = self;
                $to { $($field: $field.convert()),+ }
            }
        }
    )+};
}

structures! {
    CreateVolume => controller::CreateVolumeArgs {
        name, capacity, capabilities, parameters, mutable_parameters, content_source, accessibility,
    }
    ValidateVolume => controller::ValidateArgs {
        id, context, capabilities, parameters, mutable_parameters,
    }
    ControllerPublish => controller_publish::ControllerPublishArgs {
        id, node, capability, readonly, context,
    }
    ControllerExpand => controller_expand::ExpandArgs { id, capacity, capability }
    GetCapacity => capacity::CapacityArgs { capabilities, parameters, accessible_topology }
    CreateSnapshot => snapshots::CreateSnapshotArgs { source_volume, name, parameters, accessibility }
    ListSnapshots => snapshot_listing::ListSnapshotsArgs { source_volume, page }
    CreateGroup => group_snapshots::CreateGroupArgs { name, source_volumes, parameters }
    NodeStage => node_stage::NodeStageArgs { id, capability, publish_context, volume_context }
    NodePublish => node_publish::NodePublishArgs {
        id, capability, readonly, ephemeral, publish_context, volume_context,
    }
    VolumeCapability => types::VolumeCapability { access_type, access_mode }
    MountAccess => types::MountAccess { fs_type, mount_flags, volume_mount_group }
    Topology => types::Topology { segments }
    TopologyRequirement => types::TopologyRequirement { requisite, preferred }
    PageRequest => types::PageRequest { max_entries, starting_token }
    StateEntry => state::Entry { key, value, revision }
    StateEntry => state_migration::StoredRecord { key, value; without revision }
    PoolUsage => pool::Usage { total_bytes, available_bytes; without promised_bytes, used_bytes }
    PoolEntry => pool::Entry { path, kind, size_bytes, allocated_bytes }
    Extents => pool::Extents { ranges, next_offset }
    Extent => types::Extent { offset_bytes, size_bytes }
    types::Extent => Extent { offset_bytes, size_bytes }
    node_plan::File => PlanFile { path, mode, content }
}

/// A variant in parentheses has a value.
macro_rules! enumerations {
    ($($from:path => $to:path { $($name:ident $(($value:ident))?),+ $(,)? })+) => {$(
        impl Convert<$to> for $from {
            fn convert(self) -> $to {
                type From = $from;
                type To = $to;
                match self { $(From::$name $(($value))? => To::$name $(($value.convert()))?),+ }
            }
        }
    )+};
}

enumerations! {
    AccessType => types::AccessType { Block, Mount(mount), Other(number) }
    AccessMode => types::AccessMode {
        SingleNodeWriter, SingleNodeReaderOnly, MultiNodeReaderOnly, MultiNodeSingleWriter,
        MultiNodeMultiWriter, SingleNodeSingleWriter, SingleNodeMultiWriter, Other(number),
    }
    ContentSource => types::ContentSource { Snapshot(id), Volume(id) }
    PoolEntryKind => pool::Kind { Directory, Image, Other(kind) }
    secrets::Scope => SecretScope { Request, Backend }
    state::Expect => Expect { Any, Absent, Revision(revision) }
    Outcome => state::Outcome { Done(revision), Conflict(entry) }
    state_migration::Migration => Migration { Unneeded, Additive, Rewriting }
    snapshot_metadata::BlockType => BlockType { FixedLength, VariableLength, Other(number) }
    volume_health::HealthStatus => HealthStatus { Degraded, Inaccessible, DataLoss, Other(number) }
    Code => types::Code {
        Cancelled, Unknown, InvalidArgument, DeadlineExceeded, NotFound, AlreadyExists, PermissionDenied, ResourceExhausted,
        FailedPrecondition, Aborted, OutOfRange, Unimplemented, Internal, Unavailable, DataLoss, Unauthenticated,
    }
    types::Code => Code {
        Cancelled, Unknown, InvalidArgument, DeadlineExceeded, NotFound, AlreadyExists, PermissionDenied, ResourceExhausted,
        FailedPrecondition, Aborted, OutOfRange, Unimplemented, Internal, Unavailable, DataLoss, Unauthenticated,
    }
}
