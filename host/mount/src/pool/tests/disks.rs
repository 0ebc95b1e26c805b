//! Dedicated file systems: full ones, ones that share blocks, ones with project quotas, and mounts inside a pool.

use super::disk::*;
use super::*;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use wasmount_sys::quota;

#[test]
fn privileged_a_mount_in_a_pool_is_neither_entered_nor_removed() {
    own_namespace();
    let fixture = Fixture::with(true);
    fixture.done(create("a"));
    fixture.done(create("a/b"));
    fixture.done(create("a/b/mount"));
    let disk = Disk::in_memory(&fixture.path("a/b/mount"), MIB);
    std::fs::write(fixture.path("a/b/mount/kept"), "").unwrap();
    for call in [remove("a"), remove("a/b/mount"), clone_directory("a", "c")] {
        assert_eq!(kind(fixture.call(call.clone())), "in use", "{call:?}");
    }
    for call in [
        create("a/b/mount/new"),
        remove("a/b/mount/kept"),
        set_permissions("a/b/mount", 0o700),
        list("a/b/mount", None, 1),
        set_quota("a/b/mount", Some(1)),
    ] {
        assert_eq!(kind(fixture.call(call.clone())), "invalid", "{call:?}");
    }
    let mount = fixture.stat("a/b/mount").unwrap();
    assert_eq!(mount.kind, PoolEntryKind::Other("mount point".to_owned()));
    assert!(fixture.path("a/b/mount/kept").exists());
    // Of many entries, the mount table says it.
    for number in 0..2 * trash::FEW {
        std::fs::write(fixture.path(&format!("a/{number}")), "").unwrap();
    }
    assert_eq!(kind(fixture.call(remove("a"))), "in use");
    assert!(fixture.path("a/0").exists());
    drop(disk);
    fixture.done(remove("a"));
    fixture.wait_until_clear();
}

#[test]
fn privileged_trash_kept_by_a_mount_goes_with_the_next_removal() {
    own_namespace();
    let fixture = Fixture::new();
    fixture.done(create("a"));
    fixture.done(create("a/b"));
    std::fs::write(fixture.path("a/file"), "").unwrap();
    fixture.done(create("c"));
    // As if it had been mounted between the check and the removal.
    let pool = fixture.pools.open("data").unwrap();
    let discarded = trash::discard(&pool, pool.root.as_fd(), "a").unwrap();
    let point = fixture
        .path(".wasmount/trash")
        .join(discarded.to_str().unwrap())
        .join("b");
    let disk = Disk::in_memory(&point, MIB);
    std::fs::write(point.join("kept"), "").unwrap();
    assert_eq!(
        trash::delete(&pool, discarded),
        Err(rustix::io::Errno::BUSY)
    );
    assert!(point.join("kept").exists());
    drop(disk);
    fixture.done(remove("c"));
    fixture.wait_until_clear();
}

#[test]
fn privileged_a_full_disk_is_no_space_and_a_removal_still_works() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::on_loop(
        directory.path(),
        32 * MIB,
        &["mkfs.ext4", "-q", "-m0", "-N64"],
        "",
    );
    // The pool is dropped before the disk that contains it.
    let fixture = Fixture::below(directory, true);
    fixture.done(create("a"));
    fixture.done(create_image("image", MIB));
    std::fs::write(fixture.path("a/source"), vec![1; 2 << 20]).unwrap();
    fill(&fixture.path("a/filler"));
    assert_eq!(kind(fixture.call(create_image("b", MIB))), "no space");
    assert_eq!(kind(fixture.call(set_quota("a", Some(MIB)))), "no space");
    assert_eq!(kind(fixture.call(clone_directory("a", "c"))), "no space");
    assert_eq!(fixture.stat("c"), None);
    // No inodes are left either.
    let full = (0..200)
        .map(|i| fixture.call(create(&format!("n{i}"))))
        .find(Result::is_err);
    assert_eq!(kind(full.unwrap()), "no space");
    fixture.done(remove("a"));
    fixture.wait_until_clear();
    fixture.done(create("again"));
    assert_eq!(fixture.promised(), MIB);
    drop(fixture.pools);
    drop(disk);
}

#[test]
fn privileged_space_used_by_others_is_not_promised() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::in_memory(directory.path(), 64 * MIB);
    std::fs::write(directory.path().join("others"), vec![1; 32 << 20]).unwrap();
    let fixture = Fixture::below(directory, false);
    let made = (0..5).map(|i| fixture.call(create_image(&format!("image-{i}"), 24 * MIB)));
    let made: Vec<_> = made.map(kind).collect();
    assert_eq!(made, ["ok", "no space", "no space", "no space", "no space"]);
    let available = fixture.capacity().available_bytes;
    assert!((7 * MIB..=8 * MIB).contains(&available), "{available}");
    drop(fixture.pools);
    drop(disk);
}

#[test]
fn privileged_allocated_image_space_is_not_promised_twice() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::in_memory(directory.path(), 64 * MIB);
    let mut fixture = Fixture::below(directory, false);
    fixture.done(create("a"));
    fixture.done(create_image("a/image", 32 * MIB));
    let about = |fixture: &Fixture, mib: u64| {
        let available = fixture.capacity().available_bytes;
        assert!(
            ((mib - 1) * MIB..=mib * MIB).contains(&available),
            "{available}"
        );
    };
    about(&fixture, 32);
    std::fs::write(fixture.path("a/image"), vec![1; 32 << 20]).unwrap();
    about(&fixture, 32);
    fixture.done(rename("a", "b"));
    about(&fixture, 32);
    fixture.done(rename("b/image", "image"));
    fixture = fixture.restarted();
    about(&fixture, 32);
    // A promise is checked against the same number.
    assert_eq!(kind(fixture.call(create_image("c", 33 * MIB))), "no space");
    fixture.done(create_image("c", 31 * MIB));
    // Another file at its path has used nothing of its promise: the inode differs.
    std::fs::rename(fixture.path("image"), fixture.path("gone")).unwrap();
    std::fs::write(fixture.path("image"), "").unwrap();
    assert_eq!(fixture.capacity().available_bytes, 0);
    drop(fixture.pools);
    drop(disk);
}

/// Trees and images are copied without using blocks, though full copies are not granted, and the copies are independent afterwards.
fn shares_blocks(mkfs: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::on_loop(directory.path(), 320 * MIB, mkfs, "");
    let fixture = Fixture::below(directory, false);
    fixture.done(create("a"));
    std::fs::write(fixture.path("a/file"), vec![1; 48 << 20]).unwrap();
    fixture.done(create_image("image", 48 * MIB));
    std::fs::write(fixture.path("image"), vec![1; 48 << 20]).unwrap();
    let free = || {
        rustix::fs::syncfs(std::fs::File::open(fixture.path("")).unwrap()).unwrap();
        let disk = rustix::fs::statvfs(fixture.path("")).unwrap();
        disk.f_bavail * disk.f_frsize
    };
    let before = free();
    fixture.done(clone_directory("a", "b"));
    fixture.done(clone_image("image", "image-2"));
    assert!(before - free() < 8 * MIB, "blocks are not shared");
    // The copy may be overwritten and then needs its own blocks; its source has them.
    let available = fixture.capacity().available_bytes;
    assert!(free() - available >= 48 * MIB, "{available}");
    let read = |path| std::fs::read(fixture.path(path)).unwrap();
    assert!(read("b/file") == read("a/file") && read("image-2") == read("image"));
    std::fs::write(fixture.path("image"), vec![2; 1 << 20]).unwrap();
    assert!(read("image-2") == vec![1; 48 << 20]);
    drop(fixture.pools);
    drop(disk);
}

#[test]
fn privileged_xfs_shares_blocks_and_needs_no_full_copies() {
    shares_blocks(&["mkfs.xfs", "-q"]);
}

#[test]
fn privileged_btrfs_shares_blocks_and_needs_no_full_copies() {
    shares_blocks(&["mkfs.btrfs", "-q"]);
}

/// A pod can make subvolumes in its volume. Their inode numbers are those of other files of the pool, too.
#[test]
fn privileged_subvolumes_are_removed_with_their_tree() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::on_loop(directory.path(), 128 * MIB, &["mkfs.btrfs", "-q"], "");
    let fixture = Fixture::below(directory, false);
    fixture.done(create("a"));
    for number in 0..32 {
        fixture.done(create_image(&format!("image{number}"), MIB));
    }
    let promised = fixture.promised();
    for subvolume in ["a/sub", "a/sub/inner"] {
        let path = fixture.path(subvolume);
        run(Command::new("btrfs")
            .args(["-q", "subvolume", "create"])
            .arg(&path));
        for number in 0..64 {
            std::fs::write(path.join(number.to_string()), "").unwrap();
        }
        std::fs::create_dir_all(path.join("deep/deeper")).unwrap();
        std::fs::write(path.join("deep/deeper/file"), "").unwrap();
    }
    fixture.done(remove("a"));
    fixture.wait_until_clear();
    assert_eq!(fixture.promised(), promised);
    drop(fixture.pools);
    drop(disk);
}

#[test]
fn privileged_files_of_subvolumes_stay_apart_in_a_clone() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::on_loop(directory.path(), 128 * MIB, &["mkfs.btrfs", "-q"], "");
    let fixture = Fixture::below(directory, false);
    fixture.done(create("a"));
    // The copy waits for its second name, which is not in the tree.
    let plain = fixture.path("a/plain");
    std::fs::write(&plain, "plain").unwrap();
    std::fs::hard_link(&plain, fixture.path("elsewhere")).unwrap();
    let number = |path: &Path| std::fs::metadata(path).unwrap().ino();
    let subvolume = fixture.path("a/sub");
    run(Command::new("btrfs")
        .args(["-q", "subvolume", "create"])
        .arg(&subvolume));
    let names: Vec<_> = (0..64).map(|name: u32| name.to_string()).collect();
    for name in &names {
        let file = subvolume.join(name);
        std::fs::write(&file, "sub").unwrap();
        std::fs::hard_link(&file, subvolume.join(format!("{name}-again"))).unwrap();
    }
    let is_same = |name: &String| number(&subvolume.join(name)) == number(&plain);
    assert!(names.iter().any(is_same));
    fixture.done(clone_directory("a", "b"));
    for name in &names {
        let copy = fixture.path("b/sub").join(name);
        assert_eq!(std::fs::read_to_string(copy).unwrap(), "sub", "{name}");
    }
    drop(fixture.pools);
    drop(disk);
}

#[test]
fn privileged_a_file_system_that_cannot_share_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::in_memory(directory.path(), 16 * MIB);
    let fixture = Fixture::below(directory, false);
    fixture.done(create("a"));
    std::fs::write(fixture.path("a/file"), "x").unwrap();
    fixture.done(create_image("image", MIB));
    assert_eq!(kind(fixture.call(clone_directory("a", "b"))), "unsupported");
    assert_eq!(kind(fixture.call(clone_image("image", "b"))), "unsupported");
    assert_eq!(fixture.stat("b"), None);
    assert_eq!(fixture.promised(), MIB);
    fixture.wait_until_clear();
    drop(fixture.pools);
    drop(disk);
}

/// Promises 4 MiB and writes 8: the reply about enforcement, which is returned, must match what happens.
fn quota_tells_the_truth(fixture: &Fixture) -> bool {
    fixture.done(create("a"));
    std::fs::create_dir(fixture.path("a/inner")).unwrap();
    std::fs::write(fixture.path("a/inner/old"), vec![1; 1 << 20]).unwrap();
    let Ok(PoolReply::Quota { enforced }) = fixture.call(set_quota("a", Some(4 * MIB))) else {
        panic!("no quota");
    };
    let may_write_all = write_as_a_pod(&fixture.path("a/inner/new"), 8);
    assert_eq!(may_write_all, !enforced);
    if enforced {
        let allocated = fixture.stat("a").unwrap().allocated_bytes;
        assert!(
            (3 * MIB..=4 * MIB).contains(&allocated),
            "{allocated} of {}",
            4 * MIB
        );
        let grown = fixture.call(set_quota("a", Some(16 * MIB)));
        assert_eq!(grown, Ok(PoolReply::Quota { enforced: true }));
        assert!(write_as_a_pod(&fixture.path("a/inner/new"), 8));
        a_partial_assignment_is_completed(fixture);
    }
    fixture.done(remove("a"));
    assert_eq!(fixture.promised(), 0);
    enforced
}

/// As after a kill between the record of the project and the end of the assignment: the same call completes it.
fn a_partial_assignment_is_completed(fixture: &Fixture) {
    let pool = fixture.pools.open("data").unwrap();
    let open = |path| std::fs::File::open(fixture.path(path)).unwrap();
    let (inode, _) = ledger::Inode::of_fd(open("a")).unwrap();
    let project = pool.ledger.get(inode).project.unwrap();
    for path in ["a/inner/old", "a/inner"] {
        quota::set_project(open(path), 0, false).unwrap();
    }
    let unmark = |_, record: &mut ledger::Record| {
        record.in_project = false;
        true
    };
    pool.ledger.update(inode, unmark).unwrap();
    let again = fixture.call(set_quota("a", Some(16 * MIB)));
    assert_eq!(again, Ok(PoolReply::Quota { enforced: true }));
    for path in ["a", "a/inner", "a/inner/old", "a/inner/new"] {
        assert_eq!(quota::project(open(path)), Ok(project), "{path}");
    }
    assert!(pool.ledger.get(inode).in_project);
}

/// Whether a program can write a file of this many MiB. It has no CAP_SYS_RESOURCE, as containers by default: ext4 exempts it from quotas.
fn write_as_a_pod(path: &Path, mebibytes: u64) -> bool {
    let mut write = std::process::Command::new("setpriv");
    write
        .args(["--inh-caps=-sys_resource", "--bounding-set=-sys_resource"])
        .args(["dd", "if=/dev/zero", "bs=64k", "conv=fsync"])
        .arg(format!("count={}", mebibytes * MIB / (64 << 10)))
        .arg(format!("of={}", path.display()));
    write.output().unwrap().status.success()
}

fn quota_on_xfs() -> bool {
    let directory = tempfile::tempdir().unwrap();
    // A kernel without quotas accepts the option and leaves them off, or refuses it; both are correct for that kernel.
    let options = if quotas_in("xfs") { "prjquota" } else { "" };
    let disk = Disk::on_loop(directory.path(), 320 * MIB, &["mkfs.xfs", "-q"], options);
    let fixture = Fixture::below(directory, false);
    let enforced = quota_tells_the_truth(&fixture);
    drop(fixture.pools);
    drop(disk);
    enforced
}

fn quota_on_ext4() -> bool {
    let directory = tempfile::tempdir().unwrap();
    let disk = if quotas_in("ext4") {
        let mkfs = [
            "mkfs.ext4",
            "-q",
            "-O",
            "quota,project",
            "-E",
            "quotatype=prjquota",
        ];
        Disk::on_loop(directory.path(), 64 * MIB, &mkfs, "prjquota")
    } else {
        Disk::on_loop(directory.path(), 64 * MIB, &["mkfs.ext4", "-q"], "")
    };
    let fixture = Fixture::below(directory, false);
    let enforced = quota_tells_the_truth(&fixture);
    drop(fixture.pools);
    drop(disk);
    enforced
}

#[test]
fn privileged_a_quota_on_xfs_says_truly_whether_it_is_enforced() {
    quota_on_xfs();
}

#[test]
fn privileged_a_quota_on_ext4_says_truly_whether_it_is_enforced() {
    quota_on_ext4();
}

#[test]
fn on_other_kernel_a_quota_is_enforced() {
    for (file_system, quota) in [("xfs", quota_on_xfs()), ("ext4", quota_on_ext4())] {
        assert!(
            quota,
            "this kernel has no project quota of {file_system}: run the test by `cargo xtask test`"
        );
    }
}
