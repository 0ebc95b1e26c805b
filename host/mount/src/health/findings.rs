//! Interprets the facts of one path: status, reason and a message with advice.
//!
//! A full volume is not a finding: statistics show it. A fact that cannot be determined is not a finding either, so that alarms stay meaningful.

use rustix::io::Errno;
use wasmount_core::health::{Health, HealthStatus};

/// The facts of one path of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) root: Root,
    /// The record says that users only read.
    pub(super) is_read_only: bool,
    /// The block device below the volume, if there is one.
    pub(super) device: Option<Device>,
}

/// The root of the mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Root {
    /// The recorded mount is not there.
    Lost,
    /// It is a directory of a pool that was removed from the pool.
    Removed,
    /// Access to it failed.
    Failed(Errno),
    /// A raw block volume: the host mounts no file system of it.
    Raw,
    Shown(FileSystem),
}

/// A file system that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileSystem {
    /// It is read-only on this node, whatever the reason (`statfs(2)`, `ST_RDONLY`).
    pub(super) is_read_only: bool,
    /// The state of the file system itself in the mount table. It is read only if it can make a difference.
    pub(super) itself: Option<SuperBlock>,
}

/// State of a file system, independent of its mounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SuperBlock {
    pub(super) is_read_only: bool,
    pub(super) is_shut_down: bool,
}

/// The block device below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Device {
    /// The kernel has no device with that number, or the number belongs to another device.
    Gone,
    /// It could not be queried.
    Failed(Errno),
    There {
        image: Image,
        /// Number of errors that the file system on it has counted.
        errors: u64,
    },
}

/// The image behind a loop device, as its pool shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Image {
    /// The image is complete, or there is none, or its state cannot be determined.
    Sound,
    Removed,
    /// Another file, or no file, has its path. The image itself may still exist elsewhere.
    Moved,
    /// It was truncated below the size of the device.
    Short {
        image_bytes: u64,
        device_bytes: u64,
    },
}

impl SuperBlock {
    /// Parses the last field of a line of the mount table. Since Linux 6.15, an ext4 that an error made read-only shows `emergency_ro` there and
    /// nowhere else; one that was shut down shows `shutdown` (`_ext4_show_options`).
    pub(super) fn parse(options: &str) -> Self {
        let has = |name: &str| options.split(',').any(|option| option == name);
        Self {
            is_read_only: has("ro") || has("emergency_ro"),
            is_shut_down: has("shutdown"),
        }
    }
}

/// Whether an error number means that storage is gone or returns invalid data, and not that this host lacks permission.
pub(super) fn is_failure(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::IO
            | Errno::NOTCONN
            | Errno::CONNABORTED
            | Errno::STALE
            | Errno::SHUTDOWN
            | Errno::NODEV
            | Errno::NXIO
            | Errno::NOMEDIUM
            | Errno::REMOTEIO
            | Errno::TIMEDOUT
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            // `EFSCORRUPTED` and `EFSBADCRC` of the kernel's file systems.
            | Errno::UCLEAN
            | Errno::BADMSG
    )
}

/// All findings at a path, those of the device first. `what` names volume and path.
pub(super) fn findings(what: &str, facts: &Facts) -> Vec<Health> {
    let device = facts.device.iter().flat_map(of_device);
    let found = device.chain(of_root(&facts.root, facts.is_read_only));
    found
        .map(|(status, reason, message)| Health {
            status,
            reason: reason.to_owned(),
            message: format!("{what}: {message}"),
        })
        .collect()
}

type Finding = (HealthStatus, &'static str, String);

fn finding(status: HealthStatus, reason: &'static str, message: impl Into<String>) -> Finding {
    (status, reason, message.into())
}

fn of_root(root: &Root, is_meant_read_only: bool) -> Option<Finding> {
    match root {
        Root::Raw => None,
        Root::Lost => Some(finding(
            HealthStatus::Inaccessible,
            "MountLost",
            "its mount is gone, and nobody unpublished or unstaged it: somebody unmounted it; delete the pods that use it, so that it is mounted anew",
        )),
        Root::Removed => Some(finding(
            HealthStatus::DataLoss,
            "DirectoryGone",
            "its directory was removed from the pool, with what it held; delete the pods that use it, and restore the volume",
        )),
        Root::Failed(errno) => Some(io_error(*errno)),
        Root::Shown(file_system) => of_file_system(file_system, is_meant_read_only),
    }
}

fn of_file_system(file_system: &FileSystem, is_meant_read_only: bool) -> Option<Finding> {
    let itself = file_system.itself.unwrap_or_default();
    if itself.is_shut_down {
        Some(finding(
            HealthStatus::Inaccessible,
            "IoError",
            "its file system was shut down after an error, or by a person; look at the kernel's log, then delete the pods that use it, so that it is checked and mounted anew",
        ))
    } else if is_meant_read_only || !(file_system.is_read_only || itself.is_read_only) {
        None
    } else if itself.is_read_only {
        Some(finding(
            HealthStatus::Degraded,
            "ReadOnlyAfterError",
            "its file system was made read-only, by the kernel because of an error or by a person; look at the kernel's log, then delete the pods that use it, so that it is checked and mounted anew",
        ))
    } else {
        Some(finding(
            HealthStatus::Degraded,
            "MountMadeReadOnly",
            "its mount, and not its file system, was made read-only: a person did that; remount it for writing, or delete the pods that use it",
        ))
    }
}

fn of_device(device: &Device) -> Vec<Finding> {
    let (image, errors) = match device {
        Device::Gone => {
            return vec![finding(
                HealthStatus::Inaccessible,
                "DeviceGone",
                "its block device is gone from this node, or its number is another device's now; look at the kernel's log and at the disk or server behind it",
            )];
        }
        Device::Failed(errno) => return vec![io_error(*errno)],
        Device::There { image, errors } => (image, *errors),
    };
    let image = match image {
        Image::Sound => None,
        Image::Removed => Some(finding(
            HealthStatus::DataLoss,
            "ImageGone",
            "its image was removed from the pool: what it holds is lost when it is unstaged; copy its data away from a pod that still runs",
        )),
        Image::Moved => Some(finding(
            HealthStatus::DataLoss,
            "ImageGone",
            "its image is not at its place in the pool any more, so that the next stage will not find its data; move the image back",
        )),
        Image::Short {
            image_bytes,
            device_bytes,
        } => Some(finding(
            HealthStatus::DataLoss,
            "ImageTruncated",
            format!(
                "its image was cut to {image_bytes} bytes below a device of {device_bytes}: what lay behind is lost; restore the volume"
            ),
        )),
    };
    let errors = (errors > 0).then(|| {
        finding(
            HealthStatus::Degraded,
            "FileSystemErrors",
            format!(
                "its file system or the disk below has had {errors} errors; look at the kernel's log; an ext4 is checked when it is next staged, a btrfs counts on until `btrfs device stats --reset`"
            ),
        )
    });
    image.into_iter().chain(errors).collect()
}

fn io_error(errno: Errno) -> Finding {
    let error = std::io::Error::from(errno);
    finding(
        HealthStatus::Inaccessible,
        "IoError",
        format!(
            "its storage answers with an error ({error}); look at the kernel's log and at the disk or server behind it"
        ),
    )
}

#[cfg(test)]
mod tests;
