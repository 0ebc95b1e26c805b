//! A volume and its requested properties: capacity, access, source.
//!
//! The types are plain data: their content was checked when they were constructed, in `csi` for requests and in `engine` for a plugin's answers.

use crate::attributes::Attributes;
use crate::names::{InvalidField, NodeId, SnapshotId, VolumeId, check_length, check_no_nul};
use crate::topology::Topology;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Requested capacity in bytes. An absent bound is unbounded; `required <= limit` always holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CapacityRange {
    required: Option<u64>,
    limit: Option<u64>,
}

impl CapacityRange {
    /// Both bounds in bytes.
    pub fn new(required: Option<u64>, limit: Option<u64>) -> Result<Self, InvalidField> {
        let what = "capacity_range";
        match (required, limit) {
            (Some(required), Some(limit)) if required > limit => {
                Err(InvalidField::rule(what, "requires more than its limit"))
            }
            _ => Ok(Self { required, limit }),
        }
    }

    /// At least this many bytes.
    pub fn required(&self) -> Option<u64> {
        self.required
    }

    /// At most this many bytes.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Whether a volume of `bytes` satisfies the request.
    pub fn contains(&self, bytes: u64) -> bool {
        self.required.is_none_or(|required| required <= bytes)
            && self.limit.is_none_or(|limit| bytes <= limit)
    }
}

/// Who may use the volume, and how (CSI `VolumeCapability.AccessMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AccessMode {
    /// One node, read and write.
    SingleNodeWriter,
    /// One node, read only.
    SingleNodeReaderOnly,
    /// Many nodes, read only.
    MultiNodeReaderOnly,
    /// Many nodes, one of them writes.
    MultiNodeSingleWriter,
    /// Many nodes, all write.
    MultiNodeMultiWriter,
    /// One node, one publish (Kubernetes' ReadWriteOncePod).
    SingleNodeSingleWriter,
    /// One node, several publishes.
    SingleNodeMultiWriter,
    /// A mode of a later CSI: its number.
    Other(u32),
}

/// Most bytes of all mount flags (CSI specification, `MountVolume.mount_flags`); mount(2) has the same limit.
pub const MOUNT_FLAGS_BYTES: usize = 4096;

/// Longest other string of a capability, in bytes (CSI specification, "Size Limits").
const STRING_BYTES: usize = 128;

/// How a file system is to be mounted (CSI `VolumeCapability.MountVolume`).
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "UncheckedMountAccess")]
pub struct MountAccess {
    /// Absent: the backend or the host chooses.
    pub fs_type: Option<String>,
    /// May contain sensitive data (CSI specification, `MountVolume.mount_flags`): `Debug` shows their number.
    pub mount_flags: Vec<String>,
    /// Group that must be able to use the volume.
    pub volume_mount_group: Option<String>,
}

/// The same type before its check: as received.
#[derive(Deserialize)]
pub struct UncheckedMountAccess {
    /// File system type.
    pub fs_type: Option<String>,
    /// Mount options.
    pub mount_flags: Vec<String>,
    /// Group that must be able to use the volume.
    pub volume_mount_group: Option<String>,
}

impl TryFrom<UncheckedMountAccess> for MountAccess {
    type Error = InvalidField;

    /// Rejects values that no mount could use. The mounter decides which values are allowed.
    fn try_from(access: UncheckedMountAccess) -> Result<Self, InvalidField> {
        let UncheckedMountAccess {
            fs_type,
            mount_flags,
            volume_mount_group,
        } = access;
        let what = "mount_flags";
        let length = mount_flags.iter().map(String::len).sum();
        check_length(what, length, MOUNT_FLAGS_BYTES)?;
        let flags = mount_flags.iter().map(|flag| (what, flag));
        let named = [
            ("fs_type", &fs_type),
            ("volume_mount_group", &volume_mount_group),
        ];
        let named = named
            .into_iter()
            .filter_map(|(what, text)| Some((what, text.as_ref()?)));
        for (what, text) in named.clone() {
            check_length(what, text.len(), STRING_BYTES)?;
        }
        for (what, text) in flags.chain(named) {
            check_no_nul(what, text)?;
        }
        Ok(Self {
            fs_type,
            mount_flags,
            volume_mount_group,
        })
    }
}

impl fmt::Debug for MountAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            fs_type,
            mount_flags,
            volume_mount_group,
        } = self;
        f.debug_struct("MountAccess")
            .field("fs_type", fs_type)
            .field("mount_flags", &format_args!("{} flags", mount_flags.len()))
            .field("volume_mount_group", volume_mount_group)
            .finish()
    }
}

/// As a device or as a file system (CSI `VolumeCapability.access_type`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AccessType {
    /// A raw block device.
    Block,
    /// A mounted file system.
    Mount(MountAccess),
    /// A type of a later CSI: its field number.
    Other(u32),
}

/// How a volume is to be used.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VolumeCapability {
    /// Block device or file system.
    pub access_type: AccessType,
    /// The number of nodes and writers.
    pub access_mode: AccessMode,
}

/// The source of a new volume's content (CSI `VolumeContentSource`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ContentSource {
    /// A snapshot.
    Snapshot(SnapshotId),
    /// Another volume.
    Volume(VolumeId),
}

/// A volume as its backend describes it (CSI `Volume`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Its id.
    pub id: VolumeId,
    /// In bytes; 0: unknown.
    pub capacity_bytes: u64,
    /// Passed back in later calls.
    pub context: Attributes,
    /// The source of its content.
    pub content_source: Option<ContentSource>,
    /// Empty: reachable from everywhere.
    pub accessible_topology: Vec<Topology>,
}

/// CSI `VolumeCondition`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeCondition {
    /// Something is wrong.
    pub abnormal: bool,
    /// The condition, for a person.
    pub message: String,
}

/// CSI `VolumeStatus`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeStatus {
    /// The nodes where it is published.
    pub published_nodes: Vec<NodeId>,
    /// Absent: not known.
    pub condition: Option<VolumeCondition>,
}

/// A volume in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeEntry {
    /// The volume.
    pub volume: Volume,
    /// Its status.
    pub status: VolumeStatus,
}

/// One page of a long list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// In the backend's order.
    pub entries: Vec<T>,
    /// Absent: the end.
    pub next_token: Option<String>,
}

/// A requested page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// Absent: all.
    pub max_entries: Option<u32>,
    /// Absent: from the start.
    pub starting_token: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_contains_its_bounds_and_nothing_beyond() {
        let range = CapacityRange::new(Some(10), Some(20)).unwrap();
        assert_eq!(
            [9, 10, 20, 21].map(|bytes| range.contains(bytes)),
            [false, true, true, false]
        );
        assert!(CapacityRange::default().contains(u64::MAX));
    }

    #[test]
    fn formatting_a_mount_access_shows_no_flag() {
        let access = MountAccess {
            mount_flags: vec!["password=hunter22".to_owned()],
            ..MountAccess::default()
        };
        let shown = format!("{access:?}");
        assert!(
            shown.contains("1 flags") && !shown.contains("hunter22"),
            "{shown}"
        );
    }

    #[test]
    fn a_range_that_requires_more_than_its_limit_is_refused() {
        assert!(CapacityRange::new(Some(2), Some(1)).is_err());
    }

    #[test]
    fn no_mount_access_that_was_not_parsed_can_be_read() {
        let read = |flag: &str, fs_type: &str| {
            let fields = serde_json::json!({
                "fs_type": fs_type, "mount_flags": [flag], "volume_mount_group": null
            });
            serde_json::from_value::<MountAccess>(fields).is_ok()
        };
        assert!(read("noatime", "ext4"));
        assert!(read(&"f".repeat(MOUNT_FLAGS_BYTES), "ext4"));
        assert!(!read(&"f".repeat(MOUNT_FLAGS_BYTES + 1), "ext4"));
        assert!(!read("a\0b", "ext4"));
        assert!(!read("noatime", "ext4\0"));
    }
}
