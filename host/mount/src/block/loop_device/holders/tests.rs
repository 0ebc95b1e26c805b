//! Filtering of paths as a table, and real loop devices. Some tests hide the node of a device, so that a query of it fails visibly.

use super::super::tests::{image, key};
use super::super::{Tag, attach};
use super::*;
use crate::block::BlockDevice;
use crate::namespace::in_a_namespace;
use std::fs::File;
use std::os::fd::OwnedFd;

const BYTES: u64 = 1 << 20;
/// The pool, another mount of its file system, a file of it as a mount, and a server.
const TABLE: &str = "\
1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 8:2 / /pool rw - xfs /dev/sda2 rw
3 1 8:2 /a /elsewhere rw - xfs /dev/sda2 rw
4 1 8:2 /v.img /mounted rw - xfs /dev/sda2 rw
5 1 0:50 / /server rw - nfs4 server:/a rw
6 1 0:6 /loop3 /target rw - devtmpfs udev rw
";

fn sought(has_other_names: bool) -> Sought {
    Sought {
        identity: Identity {
            device_major: 8,
            device_minor: 2,
            inode: 7,
        },
        name: Some("v.img".into()),
        has_other_names,
        file_system: Some(DeviceNumber { major: 8, minor: 2 }),
        table: mountinfo::parse(TABLE.as_bytes()),
    }
}

#[test]
fn only_what_can_be_the_file_is_asked() {
    for (path, alone, with_other_names) in [
        (Some("/pool/v.img"), true, true),
        (Some("/server/v.img"), true, true),
        (Some("/other namespace/v.img"), true, true),
        (Some("/pool/w.img"), false, true),
        (Some("/elsewhere/w.img"), false, true),
        (Some("/mounted"), true, true),
        (Some("/server/w.img"), false, false),
        (Some("/var/w.img"), false, false),
        (Some("/target"), false, false),
        (None, true, true),
    ] {
        let path = path.map(Path::new);
        assert_eq!(sought(false).may_be_at(path), alone, "{path:?}");
        assert_eq!(sought(true).may_be_at(path), with_other_names, "{path:?}");
    }
}

#[test]
fn an_unknown_backing_file_excludes_no_device() {
    let nameless = Sought {
        name: None,
        ..sought(false)
    };
    assert!(nameless.may_be_at(Some(Path::new("/server/w.img"))));
    let anywhere = Sought {
        file_system: None,
        ..sought(true)
    };
    assert!(anywhere.may_be_at(Some(Path::new("/var/w.img"))));
}

#[test]
fn a_removed_file_and_one_named_like_it_share_a_last_name() {
    for path in [
        "/pool/v.img",
        "/pool/v.img (deleted)",
        "/v.img (deleted) (deleted)",
    ] {
        assert_eq!(last_name(Path::new(path)), Some("v.img".into()), "{path}");
    }
    assert_eq!(last_name(Path::new("/")), None);
}

/// An image with this name in its own directory.
struct Named {
    directory: tempfile::TempDir,
    file: OwnedFd,
}

impl Named {
    fn new(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create_new(directory.path().join(name)).unwrap();
        file.set_len(BYTES).unwrap();
        let options = &mut File::options();
        let file = options.read(true).write(true);
        let file = file.open(directory.path().join(name)).unwrap().into();
        Self { directory, file }
    }

    fn again(&self, name: &str) -> OwnedFd {
        let options = &mut File::options();
        let file = options.read(true).write(true);
        file.open(self.directory.path().join(name)).unwrap().into()
    }
}

fn attached(file: &OwnedFd) -> BlockDevice {
    attach(file, false, &Tag::staged(&key("holders"))).unwrap()
}

fn numbers(found: &[Attached]) -> Vec<DeviceNumber> {
    found.iter().map(|it| it.number).collect()
}

/// Covers the node with an empty file, in this namespace only: opening the device fails.
fn hide(device: &BlockDevice) -> tempfile::NamedTempFile {
    let empty = tempfile::NamedTempFile::new().unwrap();
    rustix::mount::mount_bind(empty.path(), &device.path).unwrap();
    empty
}

#[test]
fn privileged_every_holder_of_a_file_is_found_and_no_other() {
    let unnamed = image();
    assert_eq!(holders_of(&unnamed).unwrap(), []);
    let (one, two) = (attached(&unnamed), attached(&unnamed));
    let other = attached(&image());
    let found = numbers(&holders_of(&unnamed).unwrap());
    assert_eq!(found.len(), 2);
    assert!(found.contains(&one.number) && found.contains(&two.number));
    assert!(!found.contains(&other.number));
}

#[test]
fn privileged_a_holder_under_another_name_is_found() {
    drop(image());
    let named = Named::new("a.img");
    let path = |name: &str| named.directory.path().join(name);
    fs::hard_link(path("a.img"), path("b.img")).unwrap();
    let device = attached(&named.again("b.img"));
    assert_eq!(numbers(&holders_of(&named.file).unwrap()), [device.number]);
    // Renamed while it is bound.
    fs::remove_file(path("a.img")).unwrap();
    fs::rename(path("b.img"), path("c.img")).unwrap();
    let renamed = named.again("c.img");
    assert_eq!(numbers(&holders_of(&renamed).unwrap()), [device.number]);
}

#[test]
fn privileged_a_mounted_file_is_found_by_its_mount_name() {
    in_a_namespace(|| {
        let named = Named::new("a.img");
        let mounted = tempfile::NamedTempFile::new().unwrap();
        let path = named.directory.path().join("a.img");
        rustix::mount::mount_bind(&path, mounted.path()).unwrap();
        let file = OwnedFd::from(
            File::options()
                .read(true)
                .write(true)
                .open(mounted.path())
                .unwrap(),
        );
        let device = attached(&file);
        assert_eq!(numbers(&holders_of(&named.file).unwrap()), [device.number]);
    });
}

#[test]
fn privileged_a_device_that_does_not_answer_is_an_error() {
    in_a_namespace(|| {
        let (named, other) = (Named::new("a.img"), Named::new("b.img"));
        let device = attached(&named.file);
        let _hidden = hide(&device);
        assert_eq!(holders_of(&other.file).unwrap(), []);
        let error = holders_of(&named.file).unwrap_err().to_string();
        assert!(error.contains(device.path.to_str().unwrap()), "{error}");
    });
}

#[test]
fn privileged_only_devices_below_a_directory_are_asked() {
    in_a_namespace(|| {
        let (named, other) = (Named::new("a.img"), Named::new("a.img"));
        let (device, elsewhere) = (attached(&named.file), attached(&other.file));
        let _hidden = hide(&elsewhere);
        let below = |named: &Named| {
            let directory = named.directory.path().canonicalize().unwrap();
            attached_below(&[directory]).map(|found| numbers(&found))
        };
        // A loop device of another program may fail to report its path at this moment.
        assert!(below(&named).unwrap().contains(&device.number));
        assert!(below(&other).is_err());
    });
}

#[test]
fn privileged_a_file_on_a_device_is_found_by_any_path() {
    in_a_namespace(|| {
        let (device, other) = (attached(&image()), attached(&image()));
        assert_eq!(lying_on(&[device.number]).unwrap(), []);
        // This is what kubelet does with a raw block volume.
        let target = tempfile::NamedTempFile::new().unwrap();
        rustix::mount::mount_bind(&device.path, target.path()).unwrap();
        let shown = File::options().read(true).write(true).open(target.path());
        let above = attached(&shown.unwrap().into());
        assert_eq!(
            numbers(&lying_on(&[device.number]).unwrap()),
            [above.number]
        );
        assert_eq!(lying_on(&[other.number]).unwrap(), []);
    });
}
