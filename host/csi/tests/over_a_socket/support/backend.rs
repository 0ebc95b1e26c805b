//! A native backend whose volumes live in memory. It can be made to wait, and counts its calls.

mod calls;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::RwLock;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{BackendError, PluginLabel};
use wasmount_core::code::Code;
use wasmount_core::names::{SnapshotId, VolumeId};
use wasmount_core::plan::{Plan, Source};
use wasmount_core::secrets::Secrets;
use wasmount_core::services::ServiceSet;
use wasmount_core::snapshot::{BlockType, Extent, GroupSnapshot, MetadataPage, Snapshot};
use wasmount_core::topology::Topology;
use wasmount_core::volume::{Volume, VolumeCondition, VolumeEntry, VolumeStatus};

/// Extents of every snapshot: this many bytes each, followed by a gap of the same size.
pub(crate) const EXTENT_BYTES: u64 = 4096;

/// Size of a volume without a requested size.
const VOLUME_BYTES: u64 = 1 << 20;

/// The creation time of every snapshot, in nanoseconds.
const MOMENT: u64 = 1_500_000_000;

pub(crate) struct MemoryBackend {
    label: PluginLabel,
    offer: ServiceSet,
    manifest: Attributes,
    secrets: Secrets,
    volumes: Mutex<BTreeMap<String, Volume>>,
    snapshots: Mutex<BTreeMap<String, Snapshot>>,
    groups: Mutex<BTreeMap<String, GroupSnapshot>>,
    /// While a test holds it for writing, CreateVolume waits.
    pub(crate) gate: RwLock<()>,
    /// CreateVolume calls that started, and that succeeded.
    pub(crate) begun: AtomicUsize,
    pub(crate) created: AtomicUsize,
    /// Requested pages of volumes and of snapshots.
    pub(crate) lists: AtomicUsize,
    /// Calls that were cancelled.
    pub(crate) stopped: AtomicUsize,
    /// Requested pages of snapshot metadata.
    pub(crate) pages: AtomicUsize,
    /// The last secret of a call with the name `password`.
    pub(crate) password: Mutex<Option<String>>,
}

impl MemoryBackend {
    pub(crate) fn new(offer: ServiceSet) -> Self {
        Self {
            label: PluginLabel {
                name: "memory".to_owned(),
                version: "1.2.3".to_owned(),
                digest: String::new(),
            },
            offer,
            manifest: Attributes::from_iter([("language".to_owned(), "rust".to_owned())]),
            secrets: Secrets::default(),
            volumes: Mutex::default(),
            snapshots: Mutex::default(),
            groups: Mutex::default(),
            gate: RwLock::default(),
            begun: AtomicUsize::new(0),
            created: AtomicUsize::new(0),
            lists: AtomicUsize::new(0),
            stopped: AtomicUsize::new(0),
            pages: AtomicUsize::new(0),
            password: Mutex::default(),
        }
    }

    fn volume(&self, id: &VolumeId) -> Result<Volume, BackendError> {
        self.volumes
            .lock()
            .unwrap()
            .get(id.as_str())
            .cloned()
            .ok_or_else(|| not_found(id))
    }

    fn entry(volume: Volume) -> VolumeEntry {
        let condition = VolumeCondition {
            abnormal: false,
            message: "well".to_owned(),
        };
        VolumeEntry {
            volume,
            status: VolumeStatus {
                published_nodes: vec![],
                condition: Some(condition),
            },
        }
    }

    fn snapshot_of(&self, source: &VolumeId, name: &str) -> Result<Snapshot, BackendError> {
        let size_bytes = self.volume(source)?.capacity_bytes;
        let snapshot = Snapshot {
            id: SnapshotId::parse("id", format!("s-{name}")).unwrap(),
            source_volume: source.clone(),
            size_bytes,
            created_at: MOMENT,
            ready_to_use: true,
            group: None,
            accessible_topology: vec![place()],
        };
        self.snapshots
            .lock()
            .unwrap()
            .insert(snapshot.id.to_string(), snapshot.clone());
        Ok(snapshot)
    }

    /// As many extents as fit, up to the given size of the volume.
    fn extents(&self, size: u64, offset: u64, max: u32) -> MetadataPage {
        self.pages.fetch_add(1, Ordering::SeqCst);
        let step = 2 * EXTENT_BYTES;
        let first = offset.div_ceil(step) * step;
        let extents = (first..size).step_by(step as usize).take(max as usize);
        let extents = extents
            .map(|offset_bytes| Extent {
                offset_bytes,
                size_bytes: EXTENT_BYTES,
            })
            .collect::<Vec<_>>();
        let next = first + extents.len() as u64 * step;
        MetadataPage {
            block_type: BlockType::FixedLength,
            volume_capacity_bytes: size,
            extents,
            next_offset: (next < size).then_some(next),
        }
    }
}

fn place() -> Topology {
    Topology {
        segments: Attributes::from_iter([("zone".to_owned(), "a".to_owned())]),
    }
}

fn not_found(what: impl std::fmt::Display) -> BackendError {
    BackendError::Answered {
        code: Code::NotFound,
        message: format!("{what} does not exist"),
    }
}

fn tmpfs() -> Plan {
    Plan {
        source: Source::Tmpfs { size_bytes: None },
        default_fs_type: None,
        mount_options: vec![],
        notes: BTreeMap::new(),
        luks: None,
    }
}
