//! Mount options: words of a plan and of a request, checked against an allow-list, as flags and file system options.
//!
//! It is apart because options are a smuggler's favourite: a comma makes two of one, `suid` undoes what the host sets, `upperdir=` names a
//! path. It must not know where a word came from, and never repeats its value: the specification calls mount flags sensitive.

use rustix::fs::StatVfsMountFlags;
use rustix::mount::MountAttrFlags;

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
}

/// Why an option was refused. Its value is not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It can never be right.
    Malformed(String),
    /// An administrator could allow it.
    NotGranted(String),
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
pub(crate) fn check<'w>(
    words: impl IntoIterator<Item = &'w str>,
    allowed: &Allowed<'_>,
) -> Result<CheckedOptions, Refused> {
    let (mut suid, mut dev) = (false, false);
    let mut set = MountAttrFlags::empty();
    let mut clear = MountAttrFlags::empty();
    let mut own = Vec::new();
    for word in words {
        check_form(word)?;
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
                require_granted(word, allowed)?;
                suid |= word == "suid";
                dev |= word == "dev";
            }
            _ if is_for_fstab(word) => {}
            _ => own.push(own_option(word, allowed)?),
        }
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn directory(granted: &[&str], words: &[&str]) -> Result<CheckedOptions, Refused> {
        let granted: Vec<String> = granted.iter().map(|word| (*word).to_owned()).collect();
        let allowed = Allowed {
            granted: &granted,
            is_harmless: |_, _| false,
            reserved: &[],
            takes_own: false,
        };
        check(words.iter().copied(), &allowed)
    }

    fn file_system(granted: &[&str], words: &[&str]) -> Result<CheckedOptions, Refused> {
        let granted: Vec<String> = granted.iter().map(|word| (*word).to_owned()).collect();
        let allowed = Allowed {
            granted: &granted,
            is_harmless: |name, _| name == "mode",
            reserved: &["size"],
            takes_own: true,
        };
        check(words.iter().copied(), &allowed)
    }

    const SAFE: MountAttrFlags =
        MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

    #[test]
    fn without_options_a_mount_is_nosuid_and_nodev() {
        assert_eq!(directory(&[], &[]).unwrap().flags.set, SAFE);
        assert_eq!(directory(&[], &["rw", "relatime"]).unwrap().flags.set, SAFE);
    }

    #[test]
    fn harmless_options_become_flags() {
        let checked = directory(&[], &["ro", "noexec", "noatime"]).unwrap();
        assert!(checked.flags.is_read_only());
        assert_eq!(
            checked.flags.set,
            SAFE | MountAttrFlags::MOUNT_ATTR_RDONLY
                | MountAttrFlags::MOUNT_ATTR_NOEXEC
                | MountAttrFlags::MOUNT_ATTR_NOATIME
        );
        assert_eq!(checked.flags.clear, MountAttrFlags::MOUNT_ATTR__ATIME);
    }

    #[test]
    fn what_loosens_a_mount_needs_a_grant() {
        for word in ["suid", "dev", "exec"] {
            assert!(
                matches!(directory(&[], &[word]), Err(Refused::NotGranted(_))),
                "{word}"
            );
            assert!(directory(&[word], &[word]).is_ok(), "{word}");
        }
        assert_eq!(
            directory(&["suid"], &["suid"]).unwrap().flags.set,
            MountAttrFlags::MOUNT_ATTR_NODEV
        );
        // Granted, but not asked for.
        assert_eq!(directory(&["suid", "dev"], &[]).unwrap().flags.set, SAFE);
    }

    #[test]
    fn of_two_that_contradict_the_stricter_counts() {
        let both = directory(
            &["suid", "exec"],
            &["suid", "nosuid", "exec", "noexec", "ro", "rw"],
        )
        .unwrap()
        .flags;
        assert_eq!(
            both.set,
            SAFE | MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOEXEC
        );
    }

    #[test]
    fn smuggled_options_are_refused_even_with_grants() {
        let granted = ["exec", "suid", "mode"];
        for word in [
            "",
            "exec,suid",
            "mode=0700,suid",
            "ro\0suid",
            "ro suid",
            "ro\nsuid",
            &"m".repeat(257),
        ] {
            assert!(
                matches!(file_system(&granted, &[word]), Err(Refused::Malformed(_))),
                "{word:?}"
            );
        }
        for word in ["upperdir=/etc", "SUID", "bind", "remount", "context=x"] {
            assert!(file_system(&granted, &[word]).is_err(), "{word:?}");
            assert!(directory(&granted, &[word]).is_err(), "{word:?}");
        }
        assert!(file_system(&["size"], &["size=1g"]).is_err());
    }

    #[test]
    fn an_option_of_the_file_systems_own_is_taken_when_harmless_or_granted() {
        let own = |granted: &[&str], words: &[&str]| {
            file_system(granted, words).map(|checked| checked.own)
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(own(&[], &["mode=0700"]), Ok(vec![pair("mode", "0700")]));
        assert_eq!(
            own(&["huge"], &["huge=always"]),
            Ok(vec![pair("huge", "always")])
        );
        assert!(own(&[], &["huge=always"]).is_err());
    }

    #[test]
    fn words_of_an_fstab_are_dropped_and_what_looks_like_them_is_not() {
        let words = ["defaults", "_netdev", "nofail", "x-systemd.automount"];
        assert_eq!(file_system(&[], &words).unwrap().own, []);
        assert_eq!(directory(&[], &words).unwrap().flags.set, SAFE);
        for word in ["X-mount.mkdir", "default", "_netdev=1", "user"] {
            assert!(file_system(&[], &[word]).is_err(), "{word}");
        }
    }

    #[test]
    fn a_panic_of_the_node_cannot_be_granted() {
        assert!(file_system(&["errors"], &["errors=continue"]).is_ok());
        assert!(matches!(
            file_system(&["errors"], &["errors=panic"]),
            Err(Refused::Malformed(_))
        ));
    }

    #[test]
    fn a_refusal_does_not_repeat_a_value() {
        let words = [
            "password=hunter22",
            "password=hunter22,x",
            "x,password=hunter22",
        ];
        for word in words {
            let text = format!("{:?}", file_system(&[], &[word]));
            assert!(!text.contains("hunter22"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_was_not_granted_loosens_a_mount(words in prop::collection::vec("[a-z,= ]{0,12}|suid|dev|exec|rw", 0..6)) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if let Ok(checked) = directory(&[], &words) {
                prop_assert!(checked.flags.set.contains(SAFE));
                prop_assert!(checked.own.is_empty());
            }
        }
    }
}
