//! Trees that are written to while they are copied.

use super::*;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// Directories of a tree. Its copy lasts for long enough to be met in the midst, 80 ms, and is quick enough to be repeated (`QUICK`) in a VM with one
/// processor, where it takes 20 times as long.
const DIRECTORIES: usize = 30;
/// Copies of a tree that is written to all the time, of which at least one is refused.
const COPIES: usize = 100;
/// Between two looks at a running copy, which takes longer for each directory; without it a VM does little else.
const LOOK: Duration = Duration::from_millis(1);

/// Names in a directory, while it exists.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.collect()
}

/// Directories of the running copies.
fn under_way(fixture: &Fixture) -> Vec<PathBuf> {
    let aside = fixture.path(".wasmount/unfinished");
    let names = names(&aside).into_iter();
    names.map(|name| aside.join(name).join("tree")).collect()
}

/// Directories with one file each, and one file to be written.
fn tree(fixture: &Fixture) {
    fixture.done(create("tree"));
    fixture.fill("tree", DIRECTORIES);
}

#[test]
fn privileged_a_tree_written_once_is_copied_as_it_is_after() {
    let (fixture, disk) = on_xfs();
    tree(&fixture);
    let is_ended = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            let mut written = None;
            while !is_ended.load(Ordering::Relaxed) {
                for copy in under_way(&fixture) {
                    // A directory that the copy has completed: another one was started.
                    let begun = names(&copy);
                    if written.is_none() && begun.len() > 1 {
                        let done = begun
                            .into_iter()
                            .find(|name| names(&copy.join(name)).len() == 100);
                        written = done.inspect(|name| {
                            let path = fixture.path("tree").join(name).join("0");
                            let file = std::fs::File::options().write(true).open(path).unwrap();
                            // The size is equal and the modification time is reset: only the change time shows the write.
                            let before = file.metadata().unwrap().modified().unwrap();
                            file.write_all_at(b"x", 0).unwrap();
                            file.set_modified(before).unwrap();
                        });
                    }
                    seen.insert(copy);
                }
                std::thread::sleep(LOOK);
            }
            (seen, written)
        });
        let end = EndsOnDrop(&is_ended);
        fixture.done(clone_directory("tree", "copy"));
        drop(end);
        writer.join().unwrap()
    });
    let (seen, written) = seen;
    let name = written.expect("the copy was over before anything was written");
    assert!(seen.len() > 1, "it was copied only once");
    let content = std::fs::read(fixture.path("copy").join(name).join("0")).unwrap();
    assert!(content.starts_with(b"x"));
    fixture.wait_until_clear();
    end(fixture, disk);
}

#[test]
fn privileged_a_tree_is_copied_once_writes_stop() {
    let (fixture, disk) = on_xfs();
    tree(&fixture);
    type Write<'a> = &'a (dyn Fn(u64) + Sync);
    let path = fixture.path("tree/7");
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let rewritten = |count: u64| {
        let file = std::fs::File::options()
            .write(true)
            .open(path.join("0"))
            .unwrap();
        file.write_all_at(&[count as u8], 0).unwrap();
        file.set_modified(old).unwrap();
    };
    let made = |count: u64| std::fs::write(path.join(format!("new-{count}")), "").unwrap();
    let swapped = |count: u64| {
        let (from, to) = if count.is_multiple_of(2) {
            ("1", "one")
        } else {
            ("one", "1")
        };
        std::fs::rename(path.join(from), path.join(to)).unwrap();
    };
    let owned = |count: u64| {
        let owner = Some(count as u32 % 2);
        std::os::unix::fs::chown(path.join("0"), owner, None).unwrap();
    };
    let writes: [Write<'_>; 4] = [&rewritten, &made, &swapped, &owned];
    for (number, write) in writes.into_iter().enumerate() {
        let is_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut count = 0;
                while !is_ended.load(Ordering::Relaxed) || count % 2 == 1 {
                    write(count);
                    count += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let _end = EndsOnDrop(&is_ended);
            // On a busy machine the writer may pause for as long as a copy takes.
            let refused = (0..COPIES).find_map(|_| {
                match kind(fixture.call(clone_directory("tree", "copy"))) {
                    "ok" => fixture.done(remove("copy")),
                    refused => return Some(refused),
                }
                None
            });
            assert_eq!(refused, Some("in use"), "{number}");
        });
        assert_eq!(fixture.stat("copy"), None);
        let copy = format!("copy-{number}");
        fixture.done(clone_directory("tree", &copy));
        assert_eq!(
            names(&fixture.path(&copy).join("7")).len(),
            names(&path).len()
        );
    }
    fixture.wait_until_clear();
    end(fixture, disk);
}

#[test]
fn a_tree_that_is_only_read_meanwhile_stands_still() {
    let fixture = Fixture::with(true);
    tree(&fixture);
    let is_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_ended.load(Ordering::Relaxed) {
                for name in names(&fixture.path("tree")) {
                    std::fs::read(fixture.path("tree").join(name).join("0")).unwrap();
                }
            }
        });
        let _end = EndsOnDrop(&is_ended);
        fixture.done(clone_directory("tree", "copy"));
    });
    fixture.wait_until_clear();
}

/// Repeatedly writes a counter through mappings, to the first file and then to the second.
const WRITER: &str = "
import mmap, os, sys
one, two = (mmap.mmap(os.open(path, os.O_RDWR), 4096) for path in sys.argv[1:])
count = 0
while True:
    count += 1
    one[:8] = two[:8] = count.to_bytes(8, 'little')
    if count == 1: print(flush=True)
";

#[test]
fn privileged_a_tree_written_by_mmap_is_consistent_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::on_loop(directory.path(), 64 * MIB, &["mkfs.ext4", "-q"], "");
    let fixture = Fixture::below(directory, true);
    fixture.done(create("tree"));
    for name in ["one", "two"] {
        std::fs::write(fixture.path("tree").join(name), [0; 4096]).unwrap();
    }
    let mut writer = Command::new("python3")
        .args(["-c", WRITER])
        .args(["one", "two"].map(|name| fixture.path("tree").join(name)))
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test needs python3: install it");
    let mut begun = [0];
    std::io::Read::read_exact(writer.stdout.as_mut().unwrap(), &mut begun).unwrap();
    let copy = |round: &usize| format!("copy-{round}");
    let called = |round| fixture.call(clone_directory("tree", &copy(&round)));
    let ended: Vec<_> = (0..5).map(|round| kind(called(round))).collect();
    // Before anything can fail: otherwise the writer would run for ever.
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert!(ended.iter().all(|it| ["ok", "in use"].contains(it)));
    let copied = (0..5).filter(|round| ended[*round] == "ok").map(|round| {
        ["one", "two"].map(|name| {
            let content = std::fs::read(fixture.path(&copy(&round)).join(name)).unwrap();
            u64::from_le_bytes(content[..8].try_into().unwrap())
        })
    });
    let copied: Vec<_> = copied.collect();
    for [one, two] in &copied {
        assert!(*one == *two || *one == two + 1, "{copied:?}");
    }
    fixture.done(clone_directory("tree", "copy"));
    end(fixture, disk);
}
