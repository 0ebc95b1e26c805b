//! A file system that is being set up, by `fsopen(2)`: each option is a word of its own, so that none can hide in another, and the mount that
//! comes out is attached nowhere.
//! No value is repeated in a message.

use crate::failure::{exhausted, invalid, kernel, unsupported};
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

/// Longest message that is read, in bytes; the kernel's own are one line.
const MESSAGE_BYTES: usize = 512;
/// As many messages as a context keeps (`struct fc_log` of the kernel).
const MESSAGES: usize = 8;

/// One file system, not mounted yet. Dropped before it is, nothing is left of it.
#[derive(Debug)]
pub(crate) struct FsContext {
    context: OwnedFd,
    /// For messages: what is mounted.
    what: String,
}

impl FsContext {
    /// Begins with a type.
    pub(crate) fn open(fs_type: &str, what: impl Into<String>) -> Result<Self, MountError> {
        let what = what.into();
        match fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC) {
            Ok(context) => Ok(Self { context, what }),
            // The kernel has asked modprobe already.
            Err(Errno::NODEV) => Err(unsupported(
                format!("file system `{fs_type}` for {what}"),
                format!(
                    "this kernel has no file system `{fs_type}`; load its module (`modprobe {}`) or install it on the node",
                    module(fs_type)
                ),
            )),
            Err(errno) => Err(kernel("fsopen", what, errno)),
        }
    }

    /// Sets an option; an empty value: a flag. One word is one option: what a value holds is never taken apart.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<(), MountError> {
        let done = if value.is_empty() {
            fsconfig_set_flag(&self.context, name)
        } else {
            fsconfig_set_string(&self.context, name, value)
        };
        let blame = match value {
            "" => Blame::word(name),
            value => Blame::word(format!("{name}={value}")),
        };
        done.map_err(|errno| self.not_taken(name, errno, blame))
    }

    /// Sets an option whose value nobody may see: no copy of it is left in memory.
    pub(crate) fn set_secret(&self, name: &str, value: &str) -> Result<(), MountError> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(value.len() + 1));
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
        CStr::from_bytes_with_nul(&bytes)
            .map_err(|_| Errno::INVAL)
            .and_then(|value| fsconfig_set_string(&self.context, name, value))
            .map_err(|errno| self.not_taken(name, errno, Blame::Of(Owner::Secret)))
    }

    /// Has the kernel open the storage. What an error number means here depends on the file system, so the caller words it.
    ///
    /// With `exclusive` the kernel refuses with `EBUSY` what is mounted already, where it would else hand out the same file system once
    /// more, with the options of the first mount (Linux 6.6; before, only the caller's own look can tell).
    pub(crate) fn create(&self, exclusive: bool) -> Result<(), Errno> {
        if !exclusive {
            return fsconfig_create(&self.context);
        }
        match fsconfig_create_exclusive(&self.context) {
            // An older kernel does not know the command, and has not begun. `EINVAL` would be the file system's own answer, after which
            // the context is spent.
            Err(Errno::OPNOTSUPP) => fsconfig_create(&self.context),
            result => result,
        }
    }

    /// What the kernel has to say of the last failure, line by line. It may repeat values: the caller leaves out what nobody may see.
    pub(crate) fn messages(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut line = [0; MESSAGE_BYTES];
        while lines.len() < MESSAGES {
            // `ENODATA`: that was the last one.
            let Ok(length) = rustix::io::read(&self.context, &mut line) else {
                break;
            };
            let text = String::from_utf8_lossy(line.get(..length).unwrap_or_default());
            // A letter for the level, and a space.
            let text = text.trim_end();
            lines.push(text.get(2..).unwrap_or(text).to_owned());
        }
        lines
    }

    /// The mount, attached nowhere.
    pub(crate) fn mount(self, flags: MountFlags) -> Result<OwnedFd, MountError> {
        fsmount(&self.context, FsMountFlags::FSMOUNT_CLOEXEC, flags.set)
            .map_err(|errno| kernel("fsmount", self.what, errno))
    }

    fn not_taken(&self, name: &str, errno: Errno, blame: Blame) -> MountError {
        let option = format!("option `{name}` of {}", self.what);
        match exhausted(errno) {
            Some(_) => kernel("fsconfig", &self.what, errno),
            // SELinux looks at the label only when the storage is opened: here its word itself is not known.
            None if name == CONTEXT => unsupported(
                option,
                "this node's kernel has no SELinux, or it is off; take the option out of the request, or `seLinuxMount` out of the CSIDriver object",
            ),
            None => invalid(option, "the kernel does not take it", blame),
        }
    }
}

/// The module of a type, where it is called otherwise.
pub(crate) fn module(fs_type: &str) -> &str {
    match fs_type {
        "nfs" | "nfs4" => "nfsv4",
        "smb3" => "cifs",
        other => other,
    }
}
