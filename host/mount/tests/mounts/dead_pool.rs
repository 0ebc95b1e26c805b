//! The disk below a pool fails while pods use its volumes: writes fail, no call blocks, and everything can be unmounted.

use crate::bench::*;
use crate::volume::Volume;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use wasmount_core::mounter::MountError;
use wasmount_core::volume::AccessType;

/// Size of the pool's own disk, in bytes.
const DISK_BYTES: u64 = 128 << 20;

fn run(program: &str, arguments: &[&str]) {
    let ended = Command::new(program).args(arguments).output();
    let ended = ended.unwrap_or_else(|error| panic!("this test needs `{program}`: {error}"));
    assert!(ended.status.success(), "{program} {arguments:?}: {ended:?}");
}

/// Mounts a separate disk at the pool; it is detached when its last user closes it (losetup(8), autoclear).
fn mount_disk_at(bench: &Bench, pool: &str) {
    let disk = bench.path("outside").join("disk");
    File::create(&disk).unwrap().set_len(DISK_BYTES).unwrap();
    let disk = disk.to_str().unwrap();
    run("mkfs.ext4", &["-q", disk]);
    run("mount", &["-o", "loop", disk, pool]);
}

/// Writes as a pod does, and returns only after the data is on storage.
fn write(volume: &Volume<'_>, target: &Path) -> std::io::Result<()> {
    let mut file = match volume.access_type {
        AccessType::Block => File::options().write(true).open(target)?,
        _ => File::create(target.join("data"))?,
    };
    file.write_all(&[1; 4096])?;
    file.sync_all()
}

#[test]
fn privileged_an_image_of_a_lost_pool_is_torn_down() {
    privileged(async |bench| {
        let mut bench = bench;
        for (form, mebibytes) in [("ext4", 32), ("raw", 16)] {
            let pool = bench.path("pool");
            let pool = pool.to_str().unwrap();
            mount_disk_at(&bench, pool);
            // The pool is now another directory.
            bench = bench.restarted();
            let volume = Volume::of_image(&bench, form, form, mebibytes).await;
            volume.stage().await.unwrap();
            volume.publish("a").await.unwrap();
            let target = bench.target("a");
            write(&volume, &target).unwrap();

            // From now on the file system fails every request, as if its disk had been removed.
            run("xfs_io", &["-x", "-c", "shutdown", pool]);
            let refused = write(&volume, &target).unwrap_err();
            assert_eq!(
                refused.raw_os_error(),
                Some(Errno::IO.raw_os_error()),
                "{form}"
            );
            let stats = volume.stats("a").await;
            assert!(!matches!(stats, Err(MountError::Hung { .. })), "{form}");
            volume.unpublish("a").await.unwrap();
            volume.unstage().await.unwrap();
            bench.assert_no_loop_devices();
            // The unmount is lazy: the mounter may hold the pool open for a moment.
            unmount(pool, UnmountFlags::DETACH).unwrap();
            bench.assert_clean();
            fs::remove_file(bench.path("outside").join("disk")).unwrap();
        }
    });
}
