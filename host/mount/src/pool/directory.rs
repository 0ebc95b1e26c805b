//! Trees: created, renamed, given permissions. All calls use the descriptor of the parent and one name at a time. What a creation and permissions
//! change is on stable storage after [`sync`].
//!
//! `promise` limits the size of a tree, `trash` removes it.

use crate::confine::{DIRECTORY, open_confined};
use crate::pool::handle::{Pool, rename_no_replace};
use crate::pool::place::Place;
use crate::pool::users;
use rustix::fs::{FileType, Gid, Mode, Statx, Uid};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use wasmount_core::mounter::MountError;

/// Mode of a new tree, the same as that of `mkdir`. The backend changes it with `set-permissions`.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);
/// The bits with which everyone can open a directory.
const FOR_EVERYONE: u32 = 0o005;
/// All bits that permissions may have, including setgid and the sticky bit.
const MODE_BITS: u32 = 0o7777;
/// Unit of `stx_blocks`, in bytes, whatever the block size of the file system is (statx(2)).
const BLOCK_BYTES: u64 = 512;

/// The file type in the result of `statx`.
pub(super) fn file_type(status: &Statx) -> FileType {
    FileType::from_raw_mode(status.stx_mode.into())
}

/// The bytes that a file takes on the disk.
pub(super) fn allocated_bytes(status: &Statx) -> u64 {
    status.stx_blocks.saturating_mul(BLOCK_BYTES)
}

/// Opens a tree for reading and syncing.
pub(super) fn open(pool: &Pool, place: &Place) -> Result<OwnedFd, MountError> {
    open_confined(&pool.root, place.path.as_str(), DIRECTORY)
        .map_err(|errno| place.failed("open", errno))
}

/// Creates an empty tree. If it exists, it is a success. Durable after [`sync`].
pub(super) fn create(pool: &Pool, place: &Place) -> Result<(), MountError> {
    let parent = pool.parent(place)?;
    match rustix::fs::mkdirat(&parent, place.path.name(), DIRECTORY_MODE) {
        Ok(()) => {
            // The umask of the process reduces the mode of mkdir.
            let tree = open(pool, place)?;
            rustix::fs::fchmod(&tree, DIRECTORY_MODE)
                .map_err(|errno| place.failed("set the mode", errno))
        }
        Err(Errno::EXIST) => match pool.status(&parent, place)? {
            Some(status) if file_type(&status) == FileType::Directory => Ok(()),
            Some(_) => Err(place.otherwise_there("it is not a directory")),
            None => Err(place.failed("make", Errno::AGAIN)),
        },
        Err(errno) => Err(place.failed("make", errno)),
    }
}

/// Returns when the changes at these places are on stable storage. A place that is gone has none.
pub(super) fn sync(pool: &Pool, places: &[Place]) -> Result<(), MountError> {
    let mut parents = BTreeMap::new();
    for place in places {
        let Some(parent) = pool.parent_if_there(place)? else {
            continue;
        };
        match open_confined(&parent, place.path.name(), DIRECTORY) {
            Ok(tree) => rustix::fs::fsync(&tree).map_err(|errno| place.failed("sync", errno))?,
            // What this host may not open was synced when its permissions were set.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
            Err(errno) => return Err(place.failed("open", errno)),
        }
        parents.insert(place.path.parent(), (parent, place));
    }
    for (parent, place) in parents.values() {
        pool.sync_parent(parent, place)?;
    }
    Ok(())
}

/// Renames a tree or image within the pool, unless a volume uses it. If the source is missing and the target exists, an earlier call did it.
pub(super) fn rename(pool: &Pool, source: &Place, target: &Place) -> Result<(), MountError> {
    let _leaving = pool.copies.leave(source)?;
    if target.path.is_in(source.path.as_str()) {
        return Err(target.invalid("it is the source of the rename, or lies in it"));
    }
    let to = pool.parent(target)?;
    let from = pool.parent_if_there(source)?;
    users::refuse_used(pool, source)?;
    let renamed = match &from {
        Some(from) => rename_no_replace(from, source.path.name(), &to, target.path.name()),
        None => Err(Errno::NOENT),
    };
    match renamed {
        Ok(()) => {}
        Err(Errno::NOENT) if pool.status(&to, target)?.is_some() => {}
        Err(Errno::EXIST) => return Err(target.otherwise_there("a rename replaces nothing")),
        Err(Errno::XDEV) => {
            return Err(MountError::unsupported(
                format!("a rename from {source} to {target}"),
                "it would lead into another quota or onto another mount",
            ));
        }
        Err(errno) => return Err(source.failed("rename", errno)),
    }
    if let Err(error) = pool
        .ledger
        .moved(source.path.as_str(), target.path.as_str())
    {
        // An image that is not found counts as empty: the pool reports less available space, and nothing is lost.
        tracing::warn!(%error, "a pool's ledger does not know of a rename");
    }
    // The target is synced first: after a power cut in between, two names are better than none.
    pool.sync_parent(&to, target)?;
    match from {
        Some(from) => pool.sync_parent(&from, source),
        None => Ok(()),
    }
}

/// Sets mode and owner of the top directory of a tree. Durable after [`sync`], or at once if this host, which may lack CAP_DAC_OVERRIDE, could not
/// open the tree again.
pub(super) fn set_permissions(
    pool: &Pool,
    place: &Place,
    mode: u32,
    uid: Option<u32>,
    gid: Option<u32>,
) -> Result<(), MountError> {
    if mode & !MODE_BITS != 0 {
        return Err(place.too_much("its mode has bits beyond 7777"));
    }
    // The kernel interprets the highest number as "unchanged" (chown(2)).
    if [uid, gid].contains(&Some(u32::MAX)) {
        return Err(place.too_much("its owner or group is 4294967295"));
    }
    let tree = open(pool, place)?;
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    // The order matters: a change of the owner clears the set-user and set-group bits.
    takes_changes(&tree)
        .and_then(|()| rustix::fs::fchown(&tree, uid, gid))
        .and_then(|()| rustix::fs::fchmod(&tree, Mode::from_raw_mode(mode)))
        .and_then(|()| match mode & FOR_EVERYONE {
            FOR_EVERYONE => Ok(()),
            _ => rustix::fs::fsync(&tree),
        })
        .map_err(|errno| place.failed("set the permissions", errno))
}

/// Sets the attributes that a directory has. That is a transaction, which fails once an error has stopped all writes. Before Linux 6.15 an ext4 then
/// still accepts a mode in memory, and its `fsync` succeeds. Other file systems may know no attributes.
pub(super) fn takes_changes(tree: &OwnedFd) -> Result<(), Errno> {
    let set = rustix::fs::ioctl_getflags(tree)
        .and_then(|attributes| rustix::fs::ioctl_setflags(tree, attributes));
    match set {
        Err(errno @ (Errno::ROFS | Errno::IO)) => Err(errno),
        _ => Ok(()),
    }
}
