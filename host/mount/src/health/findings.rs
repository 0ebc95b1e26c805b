//! Interprets the state of one path of a volume: status, reason and a message with advice.
//!
//! A full volume is not a finding: statistics show it. A fact that cannot be determined is not a finding either, so that alarms stay meaningful.

use crate::stats::unanswered_text;
use rustix::io::Errno;
use wasmount_core::health::{Health, HealthStatus};

/// What is wrong at one path of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Finding {
    #[error("{}", unanswered_text())]
    NotAnswering,
    /// The recorded mount is not there.
    #[error(
        "its mount is gone, without an unpublish or unstage: it was unmounted from outside; delete the pods that use it, so that it is mounted again"
    )]
    MountLost,
    /// It is a directory of a pool that was removed from the pool.
    #[error(
        "its directory was removed from the pool, with what it held; delete the pods that use it, and restore the volume"
    )]
    DirectoryGone,
    /// Access to the mount or the device failed.
    #[error(
        "its storage answers with an error ({}); look at the kernel's log and at the disk or server behind it",
        std::io::Error::from(*.0)
    )]
    IoError(Errno),
    #[error(
        "its file system was shut down after an error, or by a person; look at the kernel's log, then delete the pods that use it, so that it is checked and mounted again"
    )]
    ShutDown,
    #[error(
        "its file system was made read-only, by the kernel because of an error or by a person; look at the kernel's log, then delete the pods that use it, so that it is checked and mounted again"
    )]
    ReadOnlyAfterError,
    #[error(
        "its mount, and not its file system, was made read-only: a person did that; remount it for writing, or delete the pods that use it"
    )]
    MountMadeReadOnly,
    /// The kernel has no device with that number, or the number belongs to another device.
    #[error(
        "its block device is gone from this node, or its number is another device's now; look at the kernel's log and at the disk or server behind it"
    )]
    DeviceGone,
    #[error(
        "its image was removed from the pool: what it holds is lost when it is unstaged; copy its data away from a pod that still runs"
    )]
    ImageRemoved,
    /// Another file, or no file, has its path. The image itself may still exist elsewhere.
    #[error(
        "its image is not at its place in the pool any more, so that the next stage will not find its data; move the image back"
    )]
    ImageMoved,
    /// It was truncated below the size of the device.
    #[error(
        "its image was truncated to {image_bytes} bytes, and its device has {device_bytes}: the data between is lost; restore the volume"
    )]
    ImageTruncated { image_bytes: u64, device_bytes: u64 },
    /// The file system has counted so many errors.
    #[error(
        "its file system or the disk below has had {0} errors; look at the kernel's log; an ext4 is checked when it is next staged, a btrfs keeps the count until `btrfs device stats --reset`"
    )]
    FileSystemErrors(u64),
}

/// State of a file system, independent of its mounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SuperBlock {
    pub(super) is_read_only: bool,
    pub(super) is_shut_down: bool,
}

impl Finding {
    fn status_and_reason(self) -> (HealthStatus, &'static str) {
        match self {
            Self::NotAnswering => (HealthStatus::Inaccessible, "NotAnswering"),
            Self::MountLost => (HealthStatus::Inaccessible, "MountLost"),
            Self::DirectoryGone => (HealthStatus::DataLoss, "DirectoryGone"),
            Self::IoError(_) | Self::ShutDown => (HealthStatus::Inaccessible, "IoError"),
            Self::ReadOnlyAfterError => (HealthStatus::Degraded, "ReadOnlyAfterError"),
            Self::MountMadeReadOnly => (HealthStatus::Degraded, "MountMadeReadOnly"),
            Self::DeviceGone => (HealthStatus::Inaccessible, "DeviceGone"),
            Self::ImageRemoved | Self::ImageMoved => (HealthStatus::DataLoss, "ImageGone"),
            Self::ImageTruncated { .. } => (HealthStatus::DataLoss, "ImageTruncated"),
            Self::FileSystemErrors(_) => (HealthStatus::Degraded, "FileSystemErrors"),
        }
    }

    /// The answer to a client. `what` names volume and path.
    pub(super) fn health(self, what: &str) -> Health {
        let (status, reason) = self.status_and_reason();
        Health {
            status,
            reason: reason.to_owned(),
            message: format!("{what}: {self}"),
        }
    }

    /// The finding about a file system that answers. `is_read_only`: it is read-only on this node, whatever the reason (`statfs(2)`, `ST_RDONLY`).
    /// `is_meant_read_only`: the record says that users only read.
    pub(super) fn of_file_system(
        itself: SuperBlock,
        is_read_only: bool,
        is_meant_read_only: bool,
    ) -> Option<Self> {
        if itself.is_shut_down {
            Some(Self::ShutDown)
        } else if is_meant_read_only {
            None
        } else if itself.is_read_only {
            Some(Self::ReadOnlyAfterError)
        } else {
            is_read_only.then_some(Self::MountMadeReadOnly)
        }
    }

    /// The findings about a device: that of the image behind it, and the number of errors that the file system on it has counted.
    pub(super) fn of_device(image: Option<Self>, errors: u64) -> Vec<Self> {
        let errors = (errors > 0).then_some(Self::FileSystemErrors(errors));
        image.into_iter().chain(errors).collect()
    }
}

impl SuperBlock {
    /// Parses the last field of a line of the mount table, or the lines of an ext4's own list of options. Since Linux 6.15, an ext4 that an error made
    /// read-only shows `emergency_ro` there and nowhere else; one that was shut down shows `shutdown` (`_ext4_show_options`).
    pub(super) fn parse(options: &str) -> Self {
        let has = |name: &str| options.split([',', '\n']).any(|option| option == name);
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

#[cfg(test)]
mod tests;
