//! What a killed `mkfs` of ours left, told from what is somebody's: only then something that is not blank is formatted.
//!
//! It is apart because it is an exception to a rule that keeps data, so each of its cases has its reason beside it: in which order each `mkfs`
//! writes, found by killing it at every moment (`tests/interrupted`). It must not know what follows; `decision` does.

use super::content::Content;
use super::{Formatting, FsType, btrfs, ext4, xfs};
use crate::block::BlockDevice;
use wasmount_core::mounter::MountError;

impl Formatting<'_> {
    /// Whether what is there is what a killed `mkfs` of ours left, and nobody has mounted since.
    ///
    /// The intent alone does not say so: while this node was down, the volume may have been formatted and used on another, and damaged since. So
    /// what is there must be called as we said, or show the mark of an unfinished `mkfs`, and show that nobody has mounted it.
    pub(super) fn is_unfinished(
        &self,
        device: &BlockDevice,
        wanted: FsType,
        content: &Content,
    ) -> Result<bool, MountError> {
        let Some(intent) = self.durable.intent(self.key) else {
            return Ok(false);
        };
        if !intent.is_of(&self.intent(device, wanted, intent.uuid)?) {
            return Ok(false);
        }
        match content {
            Content::Blank => Ok(true),
            Content::Unsigned { .. } => match wanted {
                // Its superblock is the last that `mkfs.ext4` writes, so there is no name to go by. A device of the node goes from node to node;
                // a pool's image is this host's own.
                FsType::Ext4 if device.backing.is_some() => {
                    ext4::has_no_copy_of_another(device, intent.uuid)
                }
                FsType::Ext4 => Ok(false),
                // Its superblock is the first that `mkfs.xfs` writes.
                FsType::Xfs => Ok(false),
                FsType::Btrfs => btrfs::is_being_made(device),
            },
            Content::Broken(found) | Content::Filesystem(found) if *found == wanted => match wanted
            {
                FsType::Ext4 => ext4::was_never_mounted(device, intent.uuid),
                // `mkfs.xfs` never writes one with a wrong checksum.
                FsType::Xfs if matches!(content, Content::Broken(_)) => Ok(false),
                FsType::Xfs => xfs::was_never_mounted(self.tools, device, intent.uuid),
                // Its magic number is the last that `mkfs.btrfs` writes.
                FsType::Btrfs => Ok(false),
            },
            _ => Ok(false),
        }
    }
}
