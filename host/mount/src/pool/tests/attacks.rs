//! Attackers that can write into a pool or name a path: content outside of the pool does not change.

use super::disk::*;
use super::*;
use rustix::fs::{FileType, RenameFlags};
use rustix::mount::UnmountFlags;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

/// Duration of a race.
const RACE: Duration = Duration::from_millis(700);

/// Content that an attacker would like to access. It contains all names that the calls use.
struct Canary(TempDir);

impl Canary {
    fn plant() -> Self {
        let canary = Self(tempfile::tempdir().unwrap());
        for tree in ["tree", "source"] {
            std::fs::create_dir(canary.0.path().join(tree)).unwrap();
            std::fs::write(canary.0.path().join(tree).join("file"), "outside").unwrap();
        }
        std::fs::write(canary.0.path().join("image"), vec![7; 4096]).unwrap();
        canary
    }

    /// Every path below it with its mode and content.
    fn content(&self) -> Vec<(PathBuf, u32, Option<Vec<u8>>)> {
        let mut content = Vec::new();
        let mut waiting = vec![self.0.path().to_owned()];
        while let Some(path) = waiting.pop() {
            let status = std::fs::symlink_metadata(&path).unwrap();
            if status.is_dir() {
                waiting.extend(
                    std::fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
            content.push((path.clone(), status.mode(), std::fs::read(&path).ok()));
        }
        content.sort();
        content
    }
}

/// Makes calls while another thread repeats an attack as often as it can. Returns the number of successful attacks.
fn race(attack: impl Fn() -> bool + Sync, calls: impl Fn()) -> usize {
    let (is_over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                count.fetch_add(usize::from(attack()), Ordering::Relaxed);
            }
        });
        let _end = EndsOnDrop(&is_over);
        let start = Instant::now();
        while start.elapsed() < RACE {
            calls();
        }
    });
    count.into_inner()
}

#[test]
fn a_directory_swapped_for_a_link_leads_nowhere() {
    let fixture = Fixture::with(true);
    let canary = Canary::plant();
    let before = canary.content();
    fixture.done(create("start"));
    let (victim, link) = (fixture.path("victim"), fixture.path("link"));
    let swapped = race(
        || {
            let (cwd, exchange) = (rustix::fs::CWD, RenameFlags::EXCHANGE);
            rustix::fs::renameat_with(cwd, &victim, cwd, &link, exchange).is_ok()
        },
        || {
            let _ = std::fs::create_dir(&victim);
            let _ = symlink(canary.0.path(), &link);
            let calls = [
                create("victim/tree"),
                create("victim/source"),
                create_image("victim/image", 4096),
                clone_directory("victim/source", "victim/copy"),
                clone_image("victim/image", "victim/image-2"),
                resize_image("victim/image", 8192),
                rename("victim/tree", "victim/tree-2"),
                list("victim", None, 10),
                set_quota("victim/tree", Some(4096)),
                set_permissions("victim/tree", 0o777),
                set_permissions("victim", 0o777),
                stat("victim/tree/file"),
                remove_image("victim/image"),
                remove("victim/tree"),
                remove("victim/tree-2"),
                remove("victim/source"),
                remove("victim/copy"),
                remove_image("victim/image-2"),
                remove("victim"),
            ];
            for call in calls {
                match fixture.call(call) {
                    // The list contains nothing from outside either.
                    Ok(PoolReply::List(entries)) => {
                        assert!(
                            entries
                                .iter()
                                .all(|entry| entry.path.starts_with("victim/"))
                        );
                    }
                    _ => continue,
                }
            }
        },
    );
    assert!(swapped > 10, "{swapped}");
    assert_eq!(canary.content(), before);
}

#[test]
fn planted_links_are_removed_and_not_followed() {
    let fixture = Fixture::with(true);
    let canary = Canary::plant();
    fixture.done(create("a"));
    let inner = fixture.path("a/inner");
    std::fs::create_dir(&inner).unwrap();
    symlink(canary.0.path(), inner.join("tree")).unwrap();
    symlink(canary.0.path().join("image"), inner.join("image")).unwrap();
    symlink("/proc/self/root", inner.join("magic")).unwrap();
    std::fs::hard_link(canary.0.path().join("image"), inner.join("hard")).unwrap();
    let directory = std::fs::File::open(&inner).unwrap();
    rustix::fs::mknodat(&directory, "pipe", FileType::Fifo, 0o600.into(), 0).unwrap();
    let before = canary.content();
    fixture.done(clone_directory("a", "b"));
    assert!(
        std::fs::symlink_metadata(fixture.path("b/inner/tree"))
            .unwrap()
            .is_symlink()
    );
    assert!(
        std::fs::symlink_metadata(fixture.path("b/inner/pipe"))
            .unwrap()
            .file_type()
            .is_fifo()
    );
    fixture.done(remove("a"));
    fixture.done(remove("b"));
    fixture.wait_until_clear();
    assert_eq!(canary.content(), before);
}

#[test]
fn a_second_name_of_a_file_elsewhere_is_no_image_to_be_grown() {
    let fixture = Fixture::with(true);
    let canary = Canary::plant();
    fixture.done(create("start"));
    std::fs::hard_link(canary.0.path().join("image"), fixture.path("image")).unwrap();
    let before = canary.content();
    assert_eq!(kind(fixture.call(resize_image("image", 8192))), "invalid");
    fixture.done(remove_image("image"));
    assert_eq!(canary.content(), before);
}

#[test]
fn privileged_device_nodes_are_neither_opened_nor_copied() {
    let fixture = Fixture::with(true);
    fixture.done(create("a"));
    let root = std::fs::File::open(fixture.path("")).unwrap();
    let null = rustix::fs::makedev(1, 3);
    for path in ["null", "a/null"] {
        rustix::fs::mknodat(&root, path, FileType::CharacterDevice, 0o600.into(), null)
            .expect("making a device node needs root (CAP_MKNOD)");
    }
    std::fs::hard_link(fixture.path("a/null"), fixture.path("a/second")).unwrap();
    for call in [
        resize_image("null", 4096),
        remove_image("null"),
        remove("null"),
        clone_image("null", "b"),
        clone_directory("null", "b"),
        set_permissions("null", 0o777),
    ] {
        assert_eq!(kind(fixture.call(call.clone())), "invalid", "{call:?}");
    }
    fixture.done(clone_directory("a", "b"));
    assert!(!fixture.path("b/null").exists());
    fixture.done(remove("a"));
    fixture.wait_until_clear();
}

#[test]
fn names_that_look_like_paths_are_names() {
    let fixture = Fixture::with(true);
    let long = "n".repeat(255);
    let names = [
        "a\nb",
        "..\\..\\b",
        "\u{2024}\u{2024}",
        "a\u{2215}b",
        "\u{202e}gpj",
        " ",
        "-rf",
        "*",
        "$(reboot)",
        "...",
        &long,
    ];
    for name in names {
        fixture.done(create(name));
        assert!(fixture.path(name).is_dir(), "{name:?}");
        fixture.done(clone_directory(name, "copy"));
        fixture.done(remove("copy"));
        fixture.done(rename(name, "other"));
        fixture.done(rename("other", name));
        // An error message must not break a line of a log.
        let error = fixture
            .call(create_image(name, 4096))
            .unwrap_err()
            .to_string();
        assert!(
            !error.contains('\n') && !error.contains('\u{202e}'),
            "{error:?}"
        );
        fixture.done(remove(name));
    }
    assert_eq!(std::fs::read_dir(fixture.path("")).unwrap().count(), 1);
}

#[test]
fn invalid_names_are_rejected_by_every_call() {
    let fixture = Fixture::with(true);
    let (long, longer) = ("n".repeat(256), "n/".repeat(2048));
    for path in [
        "a\0",
        "\0",
        "./a",
        "a/.",
        "a/../a",
        &long,
        &longer,
        ".wasmount/ledger",
    ] {
        for call in calls_on(path) {
            let error = fixture.call(call.clone());
            assert!(
                error
                    .clone()
                    .is_err_and(|error| error.to_string().len() < 600)
            );
            assert_eq!(kind(error), "invalid", "{call:?}");
        }
    }
}

#[test]
fn privileged_a_mount_planted_during_removal_is_kept() {
    own_namespace();
    let fixture = Fixture::with(true);
    let canary = Canary::plant();
    let before = canary.content();
    let point = fixture.path("a/b/c");
    let planted = race(
        || {
            let planted = rustix::mount::mount_bind(canary.0.path(), &point).is_ok();
            std::thread::yield_now();
            // Mounts on top of each other make each later lookup, and each reading of the table of mounts, slower. One that moved away with the
            // directory stays.
            let _ = rustix::mount::unmount(&point, UnmountFlags::DETACH);
            planted
        },
        || {
            let _ = std::fs::create_dir_all(&point);
            let _ = fixture.call(remove("a"));
        },
    );
    assert!(planted > 0, "no mount was planted");
    assert_eq!(canary.content(), before);
    // After the mount is gone, the next start clears what was left.
    let pool = fixture.path("");
    for mount in crate::mountinfo::read().unwrap().iter().rev() {
        if mount.mount_point.starts_with(&pool) {
            rustix::mount::unmount(&mount.mount_point, UnmountFlags::DETACH).unwrap();
        }
    }
    fixture.restarted().wait_until_clear();
    assert_eq!(canary.content(), before);
}
