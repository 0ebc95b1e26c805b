//! A stale format intent: a file system that another program made since is never formatted, however damaged it is.

use super::interrupted::{begin, mkfs};
use super::*;

/// Offset of a byte that the superblock's checksum covers and that has no other meaning.
fn byte_to_tear(fs_type: FsType) -> u64 {
    match fs_type {
        FsType::Ext4 => 1024 + 0x3fc,
        FsType::Xfs => 120,
        FsType::Btrfs => (64 << 10) + 300,
    }
}

/// Formats the device by hand, or by our own `mkfs` whose intent was not cleared. Then it is mounted and filled on another node.
fn fill(bench: &Bench, disk: &Disk) {
    let place = bench.directory.join("elsewhere");
    fs::create_dir_all(&place).unwrap();
    run("mount", &[disk.path(), text(&place)]);
    fs::write(place.join("data"), "of another node").unwrap();
    take_off(&place);
}

fn is_left_alone(bench: &Bench, disk: &Disk, fs_type: FsType) {
    let before = disk.digest();
    let error = bench.mount(disk, fs_type).unwrap_err();
    assert!(
        matches!(
            error,
            MountError::Damaged { .. } | MountError::Unusable { .. }
        ),
        "{fs_type:?} {error}"
    );
    assert!(disk.digest() == before, "{fs_type:?}");
}

#[test]
fn privileged_a_torn_foreign_superblock_is_not_formatted() {
    for fs_type in FsType::ALL {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            begin(bench, &disk, fs_type);
            run(&format!("mkfs.{}", fs_type.name()), &["-q", disk.path()]);
            fill(bench, &disk);
            disk.flip(byte_to_tear(fs_type));
            is_left_alone(bench, &disk, fs_type);
        });
    }
}

#[test]
fn privileged_an_own_file_system_used_by_others_is_kept() {
    for fs_type in FsType::ALL {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            let uuid = begin(bench, &disk, fs_type);
            assert!(mkfs(&disk, fs_type, uuid).status().unwrap().success());
            fill(bench, &disk);
            disk.flip(byte_to_tear(fs_type));
            is_left_alone(bench, &disk, fs_type);
        });
    }
}

#[test]
fn privileged_a_foreign_unmounted_file_system_is_used() {
    for fs_type in FsType::ALL {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            begin(bench, &disk, fs_type);
            let other = Uuid::new_v4();
            assert!(mkfs(&disk, fs_type, other).status().unwrap().success());
            let type_and_name = ["-p", "-s", "UUID", "-o", "value", disk.path()];
            let name = run("blkid", &type_and_name);
            drop(bench.mount(&disk, fs_type).unwrap());
            assert_eq!(run("blkid", &type_and_name), name, "{fs_type:?}");
            assert_eq!(bench.durable.intent(&bench.key), None);
        });
    }
}

#[test]
fn privileged_a_lost_superblock_counts_only_in_own_images() {
    privileged(|bench| {
        let mut disk = bench.disk(SIZE);
        let uuid = begin(bench, &disk, FsType::Ext4);
        // This ext4 was made by another program: its copies of the superblock show that.
        run("mkfs.ext4", &["-q", disk.path()]);
        disk.write(0, &[0; 4096]);
        is_left_alone(bench, &disk, FsType::Ext4);
        disk.wipe();
        // Our own `mkfs`, killed before it wrote the superblock.
        assert!(mkfs(&disk, FsType::Ext4, uuid).status().unwrap().success());
        disk.write(0, &[0; 4096]);
        // A device of the node can be moved to another node.
        let backing = disk.device.backing.take();
        let uuid_of_device = begin(bench, &disk, FsType::Ext4);
        assert_ne!(uuid, uuid_of_device);
        is_left_alone(bench, &disk, FsType::Ext4);
        disk.device.backing = backing;
        let intent = bench.intent(&disk, FsType::Ext4, uuid);
        bench.durable.set_intent(&bench.key, Some(intent)).unwrap();
        bench.mount(&disk, FsType::Ext4).unwrap();
    });
}

#[test]
fn privileged_the_uuid_of_the_intent_proves_own_mkfs() {
    for (fs_type, is_told) in [
        (FsType::Ext4, true),
        (FsType::Xfs, true),
        (FsType::Btrfs, false),
    ] {
        privileged(move |bench| {
            let disk = bench.disk(SIZE);
            let uuid = begin(bench, &disk, fs_type);
            assert!(mkfs(&disk, fs_type, uuid).status().unwrap().success());
            let name = run("blkid", &["-p", "-s", "UUID", "-o", "value", disk.path()]);
            assert_eq!(name.trim() == uuid.to_string(), is_told, "{fs_type:?}");
        });
    }
}
