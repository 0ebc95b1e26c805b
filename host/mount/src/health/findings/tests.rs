//! Tables of findings, and of the facts from which they follow.

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

fn found(findings: impl IntoIterator<Item = Finding>) -> Vec<(HealthStatus, String)> {
    let findings = findings.into_iter();
    findings
        .map(|finding| {
            let health = finding.health("volume v");
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
    for (finding, expected) in [
        (Finding::NotAnswering, (Inaccessible, "NotAnswering")),
        (Finding::MountLost, (Inaccessible, "MountLost")),
        (
            Finding::DirectoryGone,
            (HealthStatus::DataLoss, "DirectoryGone"),
        ),
        (Finding::IoError(Errno::IO), (Inaccessible, "IoError")),
    ] {
        assert_eq!(found([finding]), named([expected]), "{finding:?}");
    }
    let io = (Inaccessible, "IoError");
    let after_error = (Degraded, "ReadOnlyAfterError");
    let by_a_person = (Degraded, "MountMadeReadOnly");
    for (is_shown_read_only, itself, for_writers, for_readers) in [
        (false, RW, None, None),
        (true, RW, Some(by_a_person), None),
        (true, RO, Some(after_error), None),
        // Only the mount table shows it.
        (false, RO, Some(after_error), None),
        (false, SHUT_DOWN, Some(io), Some(io)),
        (true, SHUT_DOWN, Some(io), Some(io)),
    ] {
        for (is_read_only, expected) in [(false, for_writers), (true, for_readers)] {
            let finding = Finding::of_file_system(itself, is_shown_read_only, is_read_only);
            assert_eq!(found(finding), named(expected), "{finding:?}");
        }
    }
}

#[test]
fn each_fault_of_a_device_has_its_status_and_reason() {
    use HealthStatus::{DataLoss, Degraded, Inaccessible};
    let short = Finding::ImageTruncated {
        image_bytes: 1,
        device_bytes: 2,
    };
    let stale = Finding::IoError(Errno::STALE);
    assert_eq!(
        found([Finding::DeviceGone]),
        named([(Inaccessible, "DeviceGone")])
    );
    assert_eq!(found([stale]), named([(Inaccessible, "IoError")]));
    let gone = (DataLoss, "ImageGone");
    let errors = (Degraded, "FileSystemErrors");
    for (image, counted, expected) in [
        (None, 0, vec![]),
        (Some(Finding::ImageRemoved), 0, vec![gone]),
        (Some(Finding::ImageMoved), 0, vec![gone]),
        (Some(short), 0, vec![(DataLoss, "ImageTruncated")]),
        (None, 1, vec![errors]),
        (Some(Finding::ImageRemoved), 7, vec![gone, errors]),
    ] {
        let findings = Finding::of_device(image, counted);
        assert_eq!(found(findings), named(expected), "{image:?} {counted}");
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
