//! Memory of a call on a volume that a pod filled with hostile content, measured by the kernel in a separate process.

use super::disk::*;
use super::*;
use crate::confine::open_confined;
use rustix::fs::{AtFlags, Mode, OFlags, linkat, mkdirat, openat};
use std::os::fd::OwnedFd;
use std::process::Command;

/// Maximum growth of the process for each call: the bound of a walk (docs/security.md).
const BOUND_KIB: u64 = 16 << 10;
const DIRECTORY: &str = "WASMOUNT_TEST_MEMORY_DIRECTORY";
const WORK: &str = "WASMOUNT_TEST_MEMORY_WORK";
/// Each hostile entry lies at the end of a path of 14 x 250 bytes: together 40 MB and more.
const LEVELS: usize = 14;
const LONG: usize = 250;
const ENTRIES: usize = 12_000;
const ROOM: u64 = 512 * MIB;

/// A volume `a` with a deep directory, which is returned open.
fn deep(fixture: &Fixture) -> OwnedFd {
    fixture.done(create("a"));
    let mut at: OwnedFd = std::fs::File::open(fixture.path("a")).unwrap().into();
    for _ in 0..LEVELS {
        let name = "d".repeat(LONG);
        mkdirat(&at, &*name, Mode::RWXU).unwrap();
        at = open_confined(&at, &*name, OFlags::RDONLY).unwrap();
    }
    at
}

fn siblings(at: &OwnedFd) {
    for i in 0..ENTRIES {
        let name = i.to_string();
        mkdirat(at, &*name, Mode::RWXU).unwrap();
        // It is not empty: such a directory is moved before it is removed.
        mkdirat(
            open_confined(at, &*name, OFlags::RDONLY).unwrap(),
            "b",
            Mode::RWXU,
        )
        .unwrap();
    }
}

fn hard_links(at: &OwnedFd) {
    for i in 0..ENTRIES {
        let (one, other) = (format!("{i}"), format!("{i}-again"));
        let flags = OFlags::WRONLY | OFlags::CREATE;
        openat(at, &*one, flags, Mode::RUSR).unwrap();
        linkat(at, &*one, at, &*other, AtFlags::empty()).unwrap();
    }
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    word.unwrap().parse().unwrap()
}

#[test]
#[ignore = "the process whose memory the other tests measure"]
fn memory_worker() {
    let directory = std::env::var_os(DIRECTORY).expect("started by another test");
    let pools = pools(Path::new(&directory), true, &Arc::new(Used::default()));
    pools.call(stat("x")).unwrap();
    let before = peak_kib();
    match std::env::var(WORK).unwrap().as_str() {
        "remove" => drop(pools.call(remove("a")).unwrap()),
        "copy" => drop(pools.call(clone_directory("a", "b")).unwrap()),
        _ => {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let root = rustix::fs::open(Path::new(&directory).join("a"), flags, Mode::empty());
            crate::group::apply(&root.unwrap(), 2000, false).unwrap();
        }
    }
    println!("grew by {} KiB", peak_kib() - before);
}

/// How much the process grew by one piece of work, in KiB.
fn growth(work: &str, fill: fn(&OwnedFd)) -> (Fixture, u64, Disk, TempDir) {
    let above = tempfile::tempdir().unwrap();
    let disk = Disk::in_memory(above.path(), ROOM);
    let fixture = Fixture::below(tempfile::tempdir_in(above.path()).unwrap(), true);
    fill(&deep(&fixture));
    let Fixture {
        directory,
        pools,
        used,
    } = fixture;
    let path = directory.path().join("pool");
    drop(pools);
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "pool::tests::memory::memory_worker",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(DIRECTORY, &path)
        .env(WORK, work)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{words}");
    let grew = text
        .split("grew by ")
        .nth(1)
        .and_then(|it| it.split(' ').next());
    let grew = grew.unwrap().parse().unwrap();
    let pools = super::pools(&path, true, &used);
    let fixture = Fixture {
        directory,
        pools,
        used,
    };
    (fixture, grew, disk, above)
}

#[test]
fn privileged_a_removal_of_wide_trees_is_bounded_in_memory() {
    let (fixture, grew, _disk, _above) = growth("remove", siblings);
    assert!(grew < BOUND_KIB, "{grew} KiB");
    assert!(!fixture.path("a").exists());
    fixture.wait_until_clear();
}

#[test]
fn privileged_a_copy_of_many_hard_links_is_bounded_in_memory() {
    let (fixture, grew, _disk, _above) = growth("copy", hard_links);
    assert!(grew < BOUND_KIB, "{grew} KiB");
    let mut at: OwnedFd = std::fs::File::open(fixture.path("b")).unwrap().into();
    for _ in 0..LEVELS {
        at = open_confined(&at, &*"d".repeat(LONG), OFlags::RDONLY).unwrap();
    }
    for i in [0, ENTRIES - 1] {
        let status = |name: String| rustix::fs::statat(&at, name, AtFlags::empty()).unwrap();
        let (one, other) = (status(format!("{i}")), status(format!("{i}-again")));
        assert_eq!((one.st_ino, one.st_nlink), (other.st_ino, 2));
    }
    fixture.wait_until_clear();
}

#[test]
fn privileged_a_group_change_of_wide_trees_is_bounded_in_memory() {
    let (fixture, grew, _disk, _above) = growth("group", siblings);
    assert!(grew < BOUND_KIB, "{grew} KiB");
    drop(fixture);
}
