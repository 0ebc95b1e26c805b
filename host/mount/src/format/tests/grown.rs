//! A device that is larger than its file system: it is expanded when it is staged, and while it is mounted if the kernel allows that.

use super::*;

const LARGER: u64 = 3 * SIZE;
/// What a file system may reserve for itself: the journal of xfs, the inode tables of ext4.
const OWN: u64 = LARGER / 6;

#[test]
fn privileged_a_file_system_grows_only_when_staged_writable() {
    for fs_type in FsType::ALL {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            let mount = bench.mount(&disk, fs_type).unwrap();
            put(&mount, "data", "kept");
            assert!(capacity(&mount) <= SIZE);
            drop(mount);
            disk.resize(LARGER);
            let access = StorageAccess::ReadOnly;
            let mount = bench.mount_as(&disk, &requested(fs_type), access).unwrap();
            assert!(capacity(&mount) <= SIZE);
            drop(mount);
            let mount = bench.mount(&disk, fs_type).unwrap();
            assert!(
                capacity(&mount) > LARGER - OWN,
                "{fs_type:?} {}",
                capacity(&mount)
            );
            assert_eq!(get(&mount, "data"), "kept");
        });
    }
}

#[test]
fn privileged_xfs_and_btrfs_grow_online_once() {
    for fs_type in [FsType::Xfs, FsType::Btrfs] {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            let mount = bench.mount(&disk, fs_type).unwrap();
            put(&mount, "data", "kept");
            disk.resize(LARGER);
            for _ in 0..2 {
                grow(&disk.device, &mount, fs_type).unwrap();
                assert!(capacity(&mount) > LARGER - OWN, "{fs_type:?}");
            }
            assert_eq!(get(&mount, "data"), "kept");
        });
    }
}

#[test]
fn privileged_a_mounted_ext4_grows_or_names_the_next_stage() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        let mount = bench.mount(&disk, FsType::Ext4).unwrap();
        let place = bench.directory.join("place");
        fs::create_dir(&place).unwrap();
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&mount, c"", rustix::fs::CWD, &place, flags).unwrap();
        disk.resize(LARGER);
        match grow(&disk.device, &mount, FsType::Ext4) {
            Ok(()) => assert!(may_use_resources() && capacity(&mount) > LARGER - OWN),
            Err(error) => {
                assert!(!may_use_resources(), "{error}");
                assert!(matches!(error, MountError::Unusable { .. }), "{error}");
                assert!(error.to_string().contains("staged next"), "{error}");
                assert!(capacity(&mount) <= SIZE);
            }
        }
        unmount(&place, UnmountFlags::DETACH).unwrap();
        drop(mount);
        let mount = bench.mount(&disk, FsType::Ext4).unwrap();
        assert!(capacity(&mount) > LARGER - OWN);
        grow(&disk.device, &mount, FsType::Ext4).unwrap();
    });
}

#[test]
fn privileged_an_end_that_is_too_small_for_a_group_is_no_error() {
    for fs_type in FsType::ALL {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            drop(bench.mount(&disk, fs_type).unwrap());
            disk.resize(SIZE + 4096);
            for _ in 0..2 {
                let mount = bench.mount(&disk, fs_type).unwrap();
                grow(&disk.device, &mount, fs_type).unwrap();
            }
        });
    }
}

#[test]
fn privileged_a_btrfs_that_cannot_grow_stays_usable() {
    privileged(|bench| {
        // btrfs can be made with 109 MiB, but the kernel resizes none below 256 MiB.
        let disk = bench.disk(128 * MIB);
        drop(bench.mount(&disk, FsType::Btrfs).unwrap());
        disk.resize(192 * MIB);
        let mount = bench.mount(&disk, FsType::Btrfs).unwrap();
        put(&mount, "data", "kept");
        assert!(capacity(&mount) <= 128 * MIB);
        let error = grow(&disk.device, &mount, FsType::Btrfs).unwrap_err();
        assert!(matches!(error, MountError::Unusable { .. }), "{error}");
        assert!(error.to_string().contains("268435456 bytes"), "{error}");
        disk.resize(320 * MIB);
        grow(&disk.device, &mount, FsType::Btrfs).unwrap();
        assert!(capacity(&mount) > 192 * MIB);
        assert_eq!(get(&mount, "data"), "kept");
    });
}

/// CAP_SYS_RESOURCE is bit 24.
fn may_use_resources() -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    u64::from_str_radix(line.unwrap().trim(), 16).unwrap() & 1 << 24 != 0
}
