//! What is never formatted: signatures of other programs, and content that only looks blank. Not one byte changes.

use super::*;

/// Refused for every type, named or default. The message contains the name of the content.
fn refused(bench: &Bench, disk: &Disk, word: &str) -> MountError {
    let before = disk.digest();
    let mut last = None;
    for fs_type in FsType::ALL {
        for is_named in [true, false] {
            let requested = BlockFilesystem {
                is_named,
                ..requested(fs_type)
            };
            let error = bench.mount_as(disk, &requested, RW).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
            last = Some(error);
        }
    }
    assert!(disk.digest() == before, "{word}: the device was changed");
    assert_eq!(bench.durable.intent(&bench.key), None);
    last.unwrap()
}

/// Runs these commands on a device; `@` is its path.
fn after(script: &'static [&'static str], word: &'static str) {
    privileged(move |bench| {
        let disk = bench.disk(SIZE);
        for line in script {
            run("sh", &["-c", &line.replace('@', disk.path())]);
        }
        let error = refused(bench, &disk, word);
        assert!(matches!(error, MountError::Unusable { .. }), "{error}");
        // An intent does not change that.
        interrupted::begin(bench, &disk, FsType::Ext4);
        let before = disk.digest();
        let error = bench.mount(&disk, FsType::Ext4).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        assert!(disk.digest() == before);
    });
}

#[test]
fn privileged_a_volume_of_lvm_is_not_formatted() {
    after(&["pvcreate -q --yes @"], "LVM2_member");
}

#[test]
fn privileged_an_encrypted_device_is_not_formatted() {
    const LUKS: &str =
        "printf pw | cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 @ -";
    after(&[LUKS], "crypto_LUKS");
}

#[test]
fn privileged_swap_is_not_formatted() {
    after(&["mkswap @"], "swap");
}

#[test]
fn privileged_a_partition_table_is_not_formatted() {
    after(
        &["printf 'label: dos\\n,,L\\n' | sfdisk -q --no-reread --no-tell-kernel @"],
        "a partition table (dos)",
    );
    after(
        &["printf 'label: gpt\\n,,L\\n' | sfdisk -q --no-reread --no-tell-kernel @"],
        "a partition table (gpt)",
    );
}

#[test]
fn privileged_another_file_system_is_not_formatted() {
    after(&["mkfs.ext3 -q @"], "there is ext3 on it");
    after(
        &[
            "mksquashfs /etc/apt @.sqsh -quiet -no-progress && dd if=@.sqsh of=@ conv=notrunc,fsync && rm @.sqsh",
        ],
        "squashfs",
    );
}

#[test]
fn privileged_two_signatures_at_once_are_not_formatted() {
    after(
        &[
            "mkfs.ext4 -q @",
            "truncate -s 320M @.xfs && mkfs.xfs -q @.xfs",
            "dd if=@.xfs of=@ count=1 conv=notrunc,fsync && rm @.xfs",
        ],
        "several signatures",
    );
}

#[test]
fn privileged_bytes_without_a_signature_are_not_formatted() {
    for at in [4097, 64 * MIB + 100, SIZE - 1] {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            disk.write(at, b"x");
            let error = refused(bench, &disk, &format!("byte {at} is not 0"));
            assert!(matches!(error, MountError::Unusable { .. }), "{error}");
        });
    }
}

#[test]
fn privileged_a_broken_superblock_is_not_blank() {
    // blkid reports "nothing found" for each of these, or would if it verified this checksum.
    for (fs_type, mkfs, at) in [
        (FsType::Xfs, "mkfs.xfs", 120),
        (FsType::Btrfs, "mkfs.btrfs", 65536 + 300),
        (FsType::Ext4, "mkfs.ext4", 1024 + 0x3fc),
    ] {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            run(mkfs, &["-q", disk.path()]);
            disk.flip(at);
            let before = disk.digest();
            let mounted = bench.mount(&disk, fs_type);
            match (fs_type, mounted) {
                // blkid accepts the magic number, and e2fsck does not start.
                (FsType::Ext4, Err(MountError::Damaged { .. })) => {}
                // blkid accepts the magic number here too, and the kernel verifies the checksum.
                (FsType::Btrfs, Err(MountError::Unusable { .. })) => {}
                (FsType::Xfs, Err(MountError::Damaged { .. })) => {}
                (_, other) => panic!("{fs_type:?}: {other:?}"),
            }
            assert!(disk.digest() == before);
            assert_eq!(bench.durable.intent(&bench.key), None);
        });
    }
}

#[test]
fn privileged_an_erased_superblock_is_not_blank() {
    for (fs_type, mkfs, at) in [
        (FsType::Xfs, "mkfs.xfs", 0),
        (FsType::Btrfs, "mkfs.btrfs", 65536),
        (FsType::Ext4, "mkfs.ext4", 0),
    ] {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            run(mkfs, &["-q", disk.path()]);
            disk.write(at, &[0; 4096]);
            let error = refused(bench, &disk, "is not 0");
            assert!(
                matches!(error, MountError::Unusable { .. }),
                "{fs_type:?} {error}"
            );
        });
    }
}

#[test]
fn privileged_a_device_that_cannot_be_read_is_not_blank() {
    privileged(|bench| {
        let image = bench.directory.join("image");
        let file = File::create(&image).unwrap();
        file.set_len(SIZE).unwrap();
        // The backing file of the device is truncated, so reads fail. Without direct I/O, Linux 6.1 reads zeros.
        let disk = Disk::attach(&image, &["--direct-io=on"]);
        file.set_len(0).unwrap();
        run("blockdev", &["--flushbufs", disk.path()]);
        let error = bench.mount(&disk, FsType::Ext4).unwrap_err();
        assert!(matches!(error, MountError::Kernel { .. }), "{error}");
        assert_eq!(bench.durable.intent(&bench.key), None);
    });
}
