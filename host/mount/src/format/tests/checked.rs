//! Errors in a file system: repaired if a tool may repair them, otherwise reported for the administrator.

use super::*;

#[test]
fn privileged_a_repairable_ext4_is_repaired_before_use() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        let mount = bench.mount(&disk, FsType::Ext4).unwrap();
        put(&mount, "data", "kept");
        drop(mount);
        // The count of free blocks is wrong, and the state flag reports errors.
        for request in [
            "set_super_value free_blocks_count 7",
            "set_super_value state 2",
        ] {
            run("debugfs", &["-w", "-R", request, disk.free_path()]);
        }
        let mount = bench.mount(&disk, FsType::Ext4).unwrap();
        assert_eq!(get(&mount, "data"), "kept");
        drop(mount);
        let text = run("dumpe2fs", &["-h", disk.path()]);
        assert!(text.contains("Filesystem state:         clean"), "{text}");
    });
}

#[test]
fn privileged_an_ext4_beyond_mending_is_damaged_and_not_mounted() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        drop(bench.mount(&disk, FsType::Ext4).unwrap());
        for request in ["clri <2>", "set_super_value state 2"] {
            run("debugfs", &["-w", "-R", request, disk.free_path()]);
        }
        let error = bench.mount(&disk, FsType::Ext4).unwrap_err();
        assert!(matches!(error, MountError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("`e2fsck`"), "{error}");
    });
}

#[test]
fn privileged_an_ext4_that_is_only_read_is_not_checked() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        drop(bench.mount(&disk, FsType::Ext4).unwrap());
        run(
            "debugfs",
            &[
                "-w",
                "-R",
                "set_super_value free_blocks_count 7",
                disk.free_path(),
            ],
        );
        let before = disk.digest();
        let access = StorageAccess::Untouched;
        drop(
            bench
                .mount_as(&disk, &requested(FsType::Ext4), access)
                .unwrap(),
        );
        assert!(disk.digest() == before);
    });
}

#[test]
fn privileged_an_ext4_cannot_panic_the_node() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        drop(bench.mount(&disk, FsType::Ext4).unwrap());
        let name = disk.path().trim_start_matches("/dev/");
        let shown = format!("/proc/fs/ext4/{name}/options");
        let is_calm = |requested: &BlockFilesystem, access, expected: &str| {
            let _mount = bench.mount_as(&disk, requested, access).unwrap();
            let options = fs::read_to_string(&shown).unwrap();
            let output: Vec<_> = options
                .lines()
                .filter(|it| it.starts_with("errors="))
                .collect();
            assert_eq!(output, [expected], "{access:?}");
        };
        for wanting in [&["-e", "panic"], &["-E", "mount_opts=errors=panic"]] {
            run("tune2fs", &[wanting, &[disk.free_path()][..]].concat());
            for access in [RW, StorageAccess::ReadOnly, StorageAccess::Untouched] {
                is_calm(&requested(FsType::Ext4), access, "errors=remount-ro");
            }
            let mut requested = requested(FsType::Ext4);
            let going_on = vec![("errors".to_owned(), "continue".to_owned())];
            requested.options.insert(FsType::Ext4, going_on);
            is_calm(&requested, RW, "errors=continue");
        }
    });
}

#[test]
fn privileged_an_ext4_whose_superblock_is_torn_is_damaged() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        drop(bench.mount(&disk, FsType::Ext4).unwrap());
        disk.write(1024 + 0x3fc, b"X");
        let error = bench.mount(&disk, FsType::Ext4).unwrap_err();
        assert!(matches!(error, MountError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("checksum"), "{error}");
    });
}

#[test]
fn privileged_an_xfs_that_the_kernel_finds_damaged_is_damaged() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        drop(bench.mount(&disk, FsType::Xfs).unwrap());
        // The descriptors of the first group, after the superblock.
        disk.write(512, &[0xff; 1536]);
        let error = bench.mount(&disk, FsType::Xfs).unwrap_err();
        assert!(matches!(error, MountError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("`xfs_repair`"), "{error}");
    });
}

#[test]
fn privileged_a_btrfs_over_several_devices_is_refused() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        let image = bench.directory.join("second");
        File::create(&image).unwrap().set_len(SIZE).unwrap();
        let second = Disk::attach(&image, &[]);
        run("mkfs.btrfs", &["-q", disk.path(), second.path()]);
        let error = bench.mount(&disk, FsType::Btrfs).unwrap_err();
        assert!(error.to_string().contains("2 devices"), "{error}");
    });
}

#[test]
fn privileged_a_dirty_journal_is_replayed_only_by_a_writer() {
    for fs_type in FsType::ALL {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            let mount = bench.mount(&disk, fs_type).unwrap();
            // btrfs logs only data of files that are already on disk.
            put(&mount, "data", "old");
            rustix::fs::syncfs(File::open(inside(&mount, "")).unwrap()).unwrap();
            put(&mount, "data", "kept");
            // The state after a power cut: the device is copied while it is mounted.
            let copy = bench.copy(&disk);
            drop(mount);
            let before = copy.digest();
            let access = StorageAccess::Untouched;
            let error = bench
                .mount_as(&copy, &requested(fs_type), access)
                .unwrap_err();
            assert!(
                error.to_string().contains("its journal is not empty"),
                "{error}"
            );
            assert!(copy.digest() == before, "{fs_type:?}");
            let replayed = bench.mount(&copy, fs_type).unwrap();
            assert_eq!(get(&replayed, "data"), "kept");
            drop(replayed);
            let before = copy.digest();
            let read = bench.mount_as(&copy, &requested(fs_type), access).unwrap();
            assert_eq!(get(&read, "data"), "kept");
            drop(read);
            assert!(copy.digest() == before, "{fs_type:?}");
        });
    }
}
