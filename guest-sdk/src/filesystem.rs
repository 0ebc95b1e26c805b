//! The smallest size of an image: each file system's tool requires a minimum, and the host supports three file systems.
//!
//! It creates nothing: the host does, on the node.

use crate::error::Error;
use crate::volume::{AccessType, VolumeCapability};

/// The smallest size that `mkfs` accepts, in bytes, with the options of the host: mke2fs(8) a journal-less 1 MiB, mkfs.btrfs(8) 109 MiB, mkfs.xfs(8)
/// 300 MiB.
const SMALLEST: [(&str, u64); 3] = [("ext4", 1 << 20), ("btrfs", 109 << 20), ("xfs", 300 << 20)];
/// A block device consists of whole pages, in bytes.
const PAGE_BYTES: u64 = 4 << 10;

/// The smallest size of an image with this file system; `invalid-argument` for one that the host does not support.
pub fn smallest_image(fs_type: &str) -> Result<u64, Error> {
    let found = SMALLEST.iter().find(|(known, _)| *known == fs_type);
    found.map(|(_, bytes)| *bytes).ok_or_else(|| {
        Error::invalid_argument(format!(
            "file system `{fs_type}` cannot be made: use ext4, xfs or btrfs"
        ))
    })
}

impl VolumeCapability {
    /// The smallest size of an image with this capability; with `fs_type` where the capability names none.
    pub fn smallest_image(&self, fs_type: &str) -> Result<u64, Error> {
        match &self.access_type {
            AccessType::Block => Ok(PAGE_BYTES),
            AccessType::Mount(mount) => smallest_image(mount.fs_type.as_deref().unwrap_or(fs_type)),
            AccessType::Other(_) => Err(Error::invalid_argument(
                "a volume is used as a file system or as a block device",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::volume::{AccessMode, MountAccess};

    fn smallest(access_type: AccessType) -> Result<u64, Code> {
        let access_mode = AccessMode::SingleNodeWriter;
        let capability = VolumeCapability {
            access_type,
            access_mode,
        };
        capability
            .smallest_image("ext4")
            .map_err(|error| error.code)
    }

    fn mount(fs_type: Option<&str>) -> AccessType {
        AccessType::Mount(MountAccess {
            fs_type: fs_type.map(str::to_owned),
            mount_flags: Vec::new(),
            volume_mount_group: None,
        })
    }

    #[test]
    fn an_image_takes_its_file_system() {
        assert_eq!(smallest(AccessType::Block), Ok(4096));
        assert_eq!(smallest(mount(None)), Ok(1 << 20));
        assert_eq!(smallest(mount(Some("xfs"))), Ok(300 << 20));
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        for other in [mount(Some("zfs")), mount(Some("")), AccessType::Other(9)] {
            assert_eq!(smallest(other), Err(Code::InvalidArgument));
        }
    }
}
