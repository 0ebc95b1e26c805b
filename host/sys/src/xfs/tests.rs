//! An xfs on a loop device, mounted in a private namespace.

use super::*;
use crate::loop_device::{NAME_BYTES, configure, free_number, set_capacity};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use rustix::thread::UnshareFlags;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `mkfs.xfs` requires at least this size.
const SMALL_BYTES: u64 = 300 << 20;
const LARGE_BYTES: u64 = 500 << 20;

#[test]
fn the_structures_have_the_kernels_sizes() {
    assert_eq!(size_of::<Geometry>(), 256);
    assert_eq!(size_of::<Growth>(), 16);
}

#[test]
fn another_file_system_is_no_xfs() {
    let file = File::open("/proc/self/status").unwrap();
    assert_eq!(geometry(&file).unwrap_err(), Errno::NOTTY);
    assert_eq!(grow(&file, 1), Err(Errno::NOTTY));
}

/// Binds a file to some loop device.
fn bind(image: &File) -> (File, PathBuf) {
    let control = File::open("/dev/loop-control").unwrap();
    loop {
        let path = PathBuf::from(format!("/dev/loop{}", free_number(&control).unwrap()));
        let device = File::options().read(true).write(true).open(&path).unwrap();
        match configure(&device, image, false, &[0; NAME_BYTES]) {
            Ok(()) => return (device, path),
            // Another process took the device first.
            Err(errno) => assert_eq!(errno, Errno::BUSY),
        }
    }
}

fn in_a_namespace(test: impl FnOnce() + Send + 'static) {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test needs root (CAP_SYS_ADMIN); leave it out with `--skip privileged_`"
    );
    let thread = std::thread::spawn(|| {
        #[allow(
            deprecated,
            reason = "the unsafe successor is about FILES, which is not asked for"
        )]
        rustix::thread::unshare(UnshareFlags::NEWNS).unwrap();
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).unwrap();
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn mounted(device: &Path, directory: &Path) -> File {
    let made = Command::new("mkfs.xfs").arg("-q").arg(device).status();
    assert!(made.unwrap().success());
    mount(device, directory, "xfs", MountFlags::empty(), None).unwrap();
    File::open(directory).unwrap()
}

#[test]
fn privileged_a_mounted_xfs_grows_to_its_device_and_no_further() {
    in_a_namespace(|| {
        let directory = tempfile::tempdir().unwrap();
        let image = tempfile::tempfile().unwrap();
        image.set_len(SMALL_BYTES).unwrap();
        let (device, path) = bind(&image);
        let root = mounted(&path, directory.path());
        let before = geometry(&root).unwrap();
        let block_bytes = u64::from(before.block_bytes);
        assert_eq!(before.data_blocks * block_bytes, SMALL_BYTES);
        assert_ne!(before.inodes_percent, 0);

        let wanted = LARGE_BYTES / block_bytes;
        assert!(
            grow(&root, wanted).is_err(),
            "the device is as small as before"
        );
        image.set_len(LARGE_BYTES).unwrap();
        set_capacity(&device).unwrap();
        grow(&root, wanted).unwrap();
        let after = geometry(&root).unwrap();
        assert_eq!(after.data_blocks, wanted);
        assert_eq!(after.inodes_percent, before.inodes_percent);
        // A repeated call is not an error.
        grow(&root, wanted).unwrap();

        // Unmounts lazily: a child of another test may hold copies of our descriptors until its exec.
        unmount(directory.path(), UnmountFlags::DETACH).unwrap();
    });
}
