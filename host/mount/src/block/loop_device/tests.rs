//! Real loop devices of this machine. Other programs use loop devices too, so no test counts them or expects a number. Each device is detached at the
//! end of its test.

use super::*;
use crate::observe::observe;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wasmount_core::mounter::VolumeKey;
use wasmount_core::names::{DriverName, VolumeId};

mod file_systems;
pub(super) mod nodes;

const BYTES: u64 = 1 << 20;
/// The kernel unbinds within milliseconds; udev can keep a device open a little longer.
const PATIENCE: Duration = Duration::from_secs(20);
const IMAGE: &str = "WASMOUNT_TEST_IMAGE";
const VOLUME: &str = "v";

fn needs_root() {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test needs root (CAP_SYS_ADMIN); leave it out with `--skip privileged_`"
    );
}

pub(super) fn key(volume: &str) -> VolumeKey {
    VolumeKey {
        driver: DriverName::parse("loops.test").unwrap(),
        volume: VolumeId::parse("volume_id", volume).unwrap(),
    }
}

fn staged() -> Tag {
    Tag::staged(&key(VOLUME))
}

pub(super) fn image() -> OwnedFd {
    needs_root();
    let file = tempfile::tempfile().unwrap();
    file.set_len(BYTES).unwrap();
    file.into()
}

/// A kept device. It is released even if the test fails.
struct Kept(BlockRecord);

impl Kept {
    fn of(image: &OwnedFd, tag: &Tag) -> Self {
        let device = attach(image, false, tag).unwrap();
        keep(&device).unwrap();
        Self(device.record())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = release(&self.0);
    }
}

fn attached_to(image: &OwnedFd) -> Vec<Attached> {
    holders_of(image).unwrap()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn wait_until_gone(image: &OwnedFd) {
    wait_until("it is unbound", || attached_to(image).is_empty());
}

fn other(identity: Identity) -> Identity {
    Identity {
        inode: identity.inode + 1,
        ..identity
    }
}

#[test]
fn privileged_a_loop_device_is_bound_and_released_on_drop() {
    let image = image();
    let device = attach(&image, false, &staged()).unwrap();
    let backing = observe(&image).unwrap().identity;
    assert_eq!(device.backing, Some(backing));
    assert!(!device.is_read_only);
    assert_eq!(device.size_bytes().unwrap(), BYTES);
    let expected = Attached {
        number: device.number,
        backing,
        device: None,
        tag: Some(staged()),
        autoclear: true,
        read_only: false,
    };
    assert_eq!(status(device.number).unwrap(), Some(expected.clone()));
    assert_eq!(attached_to(&image), [expected]);
    drop(device);
    wait_until_gone(&image);
}

#[test]
#[ignore = "the process that the next test kills"]
fn attaches_and_waits() {
    let path = std::env::var_os(IMAGE).expect("started by the other test");
    let image = File::options().read(true).write(true).open(path).unwrap();
    let _device = attach(&image.into(), false, &staged()).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn privileged_a_killed_host_leaves_no_device() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(BYTES).unwrap();
    let image = OwnedFd::from(file.reopen().unwrap());
    needs_root();
    let name = "block::loop_device::tests::attaches_and_waits";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--ignored"])
        .env(IMAGE, file.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the child has attached it", || {
        !attached_to(&image).is_empty()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_gone(&image);
}

#[test]
fn privileged_a_kept_device_outlives_its_opener_and_is_released() {
    let image = image();
    let tag = Tag::target(&key(VOLUME), "/target");
    let kept = Kept::of(&image, &tag);
    let record = kept.0;
    let left = attached_to(&image);
    assert_eq!(left.len(), 1);
    assert!(!left[0].autoclear);
    assert_eq!(left[0].tag, Some(tag));
    assert_eq!(left[0].number, record.number);
    release(&record).unwrap();
    wait_until_gone(&image);
    // A device that is already gone is a success.
    release(&record).unwrap();
    assert!(open(&record).unwrap().is_none());
}

#[test]
fn privileged_a_reused_loop_device_is_left_alone() {
    let image = image();
    let kept = Kept::of(&image, &staged());
    let record = kept.0;
    let stale = BlockRecord {
        backing: record.backing.map(other),
        ..record
    };
    let lent_by_nobody = BlockRecord {
        backing: None,
        ..record
    };
    for record in [stale, lent_by_nobody] {
        release(&record).unwrap();
        assert!(open(&record).unwrap().is_none());
        let left = attached_to(&image);
        assert!(!left[0].autoclear, "it was meant to go");
    }
    release(&record).unwrap();
    wait_until_gone(&image);
}

#[test]
fn privileged_a_device_in_use_goes_with_its_last_user() {
    let image = image();
    let device = attach(&image, false, &staged()).unwrap();
    keep(&device).unwrap();
    release(&device.record()).unwrap();
    let left = attached_to(&image);
    assert!(left[0].autoclear);
    device.size_bytes().unwrap();
    drop(device);
    wait_until_gone(&image);
}

#[test]
fn privileged_a_device_is_opened_again_for_writing() {
    let image = image();
    let device = attach(&image, false, &staged()).unwrap();
    let again = open(&device.record()).unwrap().unwrap();
    drop(device);
    let file = File::from(again.file.try_clone().unwrap());
    file.write_all_at(b"content", 512).unwrap();
    file.sync_all().unwrap();
    let mut read = [0; 7];
    File::from(image.try_clone().unwrap())
        .read_exact_at(&mut read, 512)
        .unwrap();
    assert_eq!(&read, b"content");
    drop((file, again));
    wait_until_gone(&image);
}

#[test]
fn privileged_a_read_only_device_refuses_writes() {
    let image = image();
    let device = attach(&image, true, &staged()).unwrap();
    assert!(device.is_read_only);
    let again = open(&device.record()).unwrap().unwrap();
    assert!(again.is_read_only);
    for flags in [OFlags::RDWR, OFlags::WRONLY] {
        // Some kernels refuse the open, others the write.
        if let Ok(file) = rustix::fs::open(&device.path, flags | OFlags::CLOEXEC, Mode::empty()) {
            let written = File::from(file).write_all_at(b"content", 0);
            assert!(written.is_err());
        }
    }
    assert!(status(device.number).unwrap().unwrap().read_only);
}

#[test]
fn privileged_a_device_that_could_not_be_made_writable_says_so() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(BYTES).unwrap();
    needs_root();
    let image = OwnedFd::from(File::open(file.path()).unwrap());
    let device = attach(&image, false, &staged()).unwrap();
    assert!(device.is_read_only);
}

#[test]
fn privileged_a_block_device_has_a_read_only_twin() {
    let image = image();
    let device = attach(&image, false, &staged()).unwrap();
    let tag = Tag::target(&key(VOLUME), "/target");
    let twin = attach(&device.file, true, &tag).unwrap();
    assert!(twin.is_read_only);
    assert_ne!(twin.number, device.number);
    assert_eq!(
        twin.backing,
        Some(observe(&device.file).unwrap().identity),
        "the file in /dev"
    );
    let file = File::from(device.file.try_clone().unwrap());
    file.write_all_at(b"content", 0).unwrap();
    file.sync_all().unwrap();
    let mut read = [0; 7];
    File::from(twin.file.try_clone().unwrap())
        .read_exact_at(&mut read, 0)
        .unwrap();
    assert_eq!(&read, b"content");
}

#[test]
fn privileged_concurrently_attached_devices_differ() {
    // These tests may run twice at the same time.
    let own = |volume: &str| format!("{}-{volume}", std::process::id());
    let devices: Vec<_> = std::thread::scope(|scope| {
        let attach_four = |thread: u64| {
            let tag = |i: u64| Tag::staged(&key(&own(&format!("{thread}-{i}"))));
            let one = move |i| attach(&image(), false, &tag(i)).unwrap();
            (0..4).map(one).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..8)
            .map(|thread| scope.spawn(move || attach_four(thread)))
            .collect();
        let joined = threads.into_iter().map(|it| it.join().unwrap());
        joined.flatten().collect()
    });
    assert_eq!(devices.len(), 32);
    let numbers: BTreeSet<_> = devices.iter().map(|it| it.number).collect();
    assert_eq!(numbers.len(), 32);
    let all: Vec<_> = devices
        .iter()
        .map(|device| status(device.number).unwrap().unwrap())
        .collect();
    for device in &devices {
        let found: Vec<_> = all
            .iter()
            .filter(|it| Some(it.backing) == device.backing)
            .collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].number, device.number);
    }
    for volume in [own("0-0"), own("7-3")] {
        let of_volume = |it: &&Attached| it.tag.as_ref().is_some_and(|it| it.is_of(&key(&volume)));
        assert_eq!(all.iter().filter(of_volume).count(), 1);
    }
}

#[test]
fn privileged_a_grown_image_is_seen_once_its_size_is_taken() {
    let image = image();
    let device = attach(&image, false, &staged()).unwrap();
    rustix::fs::ftruncate(&image, 3 * BYTES).unwrap();
    assert_eq!(device.size_bytes().unwrap(), BYTES);
    take_size(&device).unwrap();
    assert_eq!(device.size_bytes().unwrap(), 3 * BYTES);
}

#[test]
fn privileged_the_path_of_a_removed_backing_file_is_reported() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(BYTES).unwrap();
    needs_root();
    let image = OwnedFd::from(file.reopen().unwrap());
    let device = attach(&image, false, &staged()).unwrap();
    let path = file.path().canonicalize().unwrap();
    assert_eq!(backing_path(device.number), Some(path.clone()));
    drop(file);
    assert!(!path.exists());
    assert_eq!(backing_path(device.number), Some(path));
}

#[test]
fn what_is_no_bound_loop_device_has_no_status_and_no_file() {
    let not_there = DeviceNumber {
        major: 7,
        minor: 0xf_ffff,
    };
    let memory = DeviceNumber { major: 1, minor: 1 };
    for number in [not_there, memory] {
        assert_eq!(status(number).unwrap(), None);
        assert_eq!(backing_path(number), None);
    }
}
