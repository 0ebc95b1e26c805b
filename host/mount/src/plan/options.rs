//! Mount options: words of a plan and of a request, checked against an allow-list, as flags and file system options.
//!
//! It is apart because options are a smuggler's favourite: a comma makes two of one, `suid` undoes what the host sets, `upperdir=` names a
//! path. It must not know where a word came from, and never repeats its value: the specification calls mount flags sensitive.

use super::label::{CONTEXT, Label};
use rustix::fs::StatVfsMountFlags;
use rustix::mount::MountAttrFlags;
use wasmount_core::document::Grants;
use wasmount_core::fault::{Blame, Owner};

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

/// Whether a request may choose the SELinux label of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Labels {
    /// There is no file system of its own that could have one.
    CannotBe,
    /// The administrator says so by `csiDriver.seLinuxMount`.
    Allowed,
    /// Not said.
    NotSaid,
}

/// What one type of file system takes.
pub(crate) struct Allowed<'a> {
    /// Words that the administrator granted beyond the harmless ones.
    pub(crate) granted: &'a [String],
    /// Whether an option of the file system's own is harmless, by name and value.
    pub(crate) is_harmless: fn(&str, &str) -> bool,
    /// Names that the host sets itself, so that they cannot be granted.
    pub(crate) reserved: &'a [&'a str],
    /// Whether the file system takes options at all: a bind has none of its own.
    pub(crate) takes_own: bool,
    /// Whether a request may label it.
    pub(crate) labels: Labels,
}

/// Why an option was refused. Its value is not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It can never be right.
    Malformed(String),
    /// An administrator could allow it.
    NotGranted(String),
}

impl Labels {
    /// Of a file system of its own.
    pub(crate) fn of(grants: &Grants) -> Self {
        match grants.selinux_mount {
            true => Self::Allowed,
            false => Self::NotSaid,
        }
    }
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

/// Checks all options of a mount. Where two contradict each other, the one that forbids more counts, so that neither side can undo what the
/// other asked for.
pub(crate) fn check(
    words: &Words<'_>,
    allowed: &Allowed<'_>,
) -> Result<CheckedOptions, (Refused, Blame)> {
    let (mut suid, mut dev) = (false, false);
    let mut set = MountAttrFlags::empty();
    let mut clear = MountAttrFlags::empty();
    let mut own = Vec::new();
    for word in &words.options {
        let word = *word;
        let of_word = |refused| (refused, Blame::word(word));
        check_form(word).map_err(of_word)?;
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
                require_granted(word, allowed).map_err(of_word)?;
                suid |= word == "suid";
                dev |= word == "dev";
            }
            _ if is_for_fstab(word) => {}
            _ => own.push(own_option(word, allowed).map_err(of_word)?),
        }
    }
    if let Some(label) = &words.label {
        check_label(label, &own, allowed)
            .map_err(|refused| (refused, Blame::Of(Owner::Request)))?;
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

fn check_form(word: &str) -> Result<(), Refused> {
    let malformed = |rule: &str| Err(Refused::Malformed(format!("{} {rule}", quoted(word))));
    if word.is_empty() {
        return malformed("is empty");
    }
    if word.len() > OPTION_BYTES {
        return malformed("is too long");
    }
    if word.contains(',') {
        return malformed("contains a comma; give one option an entry");
    }
    if word.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return malformed("contains a space or control character");
    }
    Ok(())
}

fn is_for_fstab(word: &str) -> bool {
    FSTAB_WORDS.contains(&word) || word.starts_with("x-")
}

fn own_option(word: &str, allowed: &Allowed<'_>) -> Result<(String, String), Refused> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    if !allowed.takes_own {
        return Err(Refused::Malformed(format!(
            "{} is not an option of a directory",
            quoted(word)
        )));
    }
    if allowed.reserved.contains(&name) {
        return Err(Refused::Malformed(format!(
            "{} is set by the host",
            quoted(word)
        )));
    }
    if value == PANIC {
        return Err(Refused::Malformed(format!(
            "{} would take the node down when the storage is damaged",
            quoted(word)
        )));
    }
    if !(allowed.is_harmless)(name, value) {
        require_granted(name, allowed)?;
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Whoever asked for a label must not get a mount without it, or with another: its pod could not read it, or others could.
fn check_label(
    label: &Label,
    own: &[(String, String)],
    allowed: &Allowed<'_>,
) -> Result<(), Refused> {
    let refused = |what: &str| format!("{} {what}", quoted(CONTEXT));
    match allowed.labels {
        Labels::CannotBe => Err(Refused::Malformed(refused(
            "cannot be had: the volume is part of a file system that has labels of its own; take `seLinuxMount` out of `csiDriver` and the CSIDriver object, then kubelet has the files labelled one by one",
        ))),
        Labels::NotSaid if require_granted(CONTEXT, allowed).is_err() => {
            Err(Refused::NotGranted(refused(
                "is not taken from requests without `csiDriver.seLinuxMount: true` in the backend document",
            )))
        }
        Labels::NotSaid | Labels::Allowed => {
            let is_other =
                |(name, value): &(String, String)| name == CONTEXT && value != label.as_str();
            if own.iter().any(is_other) {
                return Err(Refused::Malformed(refused("is another one in the plan")));
            }
            Ok(())
        }
    }
}

fn require_granted(name: &str, allowed: &Allowed<'_>) -> Result<(), Refused> {
    if allowed.granted.iter().any(|granted| granted == name) {
        return Ok(());
    }
    Err(Refused::NotGranted(format!(
        "{} needs a grant; the administrator lists it in `mountOptions` of the grant",
        quoted(name)
    )))
}

fn quoted(word: &str) -> String {
    let name = word.split(['=', ',']).next().unwrap_or_default();
    let name: String = name.escape_debug().take(SHOWN_NAME).collect();
    format!("mount option `{name}`")
}

#[cfg(test)]
mod tests;
