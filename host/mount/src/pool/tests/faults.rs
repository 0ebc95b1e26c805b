//! Disks that are full or read-only at any step: nothing incomplete is visible, no promise is left without use, and a retry succeeds afterwards.

use super::disk::*;
use super::*;
use std::os::unix::fs::FileExt;

/// Blocks that are released one by one, until a call succeeds.
struct Filler(Vec<PathBuf>);

impl Filler {
    /// Uses all blocks and all space for inodes of a disk.
    fn take_all(fixture: &Fixture) -> Self {
        let mut files = Vec::new();
        for i in 0..4096 {
            let path = fixture.directory.path().join(format!("filler-{i}"));
            let Ok(file) = std::fs::File::create(&path) else {
                break;
            };
            files.push(path);
            let mut written = 0;
            // In pieces of decreasing size, so that no block is left.
            for size in [1 << 20, 64 << 10, 4096] {
                let bytes = vec![1; size];
                while written < STEP_BYTES && file.write_all_at(&bytes, written).is_ok() {
                    written += size as u64;
                }
            }
            if written < STEP_BYTES {
                break;
            }
        }
        Self(files)
    }

    /// Releases space. `false`: nothing is left.
    fn give(&mut self, bytes: u64) -> bool {
        let Some(path) = self.0.last() else {
            return false;
        };
        let file = std::fs::File::options().write(true).open(path).unwrap();
        let length = file.metadata().unwrap().len();
        match length.checked_sub(bytes).filter(|length| *length > 0) {
            Some(length) => file.set_len(length).unwrap(),
            None => {
                std::fs::remove_file(path).unwrap();
                self.0.pop();
            }
        }
        true
    }
}

/// Size of one file of the filler.
const STEP_BYTES: u64 = 4 << 20;

fn ext4() -> (Fixture, Disk) {
    let directory = tempfile::tempdir().unwrap();
    let mkfs = [
        "mkfs.ext4",
        "-q",
        "-m0",
        "-N256",
        "-Onone,extent,sparse_super",
    ];
    let disk = Disk::on_loop(directory.path(), 24 * MIB, &mkfs, "");
    (Fixture::below(directory, true), disk)
}

/// Entries of the pool without the host's private directory.
fn entries(fixture: &Fixture) -> Vec<String> {
    let entries = std::fs::read_dir(fixture.path("")).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".wasmount")
        .collect();
    names.sort();
    names
}

#[test]
fn privileged_a_call_on_a_full_disk_leaves_nothing() {
    for call in [
        create("new"),
        create_image("new", 64 << 10),
        clone_image("image", "new"),
        clone_directory("tree", "new"),
        rename("tree", "new"),
        set_quota("tree", Some(MIB)),
        resize_image("image", 2 * MIB),
    ] {
        let (fixture, disk) = ext4();
        fixture.done(create("tree"));
        std::fs::write(fixture.path("tree/file"), vec![3; 64 << 10]).unwrap();
        fixture.done(create_image("image", MIB));
        std::fs::write(fixture.path("image"), vec![4; 1 << 20]).unwrap();
        let (before, promised) = (entries(&fixture), fixture.promised());
        let mut filler = Filler::take_all(&fixture);
        // Space is released block by block: the call fails at each of its steps in turn.
        let mut refused = 0;
        loop {
            match kind(fixture.call(call.clone())) {
                "ok" => break,
                "no space" => refused += 1,
                other => panic!("{other}: {call:?}"),
            }
            assert_eq!(entries(&fixture), before, "{call:?}");
            assert_eq!(fixture.promised(), promised, "{call:?}");
            assert!(filler.give(8192), "{call:?}");
        }
        println!("{call:?}: refused {refused} times");
        assert_eq!(kind(fixture.call(call)), "ok");
        fixture.wait_until_clear();
        drop(fixture.pools);
        drop(disk);
    }
}

#[test]
fn privileged_on_a_full_disk_everything_can_be_removed() {
    let (fixture, disk) = ext4();
    for i in 0..40 {
        fixture.done(create_image(&format!("image-{i}"), 64 << 10));
        fixture.done(create(&format!("tree-{i}")));
        let quota = set_quota(&format!("tree-{i}"), Some(4096));
        assert!(fixture.call(quota).is_ok());
    }
    let filler = Filler::take_all(&fixture);
    assert_eq!(
        kind(fixture.call(create_image("new", 64 << 10))),
        "no space"
    );
    for i in 0..40 {
        fixture.done(remove_image(&format!("image-{i}")));
        fixture.done(remove(&format!("tree-{i}")));
    }
    assert_eq!((fixture.promised(), entries(&fixture).len()), (0, 0));
    let fixture = fixture.restarted();
    assert_eq!(fixture.promised(), 0);
    drop(filler);
    drop(fixture.pools);
    drop(disk);
}

#[test]
fn privileged_a_disk_turned_read_only_is_still_read() {
    let directory = tempfile::tempdir().unwrap();
    let options = "errors=remount-ro";
    let disk = Disk::on_loop(directory.path(), 24 * MIB, &["mkfs.ext4", "-q"], options);
    let fixture = Fixture::below(directory, true);
    fixture.done(create("tree"));
    fixture.done(create_image("image", MIB));
    let (before, promised) = (entries(&fixture), fixture.promised());
    disk.make_read_only();
    for call in [
        create("new"),
        create_image("new", 4096),
        clone_image("image", "new"),
        clone_directory("tree", "new"),
        rename("tree", "new"),
        set_quota("tree", Some(4096)),
        set_permissions("tree", 0o700),
        resize_image("image", 2 * MIB),
        remove_image("image"),
        remove("tree"),
    ] {
        let answer = fixture.call(call.clone());
        assert!(
            matches!(answer, Err(MountError::Kernel { errno: 30, .. })),
            "{call:?}: {answer:?}"
        );
        assert_eq!(entries(&fixture), before, "{call:?}");
        assert_eq!(fixture.promised(), promised, "{call:?}");
    }
    assert!(fixture.stat("image").is_some());
    assert!(fixture.capacity().total_bytes > 0);
    let Fixture {
        directory, pools, ..
    } = fixture;
    drop(pools);
    disk.mend();
    let fixture = Fixture::below(directory, true);
    assert_eq!((entries(&fixture), fixture.promised()), (before, promised));
    for call in [
        clone_image("image", "new"),
        remove_image("new"),
        remove_image("image"),
        remove("tree"),
    ] {
        fixture.done(call);
    }
    assert_eq!(fixture.promised(), 0);
    drop(fixture.pools);
    drop(disk);
}
