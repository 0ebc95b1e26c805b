//! Decides whether a device gets a LUKS header, is opened, or is refused. It is pure, and the only place that returns `Format`.

use crate::block::BlockDevice;
use crate::format::Content;
use crate::fs_type::StorageAccess;
use wasmount_core::mounter::MountError;

/// The name that `blkid` gives a device with a LUKS header; intents to make one have it too.
pub(super) const LUKS: &str = "crypto_LUKS";

/// The decision for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A header is made.
    Format,
    /// The existing header is used.
    Open,
}

/// Decides. `is_unfinished`: our own `luksFormat` was started on the device, and no key ever opened its result.
pub(super) fn decide(
    device: &BlockDevice,
    content: &Content,
    is_unfinished: bool,
    access: StorageAccess,
) -> Result<Verdict, MountError> {
    let advice = "the volume is encrypted, and nothing is overwritten; give it another device, or wipe this one (`wipefs --all`, then zeros over its first and last MiB) if its content is not needed";
    let refuse = |found: &str| {
        Err(MountError::unusable(
            device,
            format!("there is {found} on it; {advice}"),
        ))
    };
    match content {
        Content::Foreign(name) if name == LUKS && !is_unfinished => Ok(Verdict::Open),
        Content::Blank => require_writer(device, access).map(|()| Verdict::Format),
        _ if is_unfinished => require_writer(device, access).map(|()| Verdict::Format),
        Content::Foreign(name) => refuse(name),
        Content::Filesystem(found) | Content::Broken(found) => {
            refuse(&format!("{} without encryption", found.name()))
        }
        Content::Ambivalent => refuse("more than one signature"),
        Content::Unsigned { at } => refuse(&format!("no signature, but byte {at} is not 0: data")),
    }
}

/// Refuses a device without content of its own to a volume that is only read.
pub(super) fn require_writer(
    device: &BlockDevice,
    access: StorageAccess,
) -> Result<(), MountError> {
    match access {
        StorageAccess::ReadWrite => Ok(()),
        StorageAccess::ReadOnly | StorageAccess::Untouched => Err(MountError::unusable(
            device,
            "it is not encrypted yet, and a read-only volume is requested; stage it once with a writable access mode",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::DeviceNumber;
    use crate::fs_type::FsType;

    fn decided(
        content: &Content,
        is_unfinished: bool,
        access: StorageAccess,
    ) -> Result<Verdict, String> {
        let device = BlockDevice {
            file: rustix::fs::open(
                "/dev/null",
                rustix::fs::OFlags::RDONLY,
                rustix::fs::Mode::empty(),
            )
            .unwrap(),
            number: DeviceNumber { major: 7, minor: 0 },
            path: "/dev/loop0".into(),
            backing: None,
            storage: None,
            is_read_only: false,
        };
        decide(&device, content, is_unfinished, access).map_err(|error| error.to_string())
    }

    fn foreign(name: &str) -> Content {
        Content::Foreign(name.to_owned())
    }

    #[test]
    fn only_a_blank_or_unfinished_device_gets_a_header() {
        use StorageAccess::ReadWrite;
        for (content, is_unfinished, verdict) in [
            (Content::Blank, false, Verdict::Format),
            (Content::Unsigned { at: 40_000 }, true, Verdict::Format),
            (foreign(LUKS), true, Verdict::Format),
            (foreign(LUKS), false, Verdict::Open),
        ] {
            let decided = decided(&content, is_unfinished, ReadWrite);
            assert_eq!(decided, Ok(verdict), "{content:?}");
        }
        for access in [StorageAccess::ReadOnly, StorageAccess::Untouched] {
            assert_eq!(decided(&foreign(LUKS), false, access), Ok(Verdict::Open));
        }
    }

    #[test]
    fn what_others_wrote_is_refused_and_named() {
        for (content, named) in [
            (foreign("LVM2_member"), "there is LVM2_member on it"),
            (foreign("a partition table (gpt)"), "a partition table"),
            (Content::Filesystem(FsType::Xfs), "xfs without encryption"),
            (Content::Broken(FsType::Ext4), "ext4 without encryption"),
            (Content::Ambivalent, "more than one signature"),
            (Content::Unsigned { at: 7 }, "byte 7 is not 0"),
        ] {
            let refused = decided(&content, false, StorageAccess::ReadWrite).unwrap_err();
            assert!(refused.contains(named), "{refused}");
        }
    }

    #[test]
    fn a_reader_does_not_make_a_header() {
        for access in [StorageAccess::ReadOnly, StorageAccess::Untouched] {
            for (content, is_unfinished) in [(Content::Blank, false), (foreign(LUKS), true)] {
                let refused = decided(&content, is_unfinished, access).unwrap_err();
                assert!(refused.contains("not encrypted yet"), "{refused}");
            }
        }
    }
}
