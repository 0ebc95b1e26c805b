//! Real loop devices: which volume gets the image, and which is refused.

use super::*;
use crate::confine::PoolPath;
use std::fs::File;
use std::thread::sleep;
use std::time::{Duration, Instant};
use wasmount_core::mounter::VolumeKey;
use wasmount_core::names::{DriverName, VolumeId};

const BYTES: u64 = 1 << 20;
const ROUNDS: usize = 10;

fn tag(volume: &str) -> Tag {
    Tag::staged(&VolumeKey {
        driver: DriverName::parse("images.test").unwrap(),
        volume: VolumeId::parse("volume_id", volume).unwrap(),
    })
}

fn needs_root() {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test needs root (CAP_SYS_ADMIN); leave it out with `--skip privileged_`"
    );
}

/// A pool with one image.
fn pool() -> (tempfile::TempDir, PoolPlace) {
    needs_root();
    let directory = tempfile::tempdir().unwrap();
    let image = File::create(directory.path().join("v.img")).unwrap();
    image.set_len(BYTES).unwrap();
    let place = PoolPlace {
        pool: "main".to_owned(),
        directory: directory.path().to_owned(),
        path: PoolPath::parse("v.img").unwrap(),
    };
    (directory, place)
}

fn is_refused(image: &PoolPlace, is_read_only: bool, volume: &str) {
    let error = attach(image, is_read_only, &tag(volume)).unwrap_err();
    assert!(matches!(error, MountError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("the loop device 7:"), "{error}");
}

#[test]
fn privileged_an_image_has_one_writing_loop_device() {
    let (_directory, image) = pool();
    let device = attach(&image, false, &tag("v")).unwrap();
    for volume in ["v", "w"] {
        is_refused(&image, false, volume);
        is_refused(&image, true, volume);
    }
    // The read-only twin of a raw block volume that is already published.
    let twin = attach_read_only(&image, &tag("v")).unwrap();
    assert!(twin.is_read_only);
    drop(device);
    is_refused(&image, false, "v");
    assert!(attach(&image, true, &tag("w")).unwrap().is_read_only);
}

#[test]
fn privileged_an_image_that_is_let_go_soon_is_waited_for() {
    let (_directory, image) = pool();
    let device = attach(&image, false, &tag("v")).unwrap();
    std::thread::scope(|scope| {
        let next = scope.spawn(|| attach(&image, false, &tag("v")));
        sleep(Duration::from_millis(60));
        assert!(!next.is_finished());
        drop(device);
        next.join().unwrap().unwrap();
    });
}

#[test]
fn privileged_one_of_two_concurrent_attachments_is_refused() {
    let (_directory, image) = pool();
    for _ in 0..ROUNDS {
        let outcomes = std::thread::scope(|scope| {
            let threads = ["v", "w"].map(|volume| {
                let image = &image;
                scope.spawn(move || attach(image, false, &tag(volume)))
            });
            threads.map(|thread| thread.join().unwrap())
        });
        let attached = outcomes.iter().filter(|it| it.is_ok()).count();
        assert_eq!(attached, 1, "{outcomes:?}");
    }
}

#[test]
fn privileged_a_late_binding_of_another_process_is_found() {
    let (_directory, image) = pool();
    let file = open(&image, false).unwrap();
    let other = loop_device::attach(&file, false, &tag("other")).unwrap();
    let error = bind(&image, &file, false, &tag("v")).unwrap_err();
    let number = other.number.to_string();
    assert!(error.to_string().contains(&number), "{error}");
    // Our device is released.
    let deadline = Instant::now() + Duration::from_secs(2);
    while loop_device::holders_of(&file).unwrap().len() > 1 {
        assert!(Instant::now() < deadline);
        sleep(Duration::from_millis(20));
    }
    assert_eq!(
        loop_device::holders_of(&file).unwrap()[0].number,
        other.number
    );
}
