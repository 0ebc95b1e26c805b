//! A `/dev` that is not the node's, as in a container: the error names the cause, and nothing is bound.

use super::*;
use crate::namespace::in_a_namespace;
use rustix::fs::{FileType, makedev, mknodat};
use rustix::mount::{MountFlags, mount};

/// More than the number of loop devices of the machine while tests run.
const NODES: u32 = 256;

fn with_a_dev_of_its_own(test: impl FnOnce(&OwnedFd) + Send + 'static) {
    in_a_namespace(|| {
        let image = image();
        mount("none", "/dev", "tmpfs", MountFlags::empty(), None).unwrap();
        test(&image);
    });
}

fn make(path: impl AsRef<Path>, (major, minor): (u32, u32)) {
    let device = makedev(major, minor);
    mknodat(
        rustix::fs::CWD,
        path.as_ref(),
        FileType::CharacterDevice,
        Mode::RUSR | Mode::WUSR,
        device,
    )
    .unwrap();
}

/// `/dev/loop-control`, in the kernel's list of devices.
const CONTROL_NUMBER: (u32, u32) = (10, 237);
/// `/dev/null`.
const NULL_NUMBER: (u32, u32) = (1, 3);

fn refused(image: &OwnedFd, words: &str) {
    let error = attach(image, false, &staged()).unwrap_err();
    assert!(matches!(error, MountError::Unusable { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(words), "{text}");
    assert!(text.contains("mount the node's /dev into it"), "{text}");
}

#[test]
fn privileged_without_loop_control_the_error_says_what_to_mount() {
    with_a_dev_of_its_own(|image| refused(image, "load the kernel's module `loop`"));
}

#[test]
fn privileged_missing_device_nodes_name_the_mount_to_add() {
    with_a_dev_of_its_own(|image| {
        make(CONTROL, CONTROL_NUMBER);
        refused(image, "it is not there");
    });
}

#[test]
fn privileged_another_device_under_the_name_is_refused() {
    with_a_dev_of_its_own(|image| {
        make(CONTROL, CONTROL_NUMBER);
        for number in 0..NODES {
            make(LoopName::numbered(number).path(), NULL_NUMBER);
        }
        refused(image, "it is not the device that the kernel calls so");
    });
}
