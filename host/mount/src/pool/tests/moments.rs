//! Copies as of one moment: groups of images, under writers, failures and kills at every step; and trees that change while they are copied.

mod steps;
mod trees;

use super::disk::*;
use super::*;
use std::os::unix::fs::FileExt;

const REFLINK: [&str; 2] = ["mkfs.xfs", "-q"];
const DISK_BYTES: u64 = 320 * MIB;

fn on_xfs() -> (Fixture, Disk) {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::on_loop(directory.path(), DISK_BYTES, &REFLINK, "");
    (Fixture::below(directory, false), disk)
}

fn end(fixture: Fixture, disk: Disk) {
    drop(fixture.pools);
    drop(disk);
}

fn image_of(fixture: &Fixture, path: &str, content: &str) {
    fixture.done(create_image(path, MIB));
    rewrite(&fixture.path(path), content);
}

/// The content of each image starts with its name.
fn images(fixture: &Fixture, names: &[&str]) {
    names.iter().for_each(|name| image_of(fixture, name, name));
}

fn rewrite(image: &Path, content: &str) {
    let file = std::fs::File::options().write(true).open(image).unwrap();
    file.write_all_at(content.as_bytes(), 0).unwrap();
}

fn begins_with(image: &Path, content: &str) -> bool {
    std::fs::read(image)
        .unwrap()
        .starts_with(content.as_bytes())
}

#[test]
fn privileged_a_group_of_100_is_found_by_its_retry() {
    let (fixture, disk) = on_xfs();
    let names: Vec<_> = (0..100)
        .map(|i| (format!("a{i}"), format!("b{i}")))
        .collect();
    for (source, _) in &names {
        image_of(&fixture, source, source);
    }
    let promised = fixture.promised();
    let mut group: Vec<_> = names
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    fixture.done(clone_images(&group));
    for (source, target) in &names {
        assert!(begins_with(&fixture.path(target), source));
    }
    assert_eq!(fixture.promised(), 2 * promised);
    group.reverse();
    fixture.done(clone_images(&group));
    let fixture = fixture.restarted();
    // A part of the group is consistent too, and each member is a copy.
    fixture.done(clone_images(&group[3..50]));
    fixture.done(clone_image("a7", "b7"));
    for (_, target) in &group {
        fixture.done(remove_image(target));
    }
    assert_eq!(fixture.promised(), promised);
    fixture.wait_until_clear();
    end(fixture, disk);
}

#[test]
fn privileged_a_partial_or_mixed_group_is_refused() {
    let (fixture, disk) = on_xfs();
    images(&fixture, &["a", "b", "other"]);
    let group = clone_images(&[("a", "a2"), ("b", "b2")]);
    let refused = || kind(fixture.call(group.clone()));
    // Each of them alone is a copy, but they are of different moments.
    fixture.done(clone_image("a", "a2"));
    assert_eq!(refused(), "otherwise there");
    fixture.done(clone_image("b", "b2"));
    assert_eq!(refused(), "otherwise there");
    fixture.done(remove_image("a2"));
    assert_eq!(refused(), "otherwise there");
    fixture.done(remove_image("b2"));
    fixture.done(group.clone());
    fixture.done(remove_image("b2"));
    assert_eq!(refused(), "otherwise there");
    assert!(begins_with(&fixture.path("a2"), "a"));
    fixture.done(remove_image("a2"));
    fixture.done(group);
    for (copies, expected) in [
        (&[("a", "c"), ("none", "d")][..], "not found"),
        (&[("a", "c"), ("b", "none/d")], "not found"),
        (&[("a", "c"), ("b", "other")], "otherwise there"),
        (&[("a", "c"), ("b", "c")], "invalid"),
        (&[("a", "c"), ("b", "../d")], "invalid"),
    ] {
        let refused = fixture.call(clone_images(copies));
        assert_eq!(kind(refused), expected, "{copies:?}");
        assert_eq!(fixture.stat("c"), None);
    }
    fixture.done(clone_images(&[]));
    // One source twice: two copies as of the same moment.
    fixture.done(clone_images(&[("a", "c"), ("a", "d")]));
    assert_eq!(fixture.promised(), 7 * MIB);
    fixture.wait_until_clear();
    end(fixture, disk);
}

#[test]
fn privileged_a_group_needs_shared_blocks() {
    for (mkfs, expected) in [
        (&["mkfs.btrfs", "-q"][..], "ok"),
        (&["mkfs.ext4", "-q"], "unsupported"),
        (&["mkfs.xfs", "-q", "-mreflink=0"], "unsupported"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::on_loop(directory.path(), DISK_BYTES, mkfs, "");
        let fixture = Fixture::below(directory, true);
        images(&fixture, &["a", "b"]);
        let copied = fixture.call(clone_images(&[("a", "a2"), ("b", "b2")]));
        assert_eq!(kind(copied), expected, "{mkfs:?}");
        assert_eq!(fixture.stat("a2").is_some(), expected == "ok", "{mkfs:?}");
        fixture.done(clone_image("a", "a3"));
        fixture.wait_until_clear();
        end(fixture, disk);
    }
}

#[test]
fn privileged_a_group_written_raw_is_consistent_or_refused() {
    const MEMBERS: u64 = 4;
    let (fixture, disk) = on_xfs();
    let sources: Vec<_> = (0..MEMBERS).map(|i| format!("a{i}")).collect();
    let files: Vec<_> = sources
        .iter()
        .map(|source| {
            fixture.done(create_image(source, MIB));
            let path = fixture.path(source);
            std::fs::File::options().write(true).open(path).unwrap()
        })
        .collect();
    let write = |count: u64| {
        let file = &files[(count % MEMBERS) as usize];
        file.write_all_at(&count.to_le_bytes(), 0).unwrap();
    };
    // Each image has a count before the first copy, whenever the writer begins.
    (MEMBERS..2 * MEMBERS).for_each(write);
    let is_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // One counter for all images, written in turn.
            for count in 2 * MEMBERS.. {
                write(count);
                if is_ended.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let _end = EndsOnDrop(&is_ended);
        for round in 0..10 {
            let targets: Vec<_> = (0..MEMBERS).map(|i| format!("b{round}-{i}")).collect();
            let group = sources.iter().zip(&targets);
            let group: Vec<_> = group.map(|(a, b)| (a.as_str(), b.as_str())).collect();
            match kind(fixture.call(clone_images(&group))) {
                "ok" => {
                    let counts = targets.iter().map(|target| {
                        let content = std::fs::read(fixture.path(target)).unwrap();
                        u64::from_le_bytes(content[..8].try_into().unwrap())
                    });
                    let counts: Vec<_> = counts.collect();
                    let spread = counts.iter().max().unwrap() - counts.iter().min().unwrap();
                    assert!(spread < MEMBERS, "{counts:?}");
                }
                refused => {
                    assert_eq!(refused, "in use");
                    assert!(targets.iter().all(|target| fixture.stat(target).is_none()));
                }
            }
        }
    });
    let group: Vec<_> = sources.iter().map(|a| (a.as_str(), "c")).take(1).collect();
    fixture.done(clone_images(&group));
    fixture.done(clone_images(&[("a0", "d0"), ("a1", "d1")]));
    fixture.wait_until_clear();
    end(fixture, disk);
}

#[test]
fn privileged_a_running_group_copy_is_joined() {
    let (fixture, disk) = on_xfs();
    images(&fixture, &["a", "b", "other"]);
    let pool = fixture.pools.open("data").unwrap();
    let wanted = || {
        let pairs = vec![to_be_copied("a", "a2"), to_be_copied("b", "b2")];
        CopyRequest::Images(pairs)
    };
    let (claim, _waiting) = copies::begin(&pool.copies, &wanted()).unwrap();
    let same = clone_images(&[("b", "b2"), ("a", "a2")]);
    for (call, expected) in [
        (same.clone(), "under way"),
        (clone_images(&[("a", "a2")]), "otherwise there"),
        (clone_image("b", "b2"), "otherwise there"),
        (clone_image("other", "a2"), "otherwise there"),
        (remove_image("a"), "in use"),
        (rename("b", "c"), "in use"),
        (remove_image("b2"), "under way"),
    ] {
        assert_eq!(kind(fixture.call(call.clone())), expected, "{call:?}");
    }
    let full = MountError::no_space("b2", "the disk is full");
    claim.unwrap().end(Err(full.clone()));
    // The error is returned once; the next call starts the copy again.
    drop(_waiting);
    assert_eq!(fixture.call(same.clone()), Err(full));
    fixture.done(same);
    drop(pool);
    end(fixture, disk);
}

#[test]
fn privileged_a_group_being_renamed_is_reported_once_there() {
    let (fixture, disk) = on_xfs();
    images(&fixture, &["a", "b"]);
    let group = clone_images(&[("a", "a2"), ("b", "b2")]);
    fixture.done(group.clone());
    let pool = fixture.pools.open("data").unwrap();
    let (say, said) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let moving = pool.is_half_moved.write().unwrap();
        // One half of the group exists.
        std::fs::rename(fixture.path("b2"), fixture.path("aside")).unwrap();
        for call in [group.clone(), clone_image("a", "a2"), stat("a2")] {
            let (say, fixture) = (say.clone(), &fixture);
            scope.spawn(move || say.send(fixture.call(call)).unwrap());
        }
        let early = said.recv_timeout(std::time::Duration::from_millis(300));
        assert!(early.is_err(), "{early:?}");
        std::fs::rename(fixture.path("aside"), fixture.path("b2")).unwrap();
        drop(moving);
    });
    for _ in 0..3 {
        let said = said.recv().unwrap();
        assert!(
            matches!(said, Ok(PoolReply::Done | PoolReply::Stat(Some(_)))),
            "{said:?}"
        );
    }
    drop(pool);
    end(fixture, disk);
}
