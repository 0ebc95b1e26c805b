//! Blank devices are formatted once; later calls use the existing file system.

use super::*;

#[test]
fn privileged_a_rejected_option_prevents_formatting() {
    for fs_type in FsType::ALL {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            let before = disk.digest();
            let option = ("no_such_option".to_owned(), "1".to_owned());
            let requested = BlockFilesystem {
                options: [(fs_type, vec![option])].into(),
                ..requested(fs_type)
            };
            let error = bench.mount_as(&disk, &requested, RW).unwrap_err();
            if judges_each_option(fs_type.name()) {
                assert!(matches!(error, MountError::Invalid { .. }), "{error}");
                assert!(disk.digest() == before, "{fs_type:?}");
                assert_eq!(bench.durable.intent(&bench.key), None);
            } else {
                let text = error.to_string();
                assert!(text.contains("does not know these mount options"), "{text}");
            }
            // The device is still blank after the refusal, or formatted for this volume.
            bench.mount(&disk, fs_type).unwrap();
        });
    }
}

#[test]
fn privileged_a_blank_device_is_formatted_once() {
    for fs_type in FsType::ALL {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            let mount = bench.mount(&disk, fs_type).unwrap();
            assert_eq!(FsType::of_mounted(&mount).unwrap(), Some(fs_type));
            assert_eq!(bench.durable.intent(&bench.key), None);
            put(&mount, "data", "kept");
            drop(mount);
            for access in [RW, StorageAccess::ReadOnly, StorageAccess::Untouched] {
                let mount = bench.mount_as(&disk, &requested(fs_type), access).unwrap();
                assert_eq!(get(&mount, "data"), "kept", "{fs_type:?} {access:?}");
                let written = fs::write(inside(&mount, "new"), "x");
                assert_eq!(written.is_ok(), access == RW);
            }
        });
    }
}

#[test]
fn privileged_an_existing_type_beats_a_default_only() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        run("mkfs.xfs", &["-q", disk.path()]);
        let before = disk.digest();
        let error = bench.mount(&disk, FsType::Ext4).unwrap_err();
        assert!(matches!(error, MountError::Unusable { .. }), "{error}");
        assert!(error.to_string().contains("there is xfs on it"), "{error}");
        assert_eq!(disk.digest(), before);
        let default = BlockFilesystem {
            is_named: false,
            ..requested(FsType::Ext4)
        };
        let mount = bench.mount_as(&disk, &default, RW).unwrap();
        assert_eq!(FsType::of_mounted(&mount).unwrap(), Some(FsType::Xfs));
    });
}

#[test]
fn privileged_a_blank_device_that_is_only_read_stays_blank() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        let before = disk.digest();
        for access in [StorageAccess::ReadOnly, StorageAccess::Untouched] {
            let error = bench
                .mount_as(&disk, &requested(FsType::Ext4), access)
                .unwrap_err();
            assert!(error.to_string().contains("no file system yet"), "{error}");
        }
        assert_eq!(disk.digest(), before);
        assert_eq!(bench.durable.intent(&bench.key), None);
    });
}

#[test]
fn privileged_a_read_only_device_is_refused_to_a_writer() {
    privileged(|bench| {
        let image = bench.directory.join("image");
        File::create(&image).unwrap().set_len(SIZE).unwrap();
        let disk = Disk::attach(&image, &["--read-only"]);
        let error = bench.mount(&disk, FsType::Ext4).unwrap_err();
        assert!(error.to_string().contains("it is read-only"), "{error}");
    });
}

#[test]
fn privileged_options_reach_the_file_system_one_by_one() {
    privileged(|bench| {
        let disk = bench.disk(SIZE);
        let with = |options: &[(&str, &str)]| {
            let own = options
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            let mut requested = requested(FsType::Ext4);
            requested.options.insert(FsType::Ext4, own);
            bench.mount_as(&disk, &requested, RW)
        };
        drop(with(&[("data", "journal"), ("noauto_da_alloc", "")]).unwrap());
        let error = with(&[("data", "ordered,journal_checksum")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "option `data` of device {} is not valid: the kernel rejects it",
                disk.path()
            )
        );
    });
}
