//! Configures a file system with `fsopen(2)`. Each option is a separate string, so that none can hide in another, and the resulting mount is
//! detached. Messages never contain an option's value.

use crate::failure::{exhausted, kernel};
use crate::plan::label::CONTEXT;
use crate::plan::options::MountFlags;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, fsconfig_create, fsconfig_create_exclusive, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;
use zeroize::Zeroizing;

/// Longest message that is read, in bytes. The kernel's own messages are one line.
const MESSAGE_BYTES: usize = 512;
/// The number of messages that a context keeps (`struct fc_log` of the kernel).
const MESSAGES: usize = 8;

/// A file system that is not mounted yet. If it is dropped before the mount, nothing remains.
#[derive(Debug)]
pub(crate) struct FsContext {
    context: OwnedFd,
    /// What is mounted, for messages.
    what: String,
}

impl FsContext {
    /// Starts with a file system type.
    pub(crate) fn open(fs_type: &str, what: impl Into<String>) -> Result<Self, MountError> {
        let what = what.into();
        match fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC) {
            Ok(context) => Ok(Self { context, what }),
            // The kernel has already tried modprobe.
            Err(Errno::NODEV) => Err(MountError::unsupported(
                format!("file system `{fs_type}` for {what}"),
                format!(
                    "this kernel has no file system `{fs_type}`; load its module (`modprobe {}`) or install it on the node",
                    module(fs_type)
                ),
            )),
            Err(errno) => Err(kernel("fsopen", what, errno)),
        }
    }

    /// Sets an option. An empty value sets a flag. One string is one option: the kernel never splits a value.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<(), MountError> {
        let done = if value.is_empty() {
            fsconfig_set_flag(&self.context, name)
        } else {
            fsconfig_set_string(&self.context, name, value)
        };
        let blame = match value {
            "" => Blame::argument(name),
            value => Blame::argument(format!("{name}={value}")),
        };
        done.map_err(|errno| self.not_taken(name, errno, blame))
    }

    /// Sets an option with a secret value. No copy of the value is left in memory.
    pub(crate) fn set_secret(&self, name: &str, value: &str) -> Result<(), MountError> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(value.len() + 1));
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
        CStr::from_bytes_with_nul(&bytes)
            .map_err(|_| Errno::INVAL)
            .and_then(|value| fsconfig_set_string(&self.context, name, value))
            .map_err(|errno| self.not_taken(name, errno, Blame::Of(Owner::Secret)))
    }

    /// Makes the kernel open the storage. The meaning of an error number depends on the file system, so the caller writes the message.
    ///
    /// With `exclusive` the kernel returns `EBUSY` if the file system is mounted already. Otherwise it would return the existing file system with the
    /// options of its first mount. This needs Linux 6.6; on older kernels only the caller's own check detects it.
    pub(crate) fn create(&self, exclusive: bool) -> Result<(), Errno> {
        if !exclusive {
            return fsconfig_create(&self.context);
        }
        match fsconfig_create_exclusive(&self.context) {
            // An older kernel does not know the command and has not started. `EINVAL` would be the file system's own answer, after which the context
            // cannot be used again.
            Err(Errno::OPNOTSUPP) => fsconfig_create(&self.context),
            result => result,
        }
    }

    /// The kernel's messages about the last failure, line by line. They may repeat values: the caller removes secret ones.
    pub(crate) fn messages(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut line = [0; MESSAGE_BYTES];
        while lines.len() < MESSAGES {
            // `ENODATA`: there are no more messages.
            let Ok(length) = rustix::io::read(&self.context, &mut line) else {
                break;
            };
            let text = String::from_utf8_lossy(line.get(..length).unwrap_or_default());
            // A message starts with a letter for its level and a space.
            let text = text.trim_end();
            lines.push(text.get(2..).unwrap_or(text).to_owned());
        }
        lines
    }

    /// The detached mount.
    pub(crate) fn mount(self, flags: MountFlags) -> Result<OwnedFd, MountError> {
        fsmount(&self.context, FsMountFlags::FSMOUNT_CLOEXEC, flags.set)
            .map_err(|errno| kernel("fsmount", self.what, errno))
    }

    fn not_taken(&self, name: &str, errno: Errno, blame: Blame) -> MountError {
        let option = format!("option `{name}` of {}", self.what);
        match exhausted(errno) {
            Some(_) => kernel("fsconfig", &self.what, errno),
            // SELinux checks the label only when the storage is opened. Here the kernel does not know the option at all.
            None if name == CONTEXT => MountError::unsupported(
                option,
                "this node's kernel has no SELinux, or it is off; remove the option from the request, or `seLinuxMount` from the CSIDriver object",
            ),
            None => MountError::invalid(option, "the kernel rejects it", blame),
        }
    }
}

/// The kernel module of a type, if it has another name.
pub(crate) fn module(fs_type: &str) -> &str {
    match fs_type {
        "nfs" | "nfs4" => "nfsv4",
        "smb3" => "cifs",
        other => other,
    }
}
