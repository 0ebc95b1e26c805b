//! The kinds of volumes that plugins/hostpath makes: how each is asked for, and how a pod writes and reads it.

use crate::orchestrator::{Orchestrator, Volume};
use crate::requests;
use rustix::rand::{GetRandomFlags, getrandom};
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

/// What a volume is, and what a pod sees of it.
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
    /// All that hostpath makes.
    pub const ALL: [Kind; 5] = [
        Kind::Directory,
        Kind::Filesystem("ext4"),
        Kind::Filesystem("xfs"),
        Kind::Filesystem("btrfs"),
        Kind::Block,
    ];

    /// Little more than what the tools make a file system of: mkfs.xfs wants 300 MiB, mkfs.btrfs 109 MiB. Images are sparse.
    pub fn bytes(self) -> i64 {
        match self {
            Kind::Directory => 1 << 20,
            Kind::Filesystem("xfs") => 304 << 20,
            Kind::Filesystem("btrfs") => 128 << 20,
            Kind::Filesystem(_) | Kind::Block => 16 << 20,
        }
    }

    /// For one node that writes.
    pub fn capability(self) -> VolumeCapability {
        self.capability_in(Mode::SingleNodeWriter)
    }

    /// In some mode.
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

    /// CreateVolume, of [`Kind::bytes`], under a name of this test's own.
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

    /// NodeStageVolume, at the volume's place.
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

    /// A volume of this name, with its place.
    pub async fn created(self, orchestrator: &Orchestrator, name: &str) -> Result<Volume, Status> {
        let (id, _) = orchestrator.create(self.create(name)).await?;
        let place = orchestrator.place(name, id);
        place.map_err(|failure| Status::internal(failure.to_string()))
    }

    /// Stages, and publishes to the first pod.
    pub async fn set_up(self, orchestrator: &Orchestrator, volume: &Volume) -> Result<(), Status> {
        orchestrator.stage_as(self.stage(volume)).await?;
        let publish = self.publish(volume, &volume.target);
        orchestrator.publish_as(publish).await
    }

    /// Writes as a pod does that sees the volume at this path, down to stable storage.
    pub fn write(self, at: &Path, content: &[u8]) -> io::Result<()> {
        let mut file = match self {
            Kind::Block => File::options().write(true).open(at)?,
            _ => File::create(data(at))?,
        };
        file.write_all(content)?;
        file.sync_all()
    }

    /// Reads that many bytes back.
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

/// Bytes that no file system makes by itself.
pub fn random_bytes(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        // It is there since Linux 3.17, and after boot it never fails.
        filled += getrandom(rest, GetRandomFlags::empty()).unwrap_or_default();
    }
    bytes
}

/// Whether the kernel lets this process, and a host that it starts, grow an ext4 that is mounted (ext4(5), `EXT4_IOC_RESIZE_FS`).
pub fn may_grow_ext4_online() -> bool {
    let own = capabilities(None);
    own.is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_RESOURCE))
}

/// On one node a driver's name and an id are one volume, and teardown of it detaches its loop devices, which are the machine's: tests
/// that run side by side must not have the same. A test has a thread with its name, and a process.
fn of_this_test(name: &str) -> String {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    format!("{name} {} {test}", std::process::id())
}

/// The file in a volume that is mounted.
fn data(at: &Path) -> PathBuf {
    at.join("data")
}
