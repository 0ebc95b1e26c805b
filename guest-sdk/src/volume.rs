//! Types that several services share: a volume, its capabilities, its size.

use crate::attributes;
use crate::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

pub use crate::bindings::imports::wasmount::csi::types::{
    AccessMode, AccessType, CapacityRange, ContentSource, Extent, MountAccess, NodeId, PageRequest,
    Snapshot, SnapshotId, Timestamp, Topology, TopologyRequirement, Volume, VolumeCapability,
    VolumeCondition, VolumeEntry, VolumeId, VolumeStatus,
};

impl Volume {
    /// A volume that is reachable from everywhere, without volume context and content source. `capacity_bytes` 0: unknown.
    pub fn new(id: impl Into<VolumeId>, capacity_bytes: u64) -> Self {
        Self {
            id: id.into(),
            capacity_bytes,
            context: Vec::new(),
            content_source: None,
            accessible_topology: Vec::new(),
        }
    }

    /// Sets the volume context: data for the node. It must stay the same as long as the volume exists.
    #[must_use]
    pub fn with_context(mut self, context: &[(&str, &str)]) -> Self {
        self.context.extend(attributes::owned(context));
        self
    }

    /// Sets what the volume began as a copy of.
    #[must_use]
    pub fn copied_from(self, content_source: Option<ContentSource>) -> Self {
        Self {
            content_source,
            ..self
        }
    }
}

impl VolumeEntry {
    /// A volume that is not published, with an unknown condition.
    pub fn new(volume: Volume) -> Self {
        let status = VolumeStatus {
            published_nodes: Vec::new(),
            condition: None,
        };
        Self { volume, status }
    }

    /// Sets the nodes that it is published to.
    #[must_use]
    pub fn published_to(mut self, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        self.status.published_nodes.extend(nodes);
        self
    }
}

impl Snapshot {
    /// A snapshot that is ready, in no group, and reachable from everywhere. `size_bytes` 0: unknown.
    pub fn new(
        id: impl Into<SnapshotId>,
        source_volume: impl Into<VolumeId>,
        size_bytes: u64,
        created_at: Timestamp,
    ) -> Self {
        Self {
            id: id.into(),
            source_volume: source_volume.into(),
            size_bytes,
            created_at,
            ready_to_use: true,
            group_snapshot_id: None,
            accessible_topology: Vec::new(),
        }
    }

    /// Sets whether it is complete, so that volumes can be made of it.
    #[must_use]
    pub fn ready(self, ready_to_use: bool) -> Self {
        Self {
            ready_to_use,
            ..self
        }
    }
}

/// The current time.
pub fn now() -> Timestamp {
    timestamp(SystemTime::now())
}

/// A time as the contract has it; before 1970 it is 0.
pub fn timestamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::try_from(since.as_nanos()).unwrap_or(Timestamp::MAX)
}

impl CapacityRange {
    /// The same range in whole blocks: the required size is rounded up, the limit down, so that a size chosen from it is a multiple of the block size
    /// if minimum and default are.
    #[must_use]
    pub fn in_blocks(&self, block_bytes: u64) -> Self {
        let up = |bytes: u64| bytes.checked_next_multiple_of(block_bytes).unwrap_or(bytes);
        Self {
            required_bytes: self.required_bytes.map(up),
            limit_bytes: self.limit_bytes.map(|bytes| bytes - bytes % block_bytes),
        }
    }

    /// The size in bytes of a new volume: the required size, at least `minimum`; if none is required, `default`, or less if the limit is lower.
    /// `out-of-range` when the limit is below the result.
    pub fn choose(&self, minimum: u64, default: u64) -> Result<u64, Error> {
        let limit = self.limit_bytes.unwrap_or(u64::MAX);
        let requested = self.required_bytes.unwrap_or(default.min(limit));
        self.within_limit(requested.max(minimum))
    }

    /// The size in bytes of a new volume. As a copy of `source` bytes, it is at least that large. Otherwise the result of [`CapacityRange::choose`].
    pub fn choose_from(
        &self,
        source: Option<u64>,
        minimum: u64,
        default: u64,
    ) -> Result<u64, Error> {
        match source {
            None => self.choose(minimum, default),
            Some(bytes) => self.choose(minimum.max(bytes), bytes),
        }
    }

    /// The size in bytes of a volume that may have been created by an earlier call with the same name (`known`): that size if it satisfies this
    /// request, `already-exists` if not. For a new volume, the result of [`CapacityRange::choose`].
    pub fn agree(&self, known: Option<u64>, minimum: u64, default: u64) -> Result<u64, Error> {
        match known {
            None => self.choose(minimum, default),
            Some(bytes) if self.contains(bytes) => Ok(bytes),
            Some(bytes) => Err(Error::already_exists(format!(
                "a volume of this name is there with {bytes} bytes: use another name"
            ))),
        }
    }

    /// The size in bytes of a volume to expand that has `current` bytes: it never shrinks. `out-of-range` when the limit is lower.
    pub fn grown(&self, current: u64) -> Result<u64, Error> {
        self.within_limit(current.max(self.required_bytes.unwrap_or(0)))
    }

    /// Whether a volume of this many bytes satisfies the request.
    pub fn contains(&self, bytes: u64) -> bool {
        bytes >= self.required_bytes.unwrap_or(0) && bytes <= self.limit_bytes.unwrap_or(u64::MAX)
    }

    fn within_limit(&self, bytes: u64) -> Result<u64, Error> {
        match self.limit_bytes {
            Some(limit) if limit < bytes => Err(Error::out_of_range(format!(
                "the volume takes {bytes} bytes, the limit is {limit}: raise the limit"
            ))),
            _ => Ok(bytes),
        }
    }
}

impl VolumeCapability {
    /// Whether the capability is a mounted file system, not a block device.
    pub fn is_mount(&self) -> bool {
        matches!(self.access_type, AccessType::Mount(_))
    }

    /// Whether the capability is a raw block device.
    pub fn is_block(&self) -> bool {
        matches!(self.access_type, AccessType::Block)
    }

    /// Rejects anything but a mounted file system in a known access mode, with `invalid-argument`.
    pub fn must_be_mount(&self) -> Result<(), Error> {
        match (&self.access_type, self.access_mode) {
            (_, AccessMode::Other(_)) => {
                Err(Error::invalid_argument("the access mode is not known"))
            }
            (AccessType::Mount(_), _) => Ok(()),
            _ => Err(Error::invalid_argument(
                "volumes of this driver are file systems: use volumeMode Filesystem",
            )),
        }
    }

    /// Rejects a file system on several nodes, with `invalid-argument`; a raw block device may be shared.
    pub fn must_be_block_or_on_one_node(&self) -> Result<(), Error> {
        match self.is_block() {
            true => Ok(()),
            false => self.must_be_on_one_node(),
        }
    }

    /// Rejects use on several nodes, with `invalid-argument`.
    pub fn must_be_on_one_node(&self) -> Result<(), Error> {
        if self.access_mode.is_single_node() {
            return Ok(());
        }
        Err(Error::invalid_argument(
            "volumes of this driver are used on one node at a time: use ReadWriteOnce or ReadWriteOncePod",
        ))
    }
}

impl AccessMode {
    /// Whether the volume is used on one node at a time.
    pub fn is_single_node(&self) -> bool {
        matches!(
            self,
            AccessMode::SingleNodeWriter
                | AccessMode::SingleNodeReaderOnly
                | AccessMode::SingleNodeSingleWriter
                | AccessMode::SingleNodeMultiWriter
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use std::time::Duration;

    const MINIMUM: u64 = 10;
    const DEFAULT: u64 = 100;

    fn range(required_bytes: Option<u64>, limit_bytes: Option<u64>) -> CapacityRange {
        CapacityRange {
            required_bytes,
            limit_bytes,
        }
    }

    #[test]
    fn a_new_volume_gets_what_is_required_or_the_default() {
        for (required, limit, chosen) in [
            (None, None, 100),
            (Some(50), None, 50),
            (Some(5), None, 10),
            (Some(500), Some(500), 500),
            (None, Some(60), 60),
            (None, Some(10), 10),
        ] {
            assert_eq!(
                range(required, limit).choose(MINIMUM, DEFAULT),
                Ok(chosen),
                "{required:?} {limit:?}"
            );
        }
    }

    #[test]
    fn a_copy_is_never_smaller_than_its_source() {
        let choose =
            |required, limit| range(required, limit).choose_from(Some(50), MINIMUM, DEFAULT);
        assert_eq!(choose(None, None), Ok(50));
        assert_eq!(choose(Some(20), None), Ok(50));
        assert_eq!(choose(Some(70), None), Ok(70));
        let small = choose(None, Some(49)).map_err(|error| error.code);
        assert_eq!(small, Err(Code::OutOfRange));
        assert_eq!(
            range(None, None).choose_from(None, MINIMUM, DEFAULT),
            Ok(100)
        );
    }

    #[test]
    fn a_range_in_blocks_is_never_wider() {
        for (required, limit, blocks) in [
            (Some(1), Some(25), (Some(10), Some(20))),
            (Some(10), Some(20), (Some(10), Some(20))),
            (Some(11), Some(19), (Some(20), Some(10))),
            (None, None, (None, None)),
            (Some(u64::MAX), None, (Some(u64::MAX), None)),
        ] {
            let found = range(required, limit).in_blocks(10);
            assert_eq!((found.required_bytes, found.limit_bytes), blocks);
        }
    }

    #[test]
    fn a_limit_below_the_minimum_is_out_of_range() {
        for (required, limit) in [(None, Some(9)), (Some(5), Some(9)), (Some(1), Some(1))] {
            assert_eq!(
                range(required, limit)
                    .choose(MINIMUM, DEFAULT)
                    .map_err(|error| error.code),
                Err(Code::OutOfRange),
                "{required:?} {limit:?}"
            );
        }
    }

    #[test]
    fn a_volume_that_is_there_is_kept_if_it_is_what_is_asked_for() {
        let agree = |known| range(Some(50), Some(60)).agree(known, MINIMUM, DEFAULT);
        assert_eq!(agree(Some(55)), Ok(55));
        assert_eq!(agree(None), Ok(50));
        for other in [49, 61] {
            let code = agree(Some(other)).map_err(|error| error.code);
            assert_eq!(code, Err(Code::AlreadyExists), "{other}");
        }
    }

    #[test]
    fn a_volume_grows_and_never_shrinks() {
        assert_eq!(range(Some(200), None).grown(100), Ok(200));
        assert_eq!(range(Some(50), None).grown(100), Ok(100));
        assert_eq!(range(None, Some(100)).grown(100), Ok(100));
        assert_eq!(
            range(None, Some(99)).grown(100).map_err(|error| error.code),
            Err(Code::OutOfRange)
        );
    }

    #[test]
    fn a_capability_is_what_it_must_be_or_is_refused() {
        let capability = |access_type, access_mode| VolumeCapability {
            access_type,
            access_mode,
        };
        let mount = || {
            AccessType::Mount(MountAccess {
                fs_type: None,
                mount_flags: Vec::new(),
                volume_mount_group: None,
            })
        };
        let writer = capability(mount(), AccessMode::SingleNodeWriter);
        assert_eq!(writer.must_be_mount(), Ok(()));
        assert_eq!(writer.must_be_on_one_node(), Ok(()));
        assert_eq!(writer.must_be_block_or_on_one_node(), Ok(()));
        let unknown = capability(mount(), AccessMode::Other(9));
        let code = unknown.must_be_mount().map_err(|error| error.code);
        assert_eq!(code, Err(Code::InvalidArgument));
        let shared = |access_type| capability(access_type, AccessMode::MultiNodeMultiWriter);
        let block = shared(AccessType::Block);
        assert_eq!(block.must_be_block_or_on_one_node(), Ok(()));
        let code = shared(mount()).must_be_block_or_on_one_node();
        assert_eq!(code.map_err(|error| error.code), Err(Code::InvalidArgument));
        for (access_type, mode) in [
            (AccessType::Block, AccessMode::MultiNodeReaderOnly),
            (AccessType::Other(9), AccessMode::MultiNodeSingleWriter),
            (AccessType::Block, AccessMode::MultiNodeMultiWriter),
            (AccessType::Block, AccessMode::Other(9)),
        ] {
            let other = capability(access_type, mode);
            let refused = Err(Code::InvalidArgument);
            assert_eq!(other.must_be_mount().map_err(|error| error.code), refused);
            assert_eq!(
                other.must_be_on_one_node().map_err(|error| error.code),
                refused
            );
        }
    }

    #[test]
    fn a_time_is_nanoseconds_since_1970_within_bounds() {
        let second = Duration::from_secs(1);
        for (time, nanoseconds) in [
            (UNIX_EPOCH + second, 1_000_000_000),
            (UNIX_EPOCH - second, 0),
            (UNIX_EPOCH + second * u32::MAX * 5, Timestamp::MAX),
        ] {
            assert_eq!(timestamp(time), nanoseconds);
        }
    }

    #[test]
    fn a_size_is_in_the_range_with_its_bounds() {
        assert!(range(Some(10), Some(20)).contains(10));
        assert!(range(Some(10), Some(20)).contains(20));
        assert!(range(None, None).contains(0));
        assert!(!range(Some(10), Some(20)).contains(9));
        assert!(!range(Some(10), Some(20)).contains(21));
    }
}
