//! Fields that several requests share: capabilities, capacities, topologies, pages, maps. This module knows no request.

use crate::error::Error;
use crate::page_token::PageTokens;
use crate::wire::csi::v1 as wire;
use std::collections::BTreeMap;
use wasmount_core::attributes::{Attributes, MAP_BYTES, is_added_by_kubernetes};
use wasmount_core::names::{InvalidField, SnapshotId, VolumeId};
use wasmount_core::topology::{Topology, TopologyRequirement};
use wasmount_core::volume::{
    AccessMode, AccessType, CapacityRange, ContentSource, MountAccess, PageRequest,
    UncheckedMountAccess, VolumeCapability,
};
use wire::volume_capability::access_mode::Mode;
use wire::volume_capability::{AccessType as WireAccessType, BlockVolume, MountVolume};
use wire::volume_content_source::{SnapshotSource, Type as WireSource, VolumeSource};

type Checked<T> = Result<T, InvalidField>;

/// The field is required.
pub(super) fn required<T>(what: &'static str, field: Option<T>) -> Checked<T> {
    field.ok_or(InvalidField::empty(what))
}

/// Absent when empty, as proto3 has it.
pub(super) fn optional<T>(
    text: String,
    parse: impl FnOnce(String) -> Checked<T>,
) -> Checked<Option<T>> {
    if text.is_empty() {
        Ok(None)
    } else {
        parse(text).map(Some)
    }
}

/// At most 4 KiB (CSI specification, "Size Limits"). Keys that kubelet and the sidecars add are counted separately: a volume whose context a plugin
/// has filled to the limit must still be usable.
pub(super) fn attributes(
    what: &'static str,
    mut map: BTreeMap<String, String>,
) -> Checked<Attributes> {
    let added = map.extract_if(.., |key, _| is_added_by_kubernetes(key));
    let added: BTreeMap<_, _> = added.collect();
    let bounded = |map| Attributes::from(map).within(what, MAP_BYTES);
    let mut whole = bounded(map)?.into_map();
    whole.extend(bounded(added)?.into_map());
    Ok(whole.into())
}

/// A list of at least one capability.
pub(super) fn capabilities(
    capabilities: Vec<wire::VolumeCapability>,
) -> Checked<Vec<VolumeCapability>> {
    let what = "volume_capabilities";
    if capabilities.is_empty() {
        return Err(InvalidField::empty(what));
    }
    any_capabilities(capabilities)
}

/// A list that may be empty: GetCapacity may be called without capabilities.
pub(super) fn any_capabilities(
    capabilities: Vec<wire::VolumeCapability>,
) -> Checked<Vec<VolumeCapability>> {
    capabilities
        .into_iter()
        .map(|each| capability("volume_capabilities", each))
        .collect()
}

pub(super) fn capability(
    what: &'static str,
    capability: wire::VolumeCapability,
) -> Checked<VolumeCapability> {
    let wire::VolumeCapability {
        access_mode,
        access_type,
    } = capability;
    let access_type = match access_type {
        // An unset type may also be one of a later CSI: protobuf drops unknown fields.
        None => {
            return Err(InvalidField::rule(what, "has no access_type"));
        }
        Some(WireAccessType::Block(BlockVolume {})) => AccessType::Block,
        Some(WireAccessType::Mount(mount)) => AccessType::Mount(mount_access(mount)?),
    };
    let Some(wire::volume_capability::AccessMode { mode }) = access_mode else {
        return Err(InvalidField::rule(what, "has no access_mode"));
    };
    Ok(VolumeCapability {
        access_type,
        access_mode: self::access_mode(what, mode)?,
    })
}

fn mount_access(mount: MountVolume) -> Checked<MountAccess> {
    let MountVolume {
        fs_type,
        mount_flags,
        volume_mount_group,
    } = mount;
    let non_empty = |text: String| Some(text).filter(|text| !text.is_empty());
    MountAccess::try_from(UncheckedMountAccess {
        fs_type: non_empty(fs_type),
        mount_flags,
        volume_mount_group: non_empty(volume_mount_group),
    })
}

fn access_mode(what: &'static str, mode: i32) -> Checked<AccessMode> {
    match Mode::try_from(mode) {
        Ok(Mode::Unknown) => Err(InvalidField::rule(what, "has an access_mode of UNKNOWN")),
        Ok(Mode::SingleNodeWriter) => Ok(AccessMode::SingleNodeWriter),
        Ok(Mode::SingleNodeReaderOnly) => Ok(AccessMode::SingleNodeReaderOnly),
        Ok(Mode::MultiNodeReaderOnly) => Ok(AccessMode::MultiNodeReaderOnly),
        Ok(Mode::MultiNodeSingleWriter) => Ok(AccessMode::MultiNodeSingleWriter),
        Ok(Mode::MultiNodeMultiWriter) => Ok(AccessMode::MultiNodeMultiWriter),
        Ok(Mode::SingleNodeSingleWriter) => Ok(AccessMode::SingleNodeSingleWriter),
        Ok(Mode::SingleNodeMultiWriter) => Ok(AccessMode::SingleNodeMultiWriter),
        // A mode of a later CSI: the backend may know it.
        Err(_) => u32::try_from(mode)
            .map(AccessMode::Other)
            .map_err(|_| InvalidField::rule(what, "has a negative access_mode")),
    }
}

/// An absent or empty range is unbounded. Negative or contradictory bounds are INVALID_ARGUMENT and not OUT_OF_RANGE: the latter is for a range "not
/// allowed by the Plugin" (CSI specification, "CreateVolume Errors"), but no plugin could allow these.
pub(super) fn capacity(range: Option<wire::CapacityRange>) -> Checked<CapacityRange> {
    let Some(wire::CapacityRange {
        required_bytes,
        limit_bytes,
    }) = range
    else {
        return Ok(CapacityRange::default());
    };
    CapacityRange::new(
        bound("required_bytes", required_bytes)?,
        bound("limit_bytes", limit_bytes)?,
    )
}

/// A range with at least one bound, which expansion requires.
pub(super) fn required_capacity(range: Option<wire::CapacityRange>) -> Checked<CapacityRange> {
    let what = "capacity_range";
    let range = capacity(Some(required(what, range)?))?;
    match (range.required(), range.limit()) {
        (None, None) => Err(InvalidField::rule(
            what,
            "sets neither required_bytes nor limit_bytes",
        )),
        _ => Ok(range),
    }
}

fn bound(what: &'static str, bytes: i64) -> Checked<Option<u64>> {
    let bytes = u64::try_from(bytes).map_err(|_| InvalidField::rule(what, "is negative"))?;
    Ok(Some(bytes).filter(|bytes| *bytes != 0))
}

pub(super) fn content_source(source: wire::VolumeContentSource) -> Checked<ContentSource> {
    let wire::VolumeContentSource { r#type } = source;
    match r#type {
        None => Err(InvalidField::rule(
            "volume_content_source",
            "names neither a snapshot nor a volume",
        )),
        Some(WireSource::Snapshot(SnapshotSource { snapshot_id })) => {
            SnapshotId::parse("snapshot_id of volume_content_source", snapshot_id)
                .map(ContentSource::Snapshot)
        }
        Some(WireSource::Volume(VolumeSource { volume_id })) => {
            VolumeId::parse("volume_id of volume_content_source", volume_id)
                .map(ContentSource::Volume)
        }
    }
}

pub(super) fn topology(topology: wire::Topology) -> Checked<Topology> {
    let wire::Topology { segments } = topology;
    Ok(Topology {
        segments: attributes("topology segments", segments)?,
    })
}

pub(super) fn topology_requirement(
    requirement: wire::TopologyRequirement,
) -> Checked<TopologyRequirement> {
    let wire::TopologyRequirement {
        requisite,
        preferred,
    } = requirement;
    let all = |places: Vec<wire::Topology>| {
        places
            .into_iter()
            .map(topology)
            .collect::<Checked<Vec<_>>>()
    };
    Ok(TopologyRequirement {
        requisite: all(requisite)?,
        preferred: all(preferred)?,
    })
}

/// A page with the backend's own token. The backend decides whether it has expired.
pub(super) fn page(
    max_entries: i32,
    starting_token: String,
    tokens: &PageTokens,
) -> Result<PageRequest, Error> {
    let max_entries = count("max_entries", max_entries)?;
    let starting_token = match starting_token.as_str() {
        "" => None,
        token => Some(tokens.open(token)?),
    };
    Ok(PageRequest {
        max_entries,
        starting_token,
    })
}

/// Absent when 0.
pub(super) fn count(what: &'static str, count: i32) -> Checked<Option<u32>> {
    let count = u32::try_from(count).map_err(|_| InvalidField::rule(what, "is negative"))?;
    Ok(Some(count).filter(|count| *count != 0))
}
