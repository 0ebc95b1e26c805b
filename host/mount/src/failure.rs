//! Maps error numbers of the kernel to errors of the mounter, and describes why the mounter cannot be set up.

use rustix::io::Errno;
use std::fmt::Display;
use std::path::PathBuf;
use wasmount_core::mounter::MountError;

/// Longest path that an error message shows, in characters: four lines of a terminal. Paths can be 4095 bytes long.
const SHOWN_CHARACTERS: usize = 320;

/// Why the mounter could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum MountSetupError {
    /// A path root is relative, so its meaning would depend on the working directory of the host.
    #[error("path root {root:?} is not absolute; give the full path")]
    RelativeRoot {
        /// The root as it was configured.
        root: PathBuf,
    },
    /// Two hosts with the same journal would undo each other's work. With the same records of format intents, they could format a device that the
    /// other host has mounted.
    #[error(
        "the {kind} directory {path:?} is used by another host; stop that host, or name another {parent} directory"
    )]
    InUse {
        /// The content of the directory.
        kind: &'static str,
        /// Which directory.
        path: PathBuf,
        /// Its parent directory.
        parent: &'static str,
    },
    /// The directory of the journal, or of the state that must outlive a reboot, cannot be used.
    #[error(
        "cannot {operation} the {kind} directory {path:?}; choose another {parent} directory or correct its rights"
    )]
    Directory {
        /// The operation that failed.
        operation: &'static str,
        /// The content of the directory.
        kind: &'static str,
        /// The directory or file.
        path: PathBuf,
        /// Its parent directory.
        parent: &'static str,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The thread that thaws file systems which a killed host left frozen cannot be started.
    #[error(
        "cannot start the thread that thaws file systems of an earlier host; raise the limit of threads"
    )]
    Thaw {
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
}

/// The error of a system call on an object.
pub(crate) fn kernel(operation: &str, object: impl Display, errno: Errno) -> MountError {
    if matches!(errno, Errno::NOSPC | Errno::DQUOT) {
        return MountError::no_space(object, format!("{operation}: {}", describe(errno)));
    }
    if let Some(reason) = exhausted(errno) {
        return MountError::out_of_resources(
            format!("{operation} on {object}"),
            format!("{}; {reason}", describe(errno)),
        );
    }
    MountError::kernel(operation, object, errno.raw_os_error(), describe(errno))
}

/// The same for an error of the standard library.
pub(crate) fn io(operation: &str, object: impl Display, error: &std::io::Error) -> MountError {
    let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
    kernel(operation, object, errno)
}

/// A path for a message: escaped and shortened, because it came from a client.
pub(crate) fn shown(path: &str) -> String {
    let mut text: String = path.escape_debug().take(SHOWN_CHARACTERS).collect();
    if text.len() < path.len() {
        text.push_str("..");
    }
    text
}

/// Whether an error number means that a mount exists but its storage is gone (mount-utils, `IsCorruptedMnt`).
pub(crate) fn is_corrupted(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOTCONN
            | Errno::STALE
            | Errno::IO
            | Errno::ACCESS
            | Errno::HOSTDOWN
            | Errno::WOULDBLOCK
            | Errno::NODEV
            | Errno::NXIO
    )
}

/// Advice for an error number that does not concern the call itself, but an exhausted resource of the host or the node.
pub(crate) fn exhausted(errno: Errno) -> Option<&'static str> {
    match errno {
        Errno::MFILE => Some("raise the host's limit of open files (`ulimit -n`, `LimitNOFILE=`)"),
        Errno::NFILE => Some(
            "raise the node's limit of open files (`fs.file-max`), or lower the limit of the processes that use them",
        ),
        Errno::NOMEM => Some("free memory of the node, or raise the limit of the host's container"),
        _ => None,
    }
}

fn describe(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    match errno {
        Errno::PERM => {
            format!(
                "{text}; the host lacks a capability: CAP_SYS_ADMIN for mounts and devices; CAP_CHOWN, CAP_FOWNER, CAP_DAC_OVERRIDE or CAP_FSETID for what others own"
            )
        }
        Errno::NOSYS => format!("{text}; a Linux kernel of at least 5.12 is needed"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::code::Code;

    #[test]
    fn a_full_disk_or_quota_is_no_space() {
        let variant = |errno| match kernel("mkdir", "a", errno) {
            MountError::NoSpace { .. } => "space",
            MountError::Kernel { .. } => "kernel",
            _ => "other",
        };
        assert_eq!(
            [Errno::NOSPC, Errno::DQUOT, Errno::PERM].map(variant),
            ["space", "space", "kernel"]
        );
    }

    #[test]
    fn full_storage_gets_a_retryable_code_and_names_the_limit() {
        for (errno, expected, hint) in [
            (Errno::MFILE, Code::Unavailable, "ulimit -n"),
            (Errno::NFILE, Code::Unavailable, "fs.file-max"),
            (Errno::NOMEM, Code::Unavailable, "memory"),
            (Errno::PERM, Code::Internal, "CAP_SYS_ADMIN"),
        ] {
            let error = kernel("open_tree", "a", errno);
            assert_eq!(error.code(), expected, "{errno}");
            assert!(error.to_string().contains(hint), "{error}");
        }
    }

    #[test]
    fn a_long_or_odd_path_is_shown_short_and_escaped() {
        assert_eq!(shown("/a\nb"), "/a\\nb");
        assert!(shown(&"x".repeat(4000)).len() < 400);
    }
}
