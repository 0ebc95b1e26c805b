//! The kinds of volumes of plugins/hostpath: requests for each, and how a pod writes and reads it.

use crate::orchestrator::{Orchestrator, Volume};
use crate::requests;
use rustix::thread::{CapabilitySet, capabilities};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use tonic::Status;
use wasmount_csi::wire::csi::v1::volume_capability::access_mode::Mode;
use wasmount_csi::wire::csi::v1::volume_capability::{
    AccessMode, AccessType, BlockVolume, MountVolume,
};
use wasmount_csi::wire::csi::v1::{
    CreateVolumeRequest, NodePublishVolumeRequest, NodeStageVolumeRequest, VolumeCapability,
};

/// A kind of volume, as a pod sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A tree of the pool.
    Directory,
    /// An image with a file system of this type.
    Filesystem(&'static str),
    /// An image as a block device.
    Block,
}

impl Kind {
    /// All kinds of hostpath.
    pub const ALL: [Kind; 5] = [
        Kind::Directory,
        Kind::Filesystem("ext4"),
        Kind::Filesystem("xfs"),
        Kind::Filesystem("btrfs"),
        Kind::Block,
    ];

    /// The size: little more than the tools' minimum. mkfs.xfs needs 300 MiB, mkfs.btrfs 109 MiB. Images are sparse.
    pub fn bytes(self) -> i64 {
        match self {
            Kind::Directory => 1 << 20,
            Kind::Filesystem("xfs") => 304 << 20,
            Kind::Filesystem("btrfs") => 128 << 20,
            Kind::Filesystem(_) | Kind::Block => 16 << 20,
        }
    }

    /// A capability for one node that writes.
    pub fn capability(self) -> VolumeCapability {
        self.capability_in(Mode::SingleNodeWriter)
    }

    /// A capability with this access mode.
    pub fn capability_in(self, mode: Mode) -> VolumeCapability {
        let access_type = match self {
            Kind::Block => AccessType::Block(BlockVolume {}),
            Kind::Directory => AccessType::Mount(MountVolume::default()),
            Kind::Filesystem(fs_type) => AccessType::Mount(MountVolume {
                fs_type: fs_type.to_owned(),
                ..MountVolume::default()
            }),
        };
        VolumeCapability {
            access_mode: Some(AccessMode { mode: mode.into() }),
            access_type: Some(access_type),
        }
    }

    /// CreateVolume, of [`Kind::bytes`], with a name that is unique to this test.
    pub fn create(self, name: &str) -> CreateVolumeRequest {
        let kind = match self {
            Kind::Directory => "directory",
            Kind::Filesystem(_) | Kind::Block => "image",
        };
        CreateVolumeRequest {
            volume_capabilities: vec![self.capability()],
            parameters: [("kind".to_owned(), kind.to_owned())].into(),
            ..requests::create(&of_this_test(name), self.bytes())
        }
    }

    /// NodeStageVolume, at the volume's staging path.
    pub fn stage(self, volume: &Volume) -> NodeStageVolumeRequest {
        NodeStageVolumeRequest {
            volume_capability: Some(self.capability()),
            ..requests::stage(&volume.id, &volume.staging)
        }
    }

    /// NodePublishVolume to a target, for reading and writing.
    pub fn publish(self, volume: &Volume, target: &Path) -> NodePublishVolumeRequest {
        NodePublishVolumeRequest {
            volume_capability: Some(self.capability()),
            ..requests::publish(&volume.id, &volume.staging, target)
        }
    }

    /// Creates a volume of this name, and its directories.
    pub async fn created(self, orchestrator: &Orchestrator, name: &str) -> Result<Volume, Status> {
        let (id, _) = orchestrator.create(self.create(name)).await?;
        let place = orchestrator.place(name, id);
        place.map_err(|failure| Status::internal(failure.to_string()))
    }

    /// Stages the volume, and publishes it to the first pod.
    pub async fn set_up(self, orchestrator: &Orchestrator, volume: &Volume) -> Result<(), Status> {
        orchestrator.stage_as(self.stage(volume)).await?;
        let publish = self.publish(volume, &volume.target);
        orchestrator.publish_as(publish).await
    }

    /// Writes as a pod does that sees the volume at this path, and syncs to stable storage.
    pub fn write(self, at: &Path, content: &[u8]) -> io::Result<()> {
        let mut file = match self {
            Kind::Block => File::options().write(true).open(at)?,
            _ => File::create(data(at))?,
        };
        file.write_all(content)?;
        file.sync_all()
    }

    /// Reads this many bytes.
    pub fn read(self, at: &Path, length: usize) -> io::Result<Vec<u8>> {
        let file = match self {
            Kind::Block => File::open(at)?,
            _ => File::open(data(at))?,
        };
        let mut content = Vec::new();
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        file.take(length).read_to_end(&mut content)?;
        Ok(content)
    }
}

/// Bytes that no file system writes on its own.
pub fn random_bytes(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fastrand::fill(&mut bytes);
    bytes
}

/// Whether the kernel permits this process, and a host that it starts, to expand a mounted ext4 (ext4(5), `EXT4_IOC_RESIZE_FS`).
pub fn may_grow_ext4_online() -> bool {
    let own = capabilities(None);
    own.is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_RESOURCE))
}

/// On one node a driver name and an id identify a volume, and its teardown detaches its loop devices, which are shared by the machine: tests that run
/// concurrently must use different names. Each test has a thread with its name, and a process.
fn of_this_test(name: &str) -> String {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    format!("{name} {} {test}", std::process::id())
}

/// The file in a mounted volume.
fn data(at: &Path) -> PathBuf {
    at.join("data")
}
