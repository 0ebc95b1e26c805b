//! Mount options: words of a plan and of a request, checked against an allow-list, as flags and file system options.
//!
//! A comma makes two of one, `suid` undoes what the host sets, `upperdir=` names a path. The value of a word is never repeated: the
//! specification calls mount flags sensitive.

use super::label::{CONTEXT, Label};
use super::own_options::{is_harmless, is_reserved};
use crate::failure::{invalid, not_granted};
use rustix::fs::StatVfsMountFlags;
use rustix::mount::MountAttrFlags;
use wasmount_core::fault::{Blame, Owner};
use wasmount_core::mounter::MountError;

/// Longest option, in bytes: one page of the kernel holds all options of a mount, and no option that is allowed here comes near.
const OPTION_BYTES: usize = 256;
/// Longest name that an error message repeats, in characters.
const SHOWN_NAME: usize = 32;

/// Words of an fstab that mount(8) and systemd keep to themselves. Users write them out of habit, and no kernel takes them: they are dropped,
/// as kubelet's own mounts do, and like them what begins with `x-`.
const FSTAB_WORDS: &[&str] = &["defaults", "_netdev", "nofail", "auto", "noauto", "nouser"];
/// What no option may have as its value, whatever was granted: a damaged file system would take the node down with it.
const PANIC: &str = "panic";

/// Flags of the mount itself, the same for every file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MountFlags {
    /// To be set.
    pub(crate) set: MountAttrFlags,
    /// To be cleared before: the bits of a field that `set` chooses a value of.
    pub(crate) clear: MountAttrFlags,
}

/// What the options of one mount amount to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedOptions {
    pub(crate) flags: MountFlags,
    /// For the file system: name and value.
    pub(crate) own: Vec<(String, String)>,
}

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Words<'w> {
    /// Of plan and request.
    pub(crate) options: Vec<&'w str>,
    /// The request's. A plan has none, unless `context` is granted to it as an option.
    pub(crate) label: Option<Label>,
}

/// What the mount of a step takes.
pub(crate) struct Allowed<'a> {
    /// The step's name in the contract.
    pub(crate) step: &'a str,
    /// Words that the administrator granted beyond the harmless ones.
    pub(crate) granted: &'a [String],
    /// Whose options it takes beside the flags of a mount. `None`: a bind has none of its own.
    pub(crate) fs_type: Option<&'a str>,
    /// Whether the administrator lets requests choose its SELinux label (`csiDriver.seLinuxMount`). `None`: there is no file system of its
    /// own that could have one.
    pub(crate) labels: Option<bool>,
}

impl MountFlags {
    /// Of a bind that shows a device: the one mount on which a device must work. Nothing else is there to be run.
    pub(crate) fn of_device() -> Self {
        Self {
            set: MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
            clear: MountAttrFlags::MOUNT_ATTR_NODEV,
        }
    }

    /// The same for a clone of a mount that may have others: just these, whatever it has.
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

    /// The same, and without writing.
    pub(crate) fn read_only(mut self, read_only: bool) -> Self {
        if read_only {
            self.set |= MountAttrFlags::MOUNT_ATTR_RDONLY;
        }
        self
    }

    /// Whether a mount that is there is as restricted as this, and read-only just when this is.
    pub(crate) fn agree_with(self, there: StatVfsMountFlags) -> bool {
        let restrictions = [
            (MountAttrFlags::MOUNT_ATTR_NOSUID, StatVfsMountFlags::NOSUID),
            (MountAttrFlags::MOUNT_ATTR_NODEV, StatVfsMountFlags::NODEV),
            (MountAttrFlags::MOUNT_ATTR_NOEXEC, StatVfsMountFlags::NOEXEC),
        ];
        restrictions
            .into_iter()
            .all(|(wanted, found)| !self.set.contains(wanted) || there.contains(found))
            && self.is_read_only() == there.contains(StatVfsMountFlags::RDONLY)
    }
}

impl Allowed<'_> {
    /// Checks all options of a mount. Where two contradict each other, the one that forbids more counts, so that neither side can undo what
    /// the other asked for.
    pub(crate) fn check(&self, words: &Words<'_>) -> Result<CheckedOptions, MountError> {
        let (mut suid, mut dev) = (false, false);
        let mut set = MountAttrFlags::empty();
        let mut clear = MountAttrFlags::empty();
        let mut own = Vec::new();
        for word in words.options.iter().copied() {
            self.check_form(word)?;
            match word {
                "ro" => set |= MountAttrFlags::MOUNT_ATTR_RDONLY,
                "rw" => {}
                "nosuid" => set |= MountAttrFlags::MOUNT_ATTR_NOSUID,
                "nodev" => set |= MountAttrFlags::MOUNT_ATTR_NODEV,
                "noexec" => set |= MountAttrFlags::MOUNT_ATTR_NOEXEC,
                "nosymfollow" => set |= MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW,
                "nodiratime" => set |= MountAttrFlags::MOUNT_ATTR_NODIRATIME,
                // The default is relative; its bits are 0, so there is nothing to set.
                "relatime" => {}
                "noatime" => {
                    set |= MountAttrFlags::MOUNT_ATTR_NOATIME;
                    clear |= MountAttrFlags::MOUNT_ATTR__ATIME;
                }
                "suid" | "dev" | "exec" => {
                    self.require_granted(word, word)?;
                    suid |= word == "suid";
                    dev |= word == "dev";
                }
                _ if FSTAB_WORDS.contains(&word) || word.starts_with("x-") => {}
                _ => own.push(self.own_option(word)?),
            }
        }
        if let Some(label) = &words.label {
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

    fn check_form(&self, word: &str) -> Result<(), MountError> {
        let rule = if word.is_empty() {
            "is empty"
        } else if word.len() > OPTION_BYTES {
            "is too long"
        } else if word.contains(',') {
            "contains a comma; give one option an entry"
        } else if word.chars().any(|c| c.is_control() || c.is_whitespace()) {
            "contains a space or control character"
        } else {
            return Ok(());
        };
        Err(self.malformed(word, rule, Blame::word(word)))
    }

    fn own_option(&self, word: &str) -> Result<(String, String), MountError> {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let malformed = |rule| Err(self.malformed(word, rule, Blame::word(word)));
        match self.fs_type {
            None => malformed("is not an option of a directory"),
            Some(fs_type) if is_reserved(fs_type, name) => malformed("is set by the host"),
            Some(_) if value == PANIC => {
                malformed("would take the node down when the storage is damaged")
            }
            Some(fs_type) => {
                if !is_harmless(fs_type, name, value) {
                    self.require_granted(name, word)?;
                }
                Ok((name.to_owned(), value.to_owned()))
            }
        }
    }

    /// A pod that asked for a label must not get a mount without it, or with another: it could not read it, or others could.
    fn check_label(&self, label: &Label, own: &[(String, String)]) -> Result<(), MountError> {
        let blame = Blame::Of(Owner::Request);
        let Some(is_allowed) = self.labels else {
            let rule = "cannot be had: the volume is part of a file system that has labels of its own; take `seLinuxMount` out of `csiDriver` and the CSIDriver object, then kubelet has the files labelled one by one";
            return Err(self.malformed(CONTEXT, rule, blame));
        };
        if !is_allowed && !self.is_granted(CONTEXT) {
            let rule = "is not taken from requests without `csiDriver.seLinuxMount: true` in the backend document";
            let reason = format!("{} {rule}", quoted(CONTEXT));
            return Err(not_granted(self.step, reason, blame));
        }
        let is_other =
            |(name, value): &(String, String)| name == CONTEXT && value != label.as_str();
        match own.iter().any(is_other) {
            true => Err(self.malformed(CONTEXT, "is another one in the plan", blame)),
            false => Ok(()),
        }
    }

    fn is_granted(&self, name: &str) -> bool {
        self.granted.iter().any(|granted| granted == name)
    }

    fn require_granted(&self, name: &str, word: &str) -> Result<(), MountError> {
        if self.is_granted(name) {
            return Ok(());
        }
        let rule = "needs a grant; the administrator lists it in `mountOptions` of the grant";
        let reason = format!("{} {rule}", quoted(name));
        Err(not_granted(self.step, reason, Blame::word(word)))
    }

    fn malformed(&self, word: &str, rule: &str, blame: Blame) -> MountError {
        let what = format!("mount options of step `{}`", self.step);
        invalid(what, format!("{} {rule}", quoted(word)), blame)
    }
}

fn quoted(word: &str) -> String {
    let name = word.split(['=', ',']).next().unwrap_or_default();
    let name: String = name.escape_debug().take(SHOWN_NAME).collect();
    format!("mount option `{name}`")
}

#[cfg(test)]
mod tests;
