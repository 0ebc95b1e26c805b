//! Volumes of files: the test setup, and the layout, group and limits. Swaps and hostile pods have their own files.

mod pods;
mod swaps;

use super::*;
use crate::kernel::knows_noswap;
use crate::namespace::in_a_namespace;
use crate::plan::files::check;
use rustix::fs::{Mode, OFlags, StatVfsMountFlags, statvfs};
use rustix::mount::{MoveMountFlags, move_mount};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use wasmount_core::plan::PlanFile;

const WRITABLE: MountFlags = MountFlags {
    set: MountAttrFlags::empty(),
    clear: MountAttrFlags::empty(),
};

/// A mounted volume of files, in a mount namespace that ends with the test.
struct Volume {
    path: PathBuf,
    /// A file outside of the volume that must not change.
    outside: PathBuf,
    root: OwnedFd,
}

fn privileged(
    files: CheckedFiles,
    flags: MountFlags,
    group: Option<u32>,
    test: impl FnOnce(&Volume) + Send + 'static,
) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    in_a_namespace(move || {
        let (path, outside) = (path.join("volume"), path.join("outside"));
        fs::create_dir(&path).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("a"), "outside").unwrap();
        let mount = prepare(&files, flags, group).unwrap();
        let empty = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&mount, c"", rustix::fs::CWD, &path, empty).unwrap();
        let root = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        test(&Volume {
            path,
            outside,
            root: root.unwrap(),
        });
    });
}

fn files(contents: &[(&str, &[u8])]) -> CheckedFiles {
    let file = |(path, content): &(&str, &[u8])| PlanFile {
        path: (*path).to_owned(),
        mode: 0o400,
        content: content.to_vec(),
    };
    check(&contents.iter().map(file).collect::<Vec<_>>(), Vec::new()).unwrap()
}

fn old() -> CheckedFiles {
    files(&[
        ("a", b"old a"),
        ("gone", b"old gone"),
        ("d/e/f", b"old f"),
        ("d/g", b"old g"),
    ])
}

fn new() -> CheckedFiles {
    files(&[("a", b"new a"), ("come", b"new come"), ("d/e/f", b"new f")])
}

impl Volume {
    fn replace(&self, files: &CheckedFiles) {
        replace(&self.root, files, None).unwrap();
    }

    /// What a reader finds below a directory, following links.
    fn content(&self, name: &str) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![self.path.join(name)];
        let top = waiting[0].clone();
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                let shown = path
                    .strip_prefix(&top)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                if shown.starts_with("..") {
                    continue;
                }
                if path.is_dir() {
                    waiting.push(path);
                } else {
                    found.insert(shown, fs::read_to_string(&path).unwrap());
                }
            }
        }
        found
    }

    /// All names at the top, including the reserved ones.
    fn names(&self) -> Vec<String> {
        let names = top_entries(&self.root).unwrap().into_iter();
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn generations(&self) -> usize {
        let names = self.names();
        names.iter().filter(|name| name.starts_with("..")).count() - 1
    }

    fn assert_shows(&self, files: &CheckedFiles) {
        assert_eq!(self.content("..data"), texts(files));
        assert_eq!(self.content("."), texts(files));
    }
}

fn texts(files: &CheckedFiles) -> BTreeMap<String, String> {
    let text = |file: &crate::plan::files::CheckedFile| {
        let (parent, name) = file.place();
        let path = Path::new(parent).join(name).to_str().unwrap().to_owned();
        (path, String::from_utf8(file.content.to_vec()).unwrap())
    };
    files.files.iter().map(text).collect()
}

#[test]
fn privileged_files_lie_as_kubelet_lays_out_a_secret() {
    privileged(old(), WRITABLE, None, |volume| {
        volume.assert_shows(&old());
        let link = |name: &str| fs::read_link(volume.path.join(name)).unwrap();
        assert_eq!(link("a"), Path::new("..data/a"));
        assert_eq!(link("d"), Path::new("..data/d"));
        let generation = link("..data");
        let mut names = ["..data", generation.to_str().unwrap(), "a", "d", "gone"];
        names.sort_unstable();
        assert_eq!(volume.names(), names);
        let status = |name: &str| fs::metadata(volume.path.join(name)).unwrap();
        for (name, mode) in [
            (".", 0o755),
            ("..data", 0o755),
            ("d/e", 0o755),
            ("a", 0o400),
            ("d/e/f", 0o400),
        ] {
            let found = status(name);
            assert_eq!(
                (found.mode() & 0o7777, found.uid(), found.gid()),
                (mode, 0, 0),
                "{name}"
            );
        }
        let restricted =
            StatVfsMountFlags::NOSUID | StatVfsMountFlags::NODEV | StatVfsMountFlags::NOEXEC;
        assert!(statvfs(&volume.path).unwrap().f_flag.contains(restricted));
    });
}

#[test]
fn privileged_files_are_kept_out_of_swap_space() {
    privileged(old(), WRITABLE, None, |volume| {
        let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let point = volume.path.to_str().unwrap();
        let line = table.lines().find(|line| line.contains(point)).unwrap();
        assert_eq!(line.contains("noswap"), knows_noswap(), "{line}");
    });
}

#[test]
fn privileged_files_are_readable_by_the_requested_group() {
    privileged(old(), WRITABLE, Some(2000), |volume| {
        let check_group = |group: u32| {
            for (name, mode) in [
                (".", 0o2755),
                ("..data", 0o2755),
                ("d/e", 0o2755),
                ("a", 0o440),
                ("d/e/f", 0o440),
            ] {
                let found = fs::metadata(volume.path.join(name)).unwrap();
                assert_eq!(
                    (found.mode() & 0o7777, found.uid(), found.gid()),
                    (mode, 0, group),
                    "{name}"
                );
            }
        };
        check_group(2000);
        replace(&volume.root, &old(), Some(3000)).unwrap();
        check_group(3000);
    });
}

#[test]
fn privileged_files_grow_from_a_kibibyte_to_all_that_may_be() {
    privileged(files(&[("a", &[b'x'; 1024])]), WRITABLE, None, |volume| {
        let all = vec![b'y'; CONTENT_BYTES];
        for content in [&all[..], &all[1..], &all[..]] {
            volume.replace(&files(&[("a", content)]));
            assert_eq!(fs::read(volume.path.join("a")).unwrap(), content);
        }
    });
}

#[test]
fn privileged_the_maximum_of_files_can_be_replaced() {
    privileged(files(&[]), WRITABLE, None, |volume| {
        for letter in ["a", "b", "c"] {
            // Links so long that the kernel stores each in its own page, and a partly filled page in each file.
            let paths: Vec<_> = (0..ENTRIES).map(|i| format!("{letter}{i:0>254}")).collect();
            let content = vec![b'x'; CONTENT_BYTES / ENTRIES];
            let contents: Vec<_> = paths
                .iter()
                .map(|path| (path.as_str(), &content[..]))
                .collect();
            volume.replace(&files(&contents));
            assert_eq!(volume.content(".").len(), ENTRIES);
            assert!(
                paths
                    .iter()
                    .all(|path| fs::read(volume.path.join(path)).unwrap() == content)
            );
        }
    });
}
