//! The walk that applies a group to a volume.

use super::*;
use crate::namespace::in_a_namespace;
use rustix::fs::{IFlags, ioctl_setflags};
use rustix::mount::{MountFlags, mount};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

const GROUP: u32 = 2000;

/// A tree that a pod could have written.
struct Tree {
    directory: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "this test needs root (CAP_CHOWN); leave it out with `--skip privileged_`"
        );
        let tree = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(tree.path("volume")).unwrap();
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs a test in a mount namespace that ends with it.
    fn isolated(self, test: impl FnOnce(&Self) + Send + 'static) {
        in_a_namespace(move || {
            test(&self);
        });
    }

    /// Mounts a tmpfs: on a disk each new file takes a millisecond.
    fn mount_memory(&self, name: &str) {
        let (point, options) = (self.path(name), Some(c"mode=0700"));
        mount("none", &point, "tmpfs", MountFlags::empty(), options).unwrap();
    }

    fn write(&self, name: &str, mode: u32) {
        let path = self.path("volume").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
        set_mode(&path, mode);
    }

    fn root(&self) -> OwnedFd {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::open(self.path("volume"), flags, Mode::empty()).unwrap()
    }

    fn apply(&self) -> Result<(), MountError> {
        apply(&self.root(), GROUP, false)
    }

    /// Group and mode.
    fn look(&self, name: &str) -> (u32, u32) {
        let status = fs::symlink_metadata(self.path("volume").join(name)).unwrap();
        (status.gid(), status.mode() & 0o7777)
    }

    /// Time of the last change of each entry.
    fn changes(&self) -> Vec<(PathBuf, i64, i64)> {
        let mut found = Vec::new();
        let mut waiting = vec![self.path("volume")];
        while let Some(path) = waiting.pop() {
            let status = fs::symlink_metadata(&path).unwrap();
            if status.is_dir() {
                waiting.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
            found.push((path, status.ctime(), status.ctime_nsec()));
        }
        found
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_group_is_a_number_and_nothing_else() {
    assert_eq!(group_number("0"), Ok(0));
    assert_eq!(group_number("4294967294"), Ok(4_294_967_294));
    // The last value means "unchanged" to chown.
    for group in [
        "",
        "root",
        "-1",
        "1,uid=0",
        "4294967295",
        "4294967296",
        " 1",
    ] {
        assert!(
            matches!(group_number(group), Err(MountError::Invalid { .. })),
            "{group:?}"
        );
    }
}

#[test]
fn privileged_every_entry_gets_the_group_and_what_it_may_do() {
    let tree = Tree::new();
    tree.write("file", 0o600);
    tree.write("a/b/script", 0o755);
    tree.write("a/setuid", 0o4711);
    set_mode(&tree.path("volume/a"), 0o700);
    let fifo = tree.path("volume/fifo");
    rustix::fs::mknodat(CWD, fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let device = rustix::fs::makedev(1, 3);
    let null = tree.path("volume/null");
    rustix::fs::mknodat(CWD, null, FileType::CharacterDevice, Mode::RUSR, device).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(tree.path("volume/socket")).unwrap();
    set_mode(&tree.path("volume/socket"), 0o700);
    tree.apply().unwrap();
    for (name, mode) in [
        (".", 0o2775),
        ("file", 0o660),
        ("a", 0o2770),
        ("a/b", 0o2775),
        ("a/b/script", 0o775),
        ("a/setuid", 0o4771),
        ("fifo", 0o660),
        ("null", 0o660),
        ("socket", 0o760),
    ] {
        assert_eq!(tree.look(name), (GROUP, mode), "{name}");
    }
}

#[test]
fn privileged_a_second_call_and_a_read_only_one_change_nothing() {
    let tree = Tree::new();
    tree.write("a/file", 0o600);
    symlink("nowhere", tree.path("volume/link")).unwrap();
    let before = tree.changes();
    apply(&tree.root(), GROUP, true).unwrap();
    assert_eq!(tree.changes(), before);
    tree.apply().unwrap();
    let after = tree.changes();
    assert_ne!(after, before);
    tree.apply().unwrap();
    assert_eq!(tree.changes(), after);
}

#[test]
fn privileged_only_a_root_with_another_group_is_walked() {
    let tree = Tree::new();
    tree.apply().unwrap();
    tree.write("late", 0o600);
    let before = tree.changes();
    tree.apply().unwrap();
    assert_eq!(tree.changes(), before);
    apply(&tree.root(), GROUP + 1, false).unwrap();
    assert_eq!(tree.look("late"), (GROUP + 1, 0o660));
}

#[test]
fn privileged_a_link_gets_the_group_itself_and_is_not_followed() {
    let tree = Tree::new();
    fs::create_dir(tree.path("outside")).unwrap();
    fs::write(tree.path("outside/file"), "x").unwrap();
    for (name, target) in [
        ("etc", PathBuf::from("/etc")),
        ("passwd", "/etc/passwd".into()),
        ("outside", "../outside".into()),
        ("up", "..".into()),
        ("file", tree.path("outside/file")),
    ] {
        symlink(target, tree.path("volume").join(name)).unwrap();
    }
    let status = |path: &Path| {
        let status = fs::metadata(path).unwrap();
        (
            status.gid(),
            status.mode(),
            status.ctime(),
            status.ctime_nsec(),
        )
    };
    let kept = [
        "/etc".into(),
        "/etc/passwd".into(),
        tree.path(""),
        tree.path("outside"),
        tree.path("outside/file"),
    ];
    let before = kept.clone().map(|path| status(&path));
    tree.apply().unwrap();
    assert_eq!(kept.map(|path| status(&path)), before);
    for name in ["etc", "passwd", "outside", "up", "file"] {
        assert_eq!(tree.look(name), (GROUP, 0o777), "{name}");
    }
}

#[test]
fn privileged_a_planted_mount_is_not_entered() {
    let tree = Tree::new();
    tree.write("a/mount/hidden", 0o600);
    tree.write("b", 0o600);
    tree.isolated(|tree| {
        tree.mount_memory("volume/a/mount");
        tree.write("a/mount/other", 0o600);
        tree.apply().unwrap();
        assert_eq!(tree.look("a/mount"), (0, 0o700));
        assert_eq!(tree.look("a/mount/other"), (0, 0o600));
        assert_eq!(tree.look("b"), (GROUP, 0o660));
        assert_eq!(tree.look("."), (GROUP, 0o2775));
    });
}

#[test]
fn privileged_ten_thousand_entries_are_walked() {
    Tree::new().isolated(|tree| {
        tree.mount_memory("volume");
        for directory in 0..100 {
            let path = tree.path(&format!("volume/{directory}"));
            fs::create_dir(&path).unwrap();
            for file in 0..99 {
                fs::write(path.join(file.to_string()), "").unwrap();
            }
        }
        tree.apply().unwrap();
        for directory in 0..100 {
            assert_eq!(tree.look(&directory.to_string()), (GROUP, 0o2775));
            for file in 0..99 {
                assert_eq!(tree.look(&format!("{directory}/{file}")), (GROUP, 0o664));
            }
        }
    });
}

#[test]
fn privileged_an_interrupted_walk_is_repeated() {
    let tree = Tree::new();
    for number in 0..50 {
        tree.write(&format!("{number}/file"), 0o600);
    }
    let stubborn = fs::File::open(tree.path("volume/25/file")).unwrap();
    ioctl_setflags(&stubborn, IFlags::IMMUTABLE).unwrap();
    let error = tree.apply().unwrap_err();
    ioctl_setflags(&stubborn, IFlags::empty()).unwrap();
    assert!(
        error
            .to_string()
            .contains("change of group on directory `./25` of the volume"),
        "{error}"
    );
    assert_eq!(tree.look("."), (0, 0o755));
    tree.apply().unwrap();
    for number in 0..50 {
        assert_eq!(tree.look(&format!("{number}/file")), (GROUP, 0o660));
    }
    assert_eq!(tree.look("."), (GROUP, 0o2775));
}

#[test]
fn privileged_a_tree_deeper_than_a_path_is_rejected() {
    Tree::new().isolated(|tree| {
        tree.mount_memory("volume");
        let deepen = |count: usize| {
            let mut at = open_confined(tree.root(), ".", OFlags::RDONLY).unwrap();
            for _ in 0..count {
                let _ = rustix::fs::mkdirat(&at, "d", Mode::RWXU);
                at = open_confined(&at, "d", OFlags::RDONLY).unwrap();
            }
            at
        };
        let deep = deepen(2000);
        tree.apply().unwrap();
        assert_eq!(rustix::fs::fstat(deep).unwrap().st_gid, GROUP);
        deepen(2100);
        let error = apply(&tree.root(), GROUP + 1, false).unwrap_err();
        assert!(matches!(error, MountError::Unusable { .. }), "{error}");
        assert_eq!(tree.look("."), (GROUP, 0o2770));
    });
}

#[test]
fn privileged_entries_that_come_and_go_meanwhile_are_no_error() {
    let tree = Tree::new();
    for number in 0..200 {
        tree.write(&format!("{number}/file"), 0o600);
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let churn = || {
            while !is_over.load(Ordering::Relaxed) {
                for number in 0..200 {
                    let path = tree.path(&format!("volume/{number}"));
                    fs::remove_dir_all(&path).unwrap();
                    // A link replaces a directory that the walk has already listed.
                    symlink("/etc", &path).unwrap();
                    fs::remove_file(&path).unwrap();
                    fs::create_dir(&path).unwrap();
                    fs::write(path.join("file"), "").unwrap();
                }
            }
        };
        scope.spawn(churn);
        let results: Vec<_> = (0..20)
            .map(|turn| apply(&tree.root(), GROUP + turn, false))
            .collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(results.into_iter().find(Result::is_err), None);
    });
    assert_eq!(fs::metadata("/etc").unwrap().gid(), 0);
}
