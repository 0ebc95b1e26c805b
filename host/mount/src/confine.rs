//! Paths in a pool: turns a plugin's strings into descriptors that never lead out of the pool through a symbolic link or another mount.
//!
//! No other code opens a path of a pool. Parsing is pure. A component is a byte string in which only `/` and NUL are special: a backslash or a
//! character that looks like a dot is an ordinary character.

use crate::failure::{io, kernel};
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags, ResolveFlags, fstat};
use rustix::io::Errno;
use rustix::path::Arg;
use std::ffi::{CStr, CString};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use wasmount_core::mounter::MountError;

/// Longest path in a pool, in bytes: `PATH_MAX` without its NUL.
const PATH_BYTES: usize = 4095;
/// Longest part of a path, in bytes: `NAME_MAX`.
const PART_BYTES: usize = 255;
/// How often `openat2` is repeated after the kernel failed because of a concurrent rename (openat2(2), EAGAIN).
const OPEN_ATTEMPTS: usize = 128;
/// The host's private directory in a pool.
pub(crate) const RESERVED_NAME: &str = ".wasmount";
/// Flags to open a directory for reading and syncing.
pub(crate) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// A syntactically checked path of one or more components, relative to a pool. Nothing has been opened yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PoolPath(String);

/// Why a path is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathFault {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than 4095 bytes")]
    TooLong,
    #[error("a part of it is longer than 255 bytes")]
    PartTooLong,
    #[error("it has an empty part: it must not begin or end with `/`, nor have two in a row")]
    EmptyPart,
    #[error("it has a part `.` or `..`")]
    Dots,
    #[error("it contains a NUL byte")]
    Nul,
    #[error("`.wasmount` is the host's own folder")]
    Reserved,
}

impl PoolPath {
    /// Checks the syntax.
    pub(crate) fn parse(path: &str) -> Result<Self, PathFault> {
        check_relative(path)?;
        if path.split('/').next() == Some(RESERVED_NAME) {
            return Err(PathFault::Reserved);
        }
        Ok(Self(path.to_owned()))
    }

    /// The path as the plugin gave it.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The last component.
    pub(crate) fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// All components but the last. `.`, the pool itself, for a path of one component.
    pub(crate) fn parent(&self) -> &str {
        self.0.rsplit_once('/').map_or(".", |(parent, _)| parent)
    }

    /// Whether this is `other` or lies in it.
    pub(crate) fn is_in(&self, other: &str) -> bool {
        self.0
            .strip_prefix(other)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for PoolPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::failure::shown(&self.0))
    }
}

/// Whether a path of a plugin is relative and stays below its directory.
pub(crate) fn check_relative(path: &str) -> Result<(), PathFault> {
    if path.is_empty() {
        return Err(PathFault::Empty);
    }
    if path.len() > PATH_BYTES {
        return Err(PathFault::TooLong);
    }
    if path.contains('\0') {
        return Err(PathFault::Nul);
    }
    for part in path.split('/') {
        match part {
            "" => return Err(PathFault::EmptyPart),
            "." | ".." => return Err(PathFault::Dots),
            part if part.len() > PART_BYTES => return Err(PathFault::PartTooLong),
            _ => {}
        }
    }
    Ok(())
}

/// Opens a path below a directory: `ELOOP` at a symbolic link, `EXDEV` at another mount or if the path leaves the directory.
pub(crate) fn open_confined(
    directory: impl AsFd,
    path: impl Arg + Copy,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    open_resolved(directory, path, flags, resolve)
}

/// openat2(2), repeated while the kernel fails because of a concurrent rename.
pub(crate) fn open_resolved(
    directory: impl AsFd,
    path: impl Arg + Copy,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut attempts = 1;
    loop {
        let flags = flags | OFlags::CLOEXEC;
        match rustix::fs::openat2(&directory, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) if attempts < OPEN_ATTEMPTS => attempts += 1,
            result => return result,
        }
    }
}

/// Entries of a directory, without `.` and `..`.
pub(crate) fn entries(
    directory: impl AsFd,
) -> Result<impl Iterator<Item = Result<DirEntry, Errno>>, Errno> {
    let is_dots = |entry: &DirEntry| [c".", c".."].contains(&entry.file_name());
    let entries = Dir::read_from(directory)?;
    Ok(entries.filter(move |entry| !entry.as_ref().is_ok_and(is_dots)))
}

/// All names in a directory. They are read completely first: a directory that changes meanwhile may show an entry twice or not at all.
pub(crate) fn names(directory: impl AsFd) -> Result<Vec<CString>, Errno> {
    let name = |entry: Result<DirEntry, Errno>| Ok(entry?.file_name().to_owned());
    entries(directory)?.map(name).collect()
}

/// The content of an opened file; none: it is no regular file, or larger than `limit` bytes. `what` is for messages.
pub(crate) fn small_file(
    file: OwnedFd,
    limit: u64,
    what: impl Fn() -> String,
) -> Result<Option<Vec<u8>>, MountError> {
    let found = fstat(&file).map_err(|errno| kernel("fstat", what(), errno))?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let mut content = Vec::new();
    let read = File::from(file)
        .take(limit.saturating_add(1))
        .read_to_end(&mut content);
    read.map_err(|error| io("read", what(), &error))?;
    let is_small = u64::try_from(content.len()).is_ok_and(|bytes| bytes <= limit);
    Ok(is_small.then_some(content))
}

/// Removes a file or an empty directory. A missing entry is a success.
pub(crate) fn remove_empty(directory: impl AsFd, name: &CStr) -> Result<(), Errno> {
    let removed = match rustix::fs::unlinkat(&directory, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => rustix::fs::unlinkat(&directory, name, AtFlags::REMOVEDIR),
        removed => removed,
    };
    match removed {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;

    const READ: OFlags = OFlags::RDONLY;

    #[test]
    fn a_path_of_plain_parts_is_taken_as_it_is() {
        let long = "x".repeat(255);
        for path in [
            "a",
            "a/b/c",
            "...",
            "a/.wasmount",
            ".wasmount2",
            "a\\..\\b",
            "a\nb",
            "\u{2024}\u{2024}/\u{ff0f}",
            " ",
            long.as_str(),
        ] {
            assert_eq!(PoolPath::parse(path).unwrap().as_str(), path);
        }
    }

    #[test]
    fn a_path_that_could_lead_elsewhere_is_refused() {
        let long = "x".repeat(256);
        let very_long = "x/".repeat(2048);
        for (path, fault) in [
            ("", PathFault::Empty),
            ("/", PathFault::EmptyPart),
            ("/a", PathFault::EmptyPart),
            ("a/", PathFault::EmptyPart),
            ("a//b", PathFault::EmptyPart),
            (".", PathFault::Dots),
            ("..", PathFault::Dots),
            ("a/../b", PathFault::Dots),
            ("a/..", PathFault::Dots),
            ("a/./b", PathFault::Dots),
            ("a\0b", PathFault::Nul),
            (".wasmount", PathFault::Reserved),
            (".wasmount/trash", PathFault::Reserved),
            (long.as_str(), PathFault::PartTooLong),
            (very_long.as_str(), PathFault::TooLong),
        ] {
            assert_eq!(PoolPath::parse(path), Err(fault), "{path:?}");
        }
    }

    #[test]
    fn a_path_lies_in_itself_and_in_its_parents_only() {
        let path = PoolPath::parse("a/b").unwrap();
        assert!(path.is_in("a/b") && path.is_in("a"));
        assert!(!path.is_in("a/b/c") && !path.is_in("a/bc") && !path.is_in("b"));
        assert!(!PoolPath::parse("ab").unwrap().is_in("a"));
        assert_eq!((path.parent(), path.name()), ("a", "b"));
        let top = PoolPath::parse("a").unwrap();
        assert_eq!((top.parent(), top.name()), (".", "a"));
    }

    #[test]
    fn what_lies_below_is_opened_and_what_does_not_is_refused() {
        let pool = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        std::fs::create_dir(pool.path().join("tree")).unwrap();
        std::fs::write(pool.path().join("tree/file"), "x").unwrap();
        symlink(outside.path(), pool.path().join("link")).unwrap();
        symlink("tree", pool.path().join("inner")).unwrap();
        symlink("/proc/self/root", pool.path().join("magic")).unwrap();
        let root = std::fs::File::open(pool.path()).unwrap();
        open_confined(&root, "tree/file", READ).unwrap();
        for (path, errno) in [
            ("link", Errno::LOOP),
            ("link/secret", Errno::LOOP),
            ("inner/file", Errno::LOOP),
            ("magic/etc", Errno::LOOP),
            ("tree/none", Errno::NOENT),
            ("../x", Errno::XDEV),
            ("/etc", Errno::XDEV),
        ] {
            assert_eq!(
                open_confined(&root, path, READ).unwrap_err(),
                errno,
                "{path}"
            );
        }
    }

    #[test]
    fn another_mount_is_not_entered() {
        let root = std::fs::File::open("/").unwrap();
        let error = open_confined(&root, "proc/version", READ).unwrap_err();
        assert_eq!(error, Errno::XDEV);
    }

    proptest! {
        #[test]
        fn a_taken_path_stays_below_and_keeps_its_parts(path in "[a.\\\\/\0\\n\u{e4}]{0,12}") {
            if let Ok(taken) = PoolPath::parse(&path) {
                let mut depth = 0;
                for part in std::path::Path::new(taken.as_str()).components() {
                    prop_assert!(matches!(part, std::path::Component::Normal(_)));
                    depth += 1;
                }
                prop_assert_eq!(depth, path.split('/').count());
                prop_assert!(taken.is_in(taken.as_str()));
            }
        }
    }
}
