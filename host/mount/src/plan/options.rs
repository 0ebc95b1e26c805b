//! Mount options: checks the options of a plan and of a request against an allow-list, and turns them into flags and file system options.
//!
//! A comma splits one option into two, `suid` reverts what the host sets, `upperdir=` names a path. The value of an option is never repeated in a
//! message: the specification calls mount flags sensitive.

use super::label::{CONTEXT, Label};
use super::own_options::{is_harmless, is_reserved};
use rustix::fs::StatVfsMountFlags;
use rustix::mount::MountAttrFlags;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;

/// Longest option, in bytes: the kernel stores all options of a mount in one page, and every allowed option is much shorter.
const OPTION_BYTES: usize = 256;
/// Longest name that an error message repeats, in characters.
const SHOWN_NAME: usize = 32;

/// Options of an fstab that mount(8) and systemd handle themselves. Users write them out of habit, and the kernel does not know them. They are
/// dropped, as kubelet does for its own mounts, and so are options that begin with `x-`.
const FSTAB_OPTIONS: &[&str] = &["defaults", "_netdev", "nofail", "auto", "noauto", "nouser"];
/// A value that no option may have, whatever was granted: a damaged file system would crash the node.
const PANIC: &str = "panic";

/// Flags of the mount itself, the same for every file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MountFlags {
    /// Flags to set.
    pub(crate) set: MountAttrFlags,
    /// Flags to clear first: the bits of a field for which `set` chooses a value.
    pub(crate) clear: MountAttrFlags,
}

/// The result of checking the options of one mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedOptions {
    pub(crate) flags: MountFlags,
    /// Names and values for the file system.
    pub(crate) own: Vec<(String, String)>,
}

/// The requested mount options.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestedOptions<'w> {
    /// The options of plan and request.
    pub(crate) options: Vec<&'w str>,
    /// The label of the request. A plan has none, unless `context` is granted to it as an option.
    pub(crate) label: Option<Label>,
}

/// The options that the mount of a step allows.
pub(crate) struct Allowed<'a> {
    /// The step's name in the contract.
    pub(crate) step: &'a str,
    /// Options that the administrator granted in addition to the harmless ones.
    pub(crate) granted: &'a [String],
    /// The file system type whose options are accepted in addition to mount flags. `None`: a bind mount, which has no options of its own.
    pub(crate) fs_type: Option<&'a str>,
    /// Whether the administrator lets requests choose the SELinux label (`csiDriver.seLinuxMount`). `None`: the volume has no file system of its own
    /// that could have a label.
    pub(crate) labels: Option<bool>,
}

impl MountFlags {
    /// Flags of a bind mount of a device node: the only mount on which device access is allowed. It contains nothing that could be executed.
    pub(crate) fn of_device() -> Self {
        Self {
            set: MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
            clear: MountAttrFlags::MOUNT_ATTR_NODEV,
        }
    }

    /// The same for a clone of a mount that may have other flags: the clone gets exactly these.
    pub(crate) fn exactly(mut self) -> Self {
        self.clear |= MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC
            | MountAttrFlags::MOUNT_ATTR_NODIRATIME
            | MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW
            | MountAttrFlags::MOUNT_ATTR__ATIME;
        self
    }

    pub(crate) fn is_read_only(self) -> bool {
        self.set.contains(MountAttrFlags::MOUNT_ATTR_RDONLY)
    }

    /// The same, and read-only if requested.
    pub(crate) fn read_only(mut self, read_only: bool) -> Self {
        if read_only {
            self.set |= MountAttrFlags::MOUNT_ATTR_RDONLY;
        }
        self
    }

    /// Whether an existing mount is at least as restricted as this, and read-only exactly if this is.
    pub(crate) fn agree_with(self, there: StatVfsMountFlags) -> bool {
        let restrictions = [
            (MountAttrFlags::MOUNT_ATTR_NOSUID, StatVfsMountFlags::NOSUID),
            (MountAttrFlags::MOUNT_ATTR_NODEV, StatVfsMountFlags::NODEV),
            (MountAttrFlags::MOUNT_ATTR_NOEXEC, StatVfsMountFlags::NOEXEC),
        ];
        restrictions
            .into_iter()
            .all(|(required, found)| !self.set.contains(required) || there.contains(found))
            && self.is_read_only() == there.contains(StatVfsMountFlags::RDONLY)
    }
}

impl Allowed<'_> {
    /// Checks all options of a mount. If two contradict each other, the more restrictive one is used, so that neither plan nor request can undo a
    /// restriction of the other.
    pub(crate) fn check(
        &self,
        requested: &RequestedOptions<'_>,
    ) -> Result<CheckedOptions, MountError> {
        let (mut suid, mut dev) = (false, false);
        let mut set = MountAttrFlags::empty();
        let mut clear = MountAttrFlags::empty();
        let mut own = Vec::new();
        for option in requested.options.iter().copied() {
            self.check_form(option)?;
            match option {
                "ro" => set |= MountAttrFlags::MOUNT_ATTR_RDONLY,
                "rw" => {}
                "nosuid" => set |= MountAttrFlags::MOUNT_ATTR_NOSUID,
                "nodev" => set |= MountAttrFlags::MOUNT_ATTR_NODEV,
                "noexec" => set |= MountAttrFlags::MOUNT_ATTR_NOEXEC,
                "nosymfollow" => set |= MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW,
                "nodiratime" => set |= MountAttrFlags::MOUNT_ATTR_NODIRATIME,
                // `relatime` is the kernel's default; its bits are 0, so there is nothing to set.
                "relatime" => {}
                "noatime" => {
                    set |= MountAttrFlags::MOUNT_ATTR_NOATIME;
                    clear |= MountAttrFlags::MOUNT_ATTR__ATIME;
                }
                "suid" | "dev" | "exec" => {
                    self.require_granted(option, option)?;
                    suid |= option == "suid";
                    dev |= option == "dev";
                }
                _ if FSTAB_OPTIONS.contains(&option) || option.starts_with("x-") => {}
                _ => own.push(self.own_option(option)?),
            }
        }
        if let Some(label) = &requested.label {
            self.check_label(label, &own)?;
            own.retain(|(name, _)| name != CONTEXT);
            own.push((CONTEXT.to_owned(), label.as_str().to_owned()));
        }
        if !suid {
            set |= MountAttrFlags::MOUNT_ATTR_NOSUID;
        }
        if !dev {
            set |= MountAttrFlags::MOUNT_ATTR_NODEV;
        }
        Ok(CheckedOptions {
            flags: MountFlags { set, clear },
            own,
        })
    }

    fn check_form(&self, option: &str) -> Result<(), MountError> {
        let rule = if option.is_empty() {
            "is empty"
        } else if option.len() > OPTION_BYTES {
            "is too long"
        } else if option.contains(',') {
            "contains a comma; give one option an entry"
        } else if option.chars().any(|c| c.is_control() || c.is_whitespace()) {
            "contains a space or control character"
        } else {
            return Ok(());
        };
        Err(self.malformed(option, rule, Blame::argument(option)))
    }

    fn own_option(&self, option: &str) -> Result<(String, String), MountError> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let malformed = |rule| Err(self.malformed(option, rule, Blame::argument(option)));
        match self.fs_type {
            None => malformed("is not an option of a directory"),
            Some(fs_type) if is_reserved(fs_type, name) => malformed("is set by the host"),
            Some(_) if value == PANIC => {
                malformed("would crash the node when the storage is damaged")
            }
            Some(fs_type) => {
                if !is_harmless(fs_type, name, value) {
                    self.require_granted(name, option)?;
                }
                Ok((name.to_owned(), value.to_owned()))
            }
        }
    }

    /// A pod that requested a label must not get a mount without it or with another one: either the pod could not read it, or other pods could.
    fn check_label(&self, label: &Label, own: &[(String, String)]) -> Result<(), MountError> {
        let blame = Blame::Of(Owner::Request);
        let Some(is_allowed) = self.labels else {
            let rule = "cannot be applied: the volume is part of a file system with labels of its own; remove `seLinuxMount` from `csiDriver` and the CSIDriver object, then the files are relabelled one by one";
            return Err(self.malformed(CONTEXT, rule, blame));
        };
        if !is_allowed && !self.is_granted(CONTEXT) {
            let rule = "is not accepted from requests without `csiDriver.seLinuxMount: true` in the backend document";
            let reason = format!("{} {rule}", quoted(CONTEXT));
            return Err(MountError::not_granted(self.step, reason, blame));
        }
        let is_other =
            |(name, value): &(String, String)| name == CONTEXT && value != label.as_str();
        match own.iter().any(is_other) {
            true => Err(self.malformed(CONTEXT, "differs from the one in the plan", blame)),
            false => Ok(()),
        }
    }

    fn is_granted(&self, name: &str) -> bool {
        self.granted.iter().any(|granted| granted == name)
    }

    fn require_granted(&self, name: &str, option: &str) -> Result<(), MountError> {
        if self.is_granted(name) {
            return Ok(());
        }
        let rule = "needs a grant; the administrator lists it in `mountOptions` of the grant";
        let reason = format!("{} {rule}", quoted(name));
        Err(MountError::not_granted(
            self.step,
            reason,
            Blame::argument(option),
        ))
    }

    fn malformed(&self, option: &str, rule: &str, blame: Blame) -> MountError {
        let what = format!("mount options of step `{}`", self.step);
        MountError::invalid(what, format!("{} {rule}", quoted(option)), blame)
    }
}

fn quoted(option: &str) -> String {
    let name = option.split(['=', ',']).next().unwrap_or_default();
    let name: String = name.escape_debug().take(SHOWN_NAME).collect();
    format!("mount option `{name}`")
}

#[cfg(test)]
mod tests;
