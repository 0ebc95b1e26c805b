//! File systems on block devices: which one is there, making one where there is none, checking, mounting and growing it.
//! Data can be lost here: what may be formatted is decided in one pure place, `decision`.

mod btrfs;
mod content;
mod decision;
mod ext4;
mod mount;
mod xfs;

use crate::block::{BlockDevice, loop_device};
use crate::durable::{Durable, FormatIntent};
use crate::failure::kernel;
use crate::fs_type::{BlockFilesystem, FsType, StorageAccess};
use crate::plan::options::MountFlags;
use crate::tools::ToolCall;
use content::Content;
use decision::{Verdict, decide};
use rustix::fs::{fsync, statvfs};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;
use uuid::Uuid;
use wasmount_core::mounter::{MountError, VolumeKey};
use wasmount_core::plan::Source;

/// How long an `mkfs` may take. 30 minutes: it writes little, but first it discards the whole device, which some arrays do at 1 GiB/s.
const MAKE_WITHIN: Duration = Duration::from_mins(30);

/// What it takes to bring the device of one volume to a mount.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Formatting<'a> {
    pub(crate) durable: &'a Durable,
    pub(crate) key: &'a VolumeKey,
    /// As recorded: for the format intent.
    pub(crate) source: &'a Source,
}

impl Formatting<'_> {
    /// Makes a file system if the device is blank, checks and grows it if users write, and mounts it, attached nowhere.
    ///
    /// The format intent is on stable storage before the first byte is written, and is taken back when the kernel has mounted the result and
    /// nobody can write to it yet. Killed in between, the next call begins anew.
    pub(crate) fn mount(
        &self,
        device: &BlockDevice,
        requested: &BlockFilesystem,
        access: StorageAccess,
        flags: MountFlags,
    ) -> Result<(OwnedFd, FsType), MountError> {
        mount::require_path(device)?;
        mount::require_free(device)?;
        let writes = access == StorageAccess::ReadWrite;
        if writes && device.is_read_only {
            return Err(unusable(
                device,
                "it is read-only and writing is asked for; ask for a read-only volume, or make the storage writable",
            ));
        }
        let content = content::look(device)?;
        let is_unfinished = self.is_unfinished(device, requested.wanted, &content)?;
        let verdict = decide(device, &content, is_unfinished, requested, access)?;
        let (Verdict::Make(fs_type) | Verdict::Use(fs_type)) = verdict;
        let options = requested
            .options
            .get(&fs_type)
            .map_or(&[][..], Vec::as_slice);
        let context = mount::configure(device, fs_type, options, access)?;
        if let Verdict::Make(_) = verdict {
            self.make(device, fs_type)?;
        }
        match (fs_type, access) {
            (FsType::Ext4, StorageAccess::ReadWrite) => ext4::check_and_grow(device)?,
            (_, StorageAccess::Untouched) => self.require_clean(device, fs_type)?,
            _ => {}
        }
        if fs_type == FsType::Btrfs {
            btrfs::prepare(device)?;
        }
        let mount = mount::mount(context, device, fs_type, flags)?;
        self.durable.clear_intent(self.key)?;
        if writes {
            match fs_type {
                FsType::Ext4 => {}
                // A small one must stay usable, though it cannot grow yet.
                FsType::Btrfs if !btrfs::can_grow(device)? => {}
                FsType::Xfs | FsType::Btrfs => grow(device, &mount, fs_type)?,
            }
        }
        Ok((mount, fs_type))
    }

    fn make(&self, device: &BlockDevice, fs_type: FsType) -> Result<(), MountError> {
        let uuid = Uuid::new_v4();
        let intent = self.intent(device, fs_type, uuid)?;
        self.durable.set_intent(self.key, intent)?;
        let tool = make_call(&device.path, fs_type, uuid);
        // Errors of writes before ours are reported to whoever asks first: not to the question below.
        let _ = fsync(&device.file);
        let output = tool.run()?;
        if output.status != 0 {
            return Err(no_room(device).unwrap_or_else(|| tool.failed(&output)));
        }
        // The intent is taken back soon, and must not be before all of it is on stable storage. Closing did not see to that: we have the
        // device open too.
        fsync(&device.file).map_err(|errno| {
            no_room(device).unwrap_or_else(|| kernel("fsync", describe(device), errno))
        })
    }

    fn intent(
        &self,
        device: &BlockDevice,
        fs_type: FsType,
        uuid: Uuid,
    ) -> Result<FormatIntent, MountError> {
        Ok(FormatIntent {
            source: self.source.clone(),
            backing: device.backing,
            size_bytes: device.size_bytes()?,
            fs_type: fs_type.name().to_owned(),
            uuid,
        })
    }

    /// Whether what is there is what a killed `mkfs` of ours left, and nobody has mounted since. Only then something that is not blank is
    /// formatted.
    ///
    /// The intent alone does not say so: while this node was down, the volume may have been formatted and used on another, and damaged since. So
    /// what is there must be called as we said, or show the mark of an unfinished `mkfs`, and show that nobody has mounted it. In which order
    /// each `mkfs` writes was found by killing it at every moment (`tests/interrupted`).
    fn is_unfinished(
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
        match (content, wanted) {
            (Content::Blank, _) => Ok(true),
            // Its superblock is the last that `mkfs.ext4` writes, so there is no name to go by. A device of the node goes from node to node;
            // a pool's image is this host's own.
            (Content::Unsigned { .. }, FsType::Ext4) if device.backing.is_some() => {
                ext4::has_no_copy_of_another(device, intent.uuid)
            }
            // Its magic number is the last that `mkfs.btrfs` writes.
            (Content::Unsigned { .. }, FsType::Btrfs) => btrfs::is_being_made(device),
            (Content::Broken(FsType::Ext4) | Content::Filesystem(FsType::Ext4), FsType::Ext4) => {
                ext4::was_never_mounted(device, intent.uuid)
            }
            // Its superblock is the first that `mkfs.xfs` writes, and never with a wrong checksum.
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
        Err(unusable(
            device,
            "its journal is not empty, and a volume that several nodes read must not be written to; stage it once with a writable mode",
        ))
    }
}

/// Grows a mounted file system to the size of its device. `root` is of its mount.
pub(crate) fn grow(
    device: &BlockDevice,
    root: &OwnedFd,
    fs_type: FsType,
) -> Result<(), MountError> {
    match fs_type {
        FsType::Ext4 => ext4::grow_mounted(device),
        FsType::Xfs => xfs::grow(device, root),
        FsType::Btrfs => btrfs::grow(device, root),
    }
}

/// A loop device says "input/output error" where the disk of its image is full: asked of the disk itself. `None`: that is not why.
fn no_room(device: &BlockDevice) -> Option<MountError> {
    let image = loop_device::backing_path(device.number)?;
    let disk = statvfs(&image).ok()?;
    (disk.f_bavail == 0).then(|| MountError::NoSpace {
        what: format!("a file system on {}", describe(device)),
        reason: "the disk of its pool is full; make room, then the next try goes on".to_owned(),
    })
}

/// The `mkfs` of a type. Each with its own way to say: whatever is there.
fn make_call(path: &Path, fs_type: FsType, uuid: Uuid) -> ToolCall {
    let (text, option) = (uuid.to_string(), format!("uuid={uuid}"));
    let (program, arguments): (_, &[&str]) = match fs_type {
        // No blocks kept for root: its daemons do not live on volumes. The kernel fills the inode tables later (the default of mke2fs).
        FsType::Ext4 => ("mkfs.ext4", &["-F", "-m0", "-U", &text]),
        FsType::Xfs => ("mkfs.xfs", &["-f", "-m", &option]),
        // Told its UUID, it reads every block device of the node to see that none has it (`test_uuid_unique`), and one may hang. While it works,
        // a mark of its own says so.
        FsType::Btrfs => ("mkfs.btrfs", &["-f"]),
    };
    tool_call(program, arguments, path, MAKE_WITHIN)
}

/// A program with its arguments, the last of which is the device.
fn tool_call(
    program: &'static str,
    arguments: &[&str],
    path: &Path,
    deadline: Duration,
) -> ToolCall {
    let mut arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    arguments.push(path.into());
    ToolCall {
        program,
        arguments,
        object: path.display().to_string(),
        deadline,
    }
}

fn unusable(device: &BlockDevice, reason: impl Into<String>) -> MountError {
    MountError::Unusable {
        what: describe(device),
        reason: reason.into(),
    }
}

fn damaged(device: &BlockDevice, reason: impl Into<String>) -> MountError {
    MountError::Damaged {
        what: describe(device),
        reason: reason.into(),
    }
}

/// A number of two bytes of a superblock, the lowest first.
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

fn describe(device: &BlockDevice) -> String {
    format!("device {}", device.path.display())
}

#[cfg(test)]
mod tests;
