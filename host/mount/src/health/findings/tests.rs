//! Tables of facts and of the findings that follow from them, for each fact alone and for some together.

use super::*;
use proptest::prelude::*;

const RW: SuperBlock = SuperBlock {
    is_read_only: false,
    is_shut_down: false,
};
const RO: SuperBlock = SuperBlock {
    is_read_only: true,
    is_shut_down: false,
};
const SHUT_DOWN: SuperBlock = SuperBlock {
    is_read_only: false,
    is_shut_down: true,
};

fn shown(is_read_only: bool, itself: Option<SuperBlock>) -> Root {
    Root::Shown(FileSystem {
        is_read_only,
        itself,
    })
}

fn there(image: Image, errors: u64) -> Option<Device> {
    Some(Device::There { image, errors })
}

fn found(facts: &Facts) -> Vec<(HealthStatus, String)> {
    findings("volume v", facts)
        .into_iter()
        .map(|health| {
            assert!(health.message.starts_with("volume v: "), "{health:?}");
            (health.status, health.reason)
        })
        .collect()
}

fn named(
    expected: impl IntoIterator<Item = (HealthStatus, &'static str)>,
) -> Vec<(HealthStatus, String)> {
    let expected = expected.into_iter();
    expected
        .map(|(status, reason)| (status, reason.to_owned()))
        .collect()
}

#[test]
fn each_fault_of_a_mount_has_its_status_and_reason() {
    use HealthStatus::{Degraded, Inaccessible};
    let lost = (Inaccessible, "MountLost");
    let io = (Inaccessible, "IoError");
    let removed = (HealthStatus::DataLoss, "DirectoryGone");
    let after_error = (Degraded, "ReadOnlyAfterError");
    let by_a_person = (Degraded, "MountMadeReadOnly");
    for (root, for_writers, for_readers) in [
        (Root::Raw, None, None),
        (Root::Lost, Some(lost), Some(lost)),
        (Root::Removed, Some(removed), Some(removed)),
        (Root::Failed(Errno::IO), Some(io), Some(io)),
        (shown(false, None), None, None),
        (shown(false, Some(RW)), None, None),
        (shown(true, None), Some(by_a_person), None),
        (shown(true, Some(RW)), Some(by_a_person), None),
        (shown(true, Some(RO)), Some(after_error), None),
        // Only the mount table shows it.
        (shown(false, Some(RO)), Some(after_error), None),
        (shown(false, Some(SHUT_DOWN)), Some(io), Some(io)),
        (shown(true, Some(SHUT_DOWN)), Some(io), Some(io)),
    ] {
        for (is_read_only, expected) in [(false, for_writers), (true, for_readers)] {
            let facts = Facts {
                root: root.clone(),
                is_read_only,
                device: None,
            };
            assert_eq!(found(&facts), named(expected), "{facts:?}");
        }
    }
}

#[test]
fn each_fault_of_a_device_has_its_status_and_reason() {
    use HealthStatus::{DataLoss, Degraded, Inaccessible};
    let short = Image::Short {
        image_bytes: 1,
        device_bytes: 2,
    };
    let gone = (DataLoss, "ImageGone");
    let errors = (Degraded, "FileSystemErrors");
    for (device, expected) in [
        (None, vec![]),
        (there(Image::Sound, 0), vec![]),
        (Some(Device::Gone), vec![(Inaccessible, "DeviceGone")]),
        (
            Some(Device::Failed(Errno::STALE)),
            vec![(Inaccessible, "IoError")],
        ),
        (there(Image::Removed, 0), vec![gone]),
        (there(Image::Moved, 0), vec![gone]),
        (there(short, 0), vec![(DataLoss, "ImageTruncated")]),
        (there(Image::Sound, 1), vec![errors]),
        (there(Image::Removed, 7), vec![gone, errors]),
    ] {
        let facts = Facts {
            root: Root::Raw,
            is_read_only: false,
            device,
        };
        assert_eq!(found(&facts), named(expected), "{facts:?}");
    }
}

#[test]
fn a_file_system_is_judged_by_whole_options() {
    for (options, expected) in [
        ("rw", RW),
        ("rw,seclabel,errors=remount-ro", RW),
        ("rw,lowerdir=/ro,x=shutdown,root,shutdowns", RW),
        ("ro", RO),
        ("ro,noload", RO),
        ("rw,emergency_ro", RO),
        ("rw,shutdown", SHUT_DOWN),
        ("", RW),
    ] {
        assert_eq!(SuperBlock::parse(options), expected, "{options}");
    }
}

#[test]
fn a_refusal_and_a_full_disk_are_no_failure_of_storage() {
    for errno in [Errno::IO, Errno::NOTCONN, Errno::STALE, Errno::SHUTDOWN] {
        assert!(is_failure(errno), "{errno}");
    }
    for errno in [Errno::ACCESS, Errno::PERM, Errno::NOSPC, Errno::DQUOT] {
        assert!(!is_failure(errno), "{errno}");
    }
}

proptest! {
    #[test]
    fn no_options_make_a_state_that_they_do_not_name(options in "[a-z,=_]{0,40}") {
        let state = SuperBlock::parse(&options);
        prop_assert_eq!(state.is_shut_down, options.split(',').any(|it| it == "shutdown"));
        let is_read_only = options.split(',').any(|it| matches!(it, "ro" | "emergency_ro"));
        prop_assert_eq!(state.is_read_only, is_read_only);
    }
}
