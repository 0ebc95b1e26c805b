//! Two mounts of one device, and two devices with one UUID.

use super::*;

#[test]
fn privileged_a_device_mounted_elsewhere_is_refused() {
    for (fs_type, access) in [
        (FsType::Ext4, RW),
        (FsType::Xfs, StorageAccess::ReadOnly),
        (FsType::Btrfs, StorageAccess::Untouched),
    ] {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            let mount = bench.mount(&disk, fs_type).unwrap();
            let error = bench
                .mount_as(&disk, &requested(fs_type), access)
                .unwrap_err();
            assert!(matches!(error, MountError::InUse { .. }), "{error}");
            // The kernel itself refuses too, if the host does not check before and the kernel can.
            let configure = || mount::configure(&disk.device, fs_type, &[], RW);
            match mount::mount(
                configure().unwrap(),
                configure,
                &disk.device,
                fs_type,
                FLAGS,
            ) {
                Err(MountError::InUse { .. }) => assert!(mounts_exclusively()),
                Ok(_) => assert!(!mounts_exclusively()),
                Err(error) => panic!("{error}"),
            }
            put(&mount, "data", "still writable");
        });
    }
}

#[test]
fn privileged_two_copies_with_one_uuid_are_mounted_side_by_side() {
    for fs_type in FsType::ALL {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            let mount = bench.mount(&disk, fs_type).unwrap();
            put(&mount, "data", "of both");
            drop(mount);
            let copy = bench.copy(&disk);
            let first = bench.mount(&disk, fs_type).unwrap();
            if !mounts_copies(fs_type) {
                let error = bench.mount(&copy, fs_type).unwrap_err().to_string();
                assert!(
                    error.contains("Linux 6.7") && error.contains("`btrfstune -u`"),
                    "{error}"
                );
                put(&first, "data", "of the first");
                drop(first);
                assert_eq!(
                    get(&bench.mount(&copy, fs_type).unwrap(), "data"),
                    "of both"
                );
                return;
            }
            let second = bench.mount(&copy, fs_type).unwrap();
            put(&first, "data", "of the first");
            assert_eq!(get(&second, "data"), "of both", "{fs_type:?}");
            put(&second, "data", "of the second");
            drop((first, second));
            // Each file system kept its own data.
            assert_eq!(
                get(&bench.mount(&disk, fs_type).unwrap(), "data"),
                "of the first"
            );
            assert_eq!(
                get(&bench.mount(&copy, fs_type).unwrap(), "data"),
                "of the second"
            );
        });
    }
}

#[test]
fn privileged_a_stale_device_number_does_not_block_a_copy() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        drop(bench.mount(&disk, FsType::Btrfs).unwrap());
        let copy = bench.copy(&disk);
        let whole = fs::read(&copy.image).unwrap();
        // This device number belonged before to the second device of a file system over two devices.
        let image = bench.directory.join("other");
        File::create(&image).unwrap().set_len(SIZE).unwrap();
        let other = Disk::attach(&image, &[]);
        run("mkfs.btrfs", &["-q", "-f", other.path(), copy.path()]);
        copy.write(0, &whole);
        let first = bench.mount(&disk, FsType::Btrfs).unwrap();
        // One after the other, where the kernel does not take both.
        let _first = Some(first).filter(|_| mounts_copies(FsType::Btrfs));
        bench.mount(&copy, FsType::Btrfs).unwrap();
    });
}

#[test]
fn privileged_a_path_that_leads_to_another_device_is_refused() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        let image = bench.directory.join("other");
        File::create(&image).unwrap().set_len(SIZE).unwrap();
        let mut other = Disk::attach(&image, &[]);
        let path = std::mem::replace(&mut other.device.path, disk.device.path.clone());
        let error = bench.mount(&other, FsType::Ext4).unwrap_err();
        assert!(
            error.to_string().contains("does not lead to device"),
            "{error}"
        );
        other.device.path = path;
        bench.mount(&other, FsType::Ext4).unwrap();
    });
}
