//! Mounts a file system on a device as a detached mount, and verifies that it is the intended device.
//!
//! The path in `/dev` may lead to another device by now, the kernel may return a file system that another process mounted, and the content of the
//! device may be damaged or a copy.

use super::{FsType, StorageAccess};
use crate::block::{BlockDevice, DeviceNumber, reopen};
use crate::exclusive::retry;
use crate::failure::kernel;
use crate::fs_context::FsContext;
use crate::observe::identity;
use crate::plan::options::MountFlags;
use rustix::fs::{OFlags, stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use wasmount_core::mounter::MountError;

/// The option of ext4 for the behaviour after an error. It is never a panic: `plan::options` rejects that.
const ERRORS: &str = "errors";

/// Gives the kernel the mount options. `options` are those of the file system itself. Storage is not accessed, so this can run before anything is
/// written: a device is not formatted for an option that this kernel does not accept.
pub(super) fn configure(
    device: &BlockDevice,
    fs_type: FsType,
    options: &[(String, String)],
    access: StorageAccess,
) -> Result<FsContext, MountError> {
    let context = FsContext::open(fs_type.name(), device.to_string())?;
    let source = device
        .path
        .to_str()
        .ok_or_else(|| MountError::unusable(device, "its path is not text"))?;
    context.set("source", source)?;
    for (name, value) in own_options(fs_type, access, options) {
        context.set(name, value)?;
    }
    for (name, value) in options {
        context.set(name, value)?;
    }
    Ok(context)
}

/// Mounts. A child process of another thread may have a copy of a descriptor that claimed the device a moment ago, and the kernel then answers that
/// it is busy. A failed context cannot be used again (fsconfig(2)), so `configure` makes another one.
pub(super) fn mount(
    context: FsContext,
    configure: impl Fn() -> Result<FsContext, MountError>,
    device: &BlockDevice,
    fs_type: FsType,
    flags: MountFlags,
) -> Result<OwnedFd, MountError> {
    let mut configured = Some(context);
    let created = retry(|| {
        let context = configured.take().map_or_else(&configure, Ok)?;
        match context.create(true) {
            Ok(()) => Ok(Some(context)),
            Err(Errno::BUSY) => Ok(None),
            Err(errno) => Err(refused(device, fs_type, errno)),
        }
    });
    let context = created?.ok_or_else(|| in_use(device))?;
    let mount = context.mount(flags)?;
    verify(device, fs_type, &mount)?;
    Ok(mount)
}

/// Verifies that the device's path still leads to it.
pub(crate) fn require_path(device: &BlockDevice) -> Result<(), MountError> {
    let found = stat(&device.path).map_err(|errno| kernel("stat", device, errno))?;
    if DeviceNumber::of_node(&found) == Some(device.number) {
        return Ok(());
    }
    let number = device.number;
    let reason = format!("its path does not lead to device {number} any more; try again");
    Err(MountError::unusable(device, reason))
}

/// Refuses a device that is mounted, or that a volume manager or another host holds. A mount of this host that was just dropped may live on for a
/// moment.
pub(crate) fn require_free(device: &BlockDevice) -> Result<(), MountError> {
    let is_free = || Ok((!is_held(device)?).then_some(()));
    retry(is_free)?.ok_or_else(|| in_use(device))
}

/// The options that the host sets itself.
fn own_options(
    fs_type: FsType,
    access: StorageAccess,
    requested: &[(String, String)],
) -> Vec<(&'static str, &'static str)> {
    let mut options = Vec::new();
    if fs_type == FsType::Ext4 && !requested.iter().any(|(name, _)| name == ERRORS) {
        // Otherwise the superblock decides, and its author may have chosen a panic of the node (ext4(5)).
        options.push((ERRORS, "remount-ro"));
    }
    if access != StorageAccess::ReadWrite {
        options.push(("ro", ""));
    }
    if access == StorageAccess::Untouched {
        // Even a read-only mount replays the journal, which writes to the device.
        options.push(match fs_type {
            FsType::Ext4 => ("noload", ""),
            FsType::Xfs => ("norecovery", ""),
            FsType::Btrfs => ("rescue", "nologreplay"),
        });
    }
    if fs_type == FsType::Xfs {
        // A clone or a restored snapshot has the UUID of its origin, which may be mounted at the same time.
        options.push(("nouuid", ""));
    }
    options
}

/// Maps an error number of the kernel to an error.
fn refused(device: &BlockDevice, fs_type: FsType, errno: Errno) -> MountError {
    match errno {
        // EFSCORRUPTED and EFSBADCRC of the kernel's file systems.
        Errno::UCLEAN | Errno::BADMSG => {
            let (name, repair) = (fs_type.name(), fs_type.repair());
            let fault = format!("the kernel found errors in its {name} (`dmesg` says which)");
            MountError::damaged(device, format!("{fault}; {repair}"))
        }
        Errno::ROFS | Errno::ACCESS => MountError::unusable(
            device,
            "it is read-only, and the journal of its file system is not empty; stage it once with a writable access mode",
        ),
        Errno::EXIST => MountError::unusable(
            device,
            "a file system with the same UUID is mounted, and this kernel does not mount copies side by side (Linux 6.7 does); give this one another UUID (`btrfstune -u`)",
        ),
        Errno::INVAL => MountError::unusable(
            device,
            format!(
                "the kernel rejects its {}: it does not know these mount options or this version, or the superblock is damaged (`dmesg` says which)",
                fs_type.name()
            ),
        ),
        errno => kernel("mount", device, errno),
    }
}

/// Verifies that the mount shows this device and no other.
///
/// The root of ext4 and xfs has the device's number. The root of btrfs has its own number, so another proof is needed, which holds for all types: the
/// mount is new (`create` is exclusive), the path led to the device, and the device was free before and is claimed now.
fn verify(device: &BlockDevice, fs_type: FsType, mount: &OwnedFd) -> Result<(), MountError> {
    let number = DeviceNumber::of_file_system(identity(mount, device)?);
    let is_right = fs_type == FsType::Btrfs || number == device.number;
    require_path(device)?;
    if is_right && is_held(device)? {
        return Ok(());
    }
    Err(MountError::unusable(
        device,
        "another device was mounted in its place, and unmounted again; something changes `/dev` during calls",
    ))
}

/// Whether the device is claimed: a mount claims it, and so does an exclusive open. The check uses the descriptor, so it concerns this device.
fn is_held(device: &BlockDevice) -> Result<bool, MountError> {
    match reopen(&device.file, OFlags::RDONLY | OFlags::EXCL) {
        Ok(_) => Ok(false),
        Err(Errno::BUSY) => Ok(true),
        Err(errno) => Err(kernel("open", device, errno)),
    }
}

fn in_use(device: &BlockDevice) -> MountError {
    let by = "it is mounted, or held by a volume manager; `lsblk` on the node shows where";
    MountError::in_use(device, by)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: (&str, &str) = ("errors", "remount-ro");

    #[test]
    fn the_host_sets_what_the_access_demands() {
        use StorageAccess::{ReadOnly, ReadWrite, Untouched};
        for (fs_type, access, expected) in [
            (FsType::Ext4, ReadWrite, &[CALM][..]),
            (FsType::Ext4, ReadOnly, &[CALM, ("ro", "")][..]),
            (FsType::Ext4, Untouched, &[CALM, ("ro", ""), ("noload", "")]),
            (FsType::Xfs, ReadWrite, &[("nouuid", "")]),
            (FsType::Xfs, ReadOnly, &[("ro", ""), ("nouuid", "")]),
            (
                FsType::Xfs,
                Untouched,
                &[("ro", ""), ("norecovery", ""), ("nouuid", "")],
            ),
            (FsType::Btrfs, ReadWrite, &[]),
            (
                FsType::Btrfs,
                Untouched,
                &[("ro", ""), ("rescue", "nologreplay")],
            ),
        ] {
            assert_eq!(
                own_options(fs_type, access, &[]),
                expected,
                "{fs_type:?} {access:?}"
            );
        }
    }

    #[test]
    fn only_requested_fields_follow_an_error() {
        let requested = |value: &str| [("errors".to_owned(), value.to_owned())];
        for value in ["continue", "remount-ro"] {
            let options = own_options(FsType::Ext4, StorageAccess::ReadWrite, &requested(value));
            assert_eq!(options, []);
        }
    }
}
