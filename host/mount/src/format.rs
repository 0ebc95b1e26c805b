//! File systems on block devices: detects, makes, checks, mounts and expands them. Data can be lost here, so one pure module, `decision`, decides
//! what may be formatted.

mod btrfs;
mod content;
mod decision;
mod ext4;
mod mount;
mod xfs;

use crate::block::{BlockDevice, loop_device};
use crate::durable::{Durable, FormatIntent, age};
use crate::exclusive;
use crate::failure::kernel;
use crate::fs_type::{BlockFilesystem, FsType, StorageAccess};
use crate::plan::options::MountFlags;
use crate::tools::{ToolCall, tool_call};
pub(crate) use content::{Content, Label, blank_places, is_blank_from, label, probe};
use decision::{Verdict, decide};
pub(crate) use mount::{require_free, require_path};
use rustix::fs::{fsync, statvfs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, SystemTime};
use uuid::Uuid;
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::plan::Source;

/// Deadline of `mkfs`. 30 minutes: it writes little, but first it discards the whole device, which some arrays do at 1 GiB/s.
const MAKE_WITHIN: Duration = Duration::from_mins(30);
/// How long the intent proves whose an unfinished ext4 is on a device that other nodes can have, too. An hour: a node that was restarted repeats the call
/// by then, and the volume was not used on another node, damaged there and brought back.
const INTENT_TIME: Duration = Duration::from_hours(1);

/// The input for mounting the device of one volume.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Formatting<'a> {
    pub(crate) durable: &'a Durable,
    pub(crate) key: &'a VolumeKey,
    /// The source as recorded, for the format intent.
    pub(crate) source: &'a Source,
}

impl Formatting<'_> {
    /// Makes a file system if the device is blank, checks and expands it if users write, and returns a detached mount of it.
    ///
    /// The format intent is on stable storage before the first byte is written. It is cleared after the kernel mounted the result and before any
    /// process can write to it. If the host is killed in between, the next call starts again.
    #[tracing::instrument(level = "debug", skip_all, name = "mount device")]
    pub(crate) fn mount(
        &self,
        device: &BlockDevice,
        requested: &BlockFilesystem,
        access: StorageAccess,
        flags: MountFlags,
    ) -> Result<OwnedFd, MountError> {
        mount::require_path(device)?;
        mount::require_free(device)?;
        // A volume that was attached read-only: plan and storage agree, whatever the client's access mode is.
        let access = match access {
            StorageAccess::ReadWrite if device.is_read_only && flags.is_read_only() => {
                StorageAccess::ReadOnly
            }
            access => access,
        };
        let writes = access == StorageAccess::ReadWrite;
        if writes && device.is_read_only {
            return Err(MountError::unusable(
                device,
                "it is read-only and a writable mount is requested; request a read-only volume, or make the storage writable",
            ));
        }
        let content = probe(device)?;
        let is_unfinished = self.is_unfinished(device, requested.fs_type, &content)?;
        let verdict = decide(device, &content, is_unfinished, requested, access)?;
        let (Verdict::Make(fs_type) | Verdict::Use(fs_type)) = verdict;
        let options = requested
            .options
            .get(&fs_type)
            .map_or(&[][..], Vec::as_slice);
        let configure = || mount::configure(device, fs_type, options, access);
        let context = configure()?;
        if let Verdict::Make(_) = verdict {
            self.make(device, fs_type)?;
        }
        match (verdict, access) {
            (Verdict::Use(FsType::Ext4), StorageAccess::ReadWrite) => ext4::check_and_grow(device)?,
            (_, StorageAccess::Untouched) => self.require_clean(device, fs_type)?,
            _ => {}
        }
        if fs_type == FsType::Btrfs {
            btrfs::prepare(device)?;
        }
        let mount = mount::mount(context, configure, device, fs_type, flags)?;
        self.durable.set_intent(self.key, None)?;
        if writes {
            match fs_type {
                FsType::Ext4 => {}
                // A small file system must stay usable, though it cannot be expanded yet.
                FsType::Btrfs if !btrfs::can_grow(device)? => {}
                FsType::Xfs | FsType::Btrfs => grow(device, &mount, fs_type)?,
            }
        }
        Ok(mount)
    }

    fn make(&self, device: &BlockDevice, fs_type: FsType) -> Result<(), MountError> {
        // It has the time in it.
        let uuid = Uuid::now_v7();
        let intent = format_intent(self.source, device, fs_type.name(), uuid)?;
        self.durable.set_intent(self.key, Some(intent))?;
        let tool = make_call(&device.path, fs_type, uuid);
        // The kernel reports errors of earlier writes to the first caller of fsync. This call consumes them, so that the fsync below reports only
        // ours.
        let _ = fsync(&device.file);
        let complete = || Ok(Some(tool.run()?).filter(|it| !btrfs::check_met_a_detach(it)));
        let output = match exclusive::retry(complete)? {
            Some(output) => output,
            None => tool.run()?,
        };
        if output.status != 0 {
            return Err(disk_full(device).unwrap_or_else(|| tool.failed(&output)));
        }
        // The intent is cleared soon, and the whole file system must be on stable storage before. The close by `mkfs` did not ensure that, because
        // this host has the device open too.
        fsync(&device.file)
            .map_err(|errno| disk_full(device).unwrap_or_else(|| kernel("fsync", device, errno)))
    }

    /// Whether the device contains what a killed `mkfs` of this host left, and was never mounted since. Only then is a device formatted that is not
    /// blank.
    ///
    /// The intent alone does not prove that: while this node was down, the volume may have been formatted and used on another node, and damaged
    /// since. So the content must have the UUID of the intent or the mark of an unfinished `mkfs`, and must show that it was never mounted. The order
    /// in which each `mkfs` writes was determined by killing it at every moment (`tests/interrupted`).
    fn is_unfinished(
        &self,
        device: &BlockDevice,
        requested: FsType,
        content: &Content,
    ) -> Result<bool, MountError> {
        let Some(intent) = self.durable.intent(self.key) else {
            return Ok(false);
        };
        let now = format_intent(self.source, device, requested.name(), intent.uuid)?;
        if !intent.is_of(&now) {
            return Ok(false);
        }
        match (content, requested) {
            (Content::Blank, _) => Ok(true),
            // `mkfs.ext4` writes its superblock last, so there is no UUID to compare. A device of the node can be moved to another node; an image of
            // a pool belongs to this host.
            (Content::Unsigned { .. }, FsType::Ext4)
                if device.backing.is_some() || is_recent(intent.uuid, SystemTime::now()) =>
            {
                ext4::has_no_copy_of_another(device, intent.uuid)
            }
            // `mkfs.btrfs` writes its magic number last.
            (Content::Unsigned { .. }, FsType::Btrfs) => btrfs::is_being_made(device),
            (Content::Broken(FsType::Ext4) | Content::Filesystem(FsType::Ext4), FsType::Ext4) => {
                ext4::was_never_mounted(device, intent.uuid)
            }
            // `mkfs.xfs` writes its superblock first, and never with a wrong checksum.
            (Content::Filesystem(FsType::Xfs), FsType::Xfs) => {
                xfs::was_never_mounted(device, intent.uuid)
            }
            _ => Ok(false),
        }
    }

    fn require_clean(&self, device: &BlockDevice, fs_type: FsType) -> Result<(), MountError> {
        let is_clean = match fs_type {
            FsType::Ext4 => ext4::is_clean(device)?,
            FsType::Xfs => xfs::is_clean(device)?,
            FsType::Btrfs => btrfs::is_clean(device)?,
        };
        if is_clean {
            return Ok(());
        }
        Err(MountError::unusable(
            device,
            "its journal is not empty, and a volume that several nodes read must not be written to; stage it once with a writable access mode",
        ))
    }
}

/// The intent to write what is called `name` on a device, with this UUID.
pub(crate) fn format_intent(
    source: &Source,
    device: &BlockDevice,
    name: &str,
    uuid: Uuid,
) -> Result<FormatIntent, MountError> {
    Ok(FormatIntent {
        source: source.clone(),
        backing: device.backing,
        size_bytes: device.size_bytes()?,
        fs_type: name.to_owned(),
        uuid,
    })
}

fn is_recent(uuid: Uuid, now: SystemTime) -> bool {
    age(uuid, now).is_some_and(|age| age < INTENT_TIME)
}

/// Expands a mounted file system to the size of its device. `root` is the root of its mount.
pub(crate) fn grow(
    device: &BlockDevice,
    root: &OwnedFd,
    fs_type: FsType,
) -> Result<(), MountError> {
    match fs_type {
        FsType::Ext4 => ext4::grow(device),
        FsType::Xfs => xfs::grow(device, root),
        FsType::Btrfs => btrfs::grow(device, root),
    }
}

/// A loop device reports "input/output error" when the disk of its image is full, so the disk itself is queried. `None`: the disk is not full.
pub(crate) fn disk_full(device: &BlockDevice) -> Option<MountError> {
    let image = loop_device::backing_path(device.record().number)?;
    let disk = statvfs(&image).ok()?;
    (disk.f_bavail == 0).then(|| {
        MountError::no_space(
            format!("a file system on {device}"),
            "the disk of its pool is full; free space, then the next call continues",
        )
    })
}

/// The `mkfs` of a type, with the option of each tool that overwrites existing content.
fn make_call(path: &Path, fs_type: FsType, uuid: Uuid) -> ToolCall {
    let (text, option) = (uuid.to_string(), format!("uuid={uuid}"));
    let (program, arguments): (_, &[&str]) = match fs_type {
        // No blocks are reserved for root: its daemons do not use volumes. The kernel fills the inode tables later (the default of mke2fs).
        FsType::Ext4 => ("mkfs.ext4", &["-F", "-m0", "-U", &text]),
        FsType::Xfs => ("mkfs.xfs", &["-f", "-m", &option]),
        // With a given UUID, `mkfs.btrfs` reads every block device of the node to verify that the UUID is unique (`test_uuid_unique`), and one of
        // them may hang. While it works, its own mark in the superblock shows that.
        FsType::Btrfs => ("mkfs.btrfs", &["-f"]),
    };
    tool_call(program, arguments, path, MAKE_WITHIN)
}

/// A little-endian number of two bytes in a superblock.
fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests;
