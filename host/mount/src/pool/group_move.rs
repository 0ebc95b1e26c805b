//! Moves several finished copies to their places, all or none. The intent is written before the first move. Until the intent is removed, the moves
//! are undone by this call or by the next start; no caller was informed of them yet.
//!
//! This module knows neither what is moved nor where it was made.

use crate::confine::{PoolPath, open_confined};
use crate::failure::kernel;
use crate::pool::handle::{DIRECTORY, Pool, errno_of, fresh_name, names};
use crate::pool::ledger::Inode;
use crate::pool::place::Place;
use crate::pool::trash;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, RwLockReadGuard};
use wasmount_core::mounter::MountError;

/// Only the host reads it.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// One of the moves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move<'a> {
    /// Name in the directory of unfinished copies.
    pub(super) name: &'a str,
    pub(super) inode: Inode,
    pub(super) place: &'a Place,
}

/// The recorded intent of one move.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meant {
    /// The target path.
    path: String,
    inode: Inode,
}

/// Moves all to their places, if the places are free. Everything, including the ledger, is durable on return.
pub(super) fn all_or_none(pool: &Pool, moves: &[Move<'_>]) -> Result<(), MountError> {
    let Some(Move { place: first, .. }) = moves.first() else {
        return Ok(());
    };
    pool.sync_ledger(first)?;
    let _moving = pool.moving.write().unwrap_or_else(PoisonError::into_inner);
    let meant: Vec<_> = moves
        .iter()
        .map(|it| Meant {
            path: it.place.path.as_str().to_owned(),
            inode: it.inode,
        })
        .collect();
    let intent = fresh_name();
    let failed = |errno| first.failed("move a group", errno);
    let moved = write(pool, &intent, &meant)
        .map_err(failed)
        .and_then(|()| put(pool, moves));
    let (moved, is_half_moved) = match moved {
        // From here on the moves are final.
        Ok(()) => {
            let forgotten = forget(pool, &intent).map_err(failed);
            let is_in_doubt = forgotten.is_err();
            (forgotten, is_in_doubt)
        }
        Err(error) => {
            let taken_back = take_back(pool, &intent, &meant);
            (Err(error), taken_back.is_err())
        }
    };
    if is_half_moved {
        pool.is_half_moved.store(true, Ordering::Release);
        tracing::error!(
            "a pool may hold part of a group of copies; it is rolled back before the pool is used again"
        );
    }
    moved
}

/// Undoes partial moves of a killed host or a failed call. Must be called before the pool is used.
pub(super) fn settle(pool: &Pool) -> Result<(), MountError> {
    if !pool.is_half_moved.load(Ordering::Acquire) {
        return Ok(());
    }
    let _moving = pool.moving.write().unwrap_or_else(PoisonError::into_inner);
    let settled = names(&pool.groups).and_then(|left| {
        left.iter().try_for_each(|name| {
            let name = name.as_c_str();
            take_back(pool, name, &read(pool, name)?)
        })
    });
    settled.map_err(|errno| kernel("take back half of a group of copies", "a pool", errno))?;
    pool.is_half_moved.store(false, Ordering::Release);
    Ok(())
}

/// While this is held, no group is moved or undone. Otherwise a reader of the pool could report a group that is undone later, or half of a group.
pub(super) fn hold(pool: &Pool) -> Result<RwLockReadGuard<'_, ()>, MountError> {
    loop {
        settle(pool)?;
        let held = pool.moving.read().unwrap_or_else(PoisonError::into_inner);
        if !pool.is_half_moved.load(Ordering::Acquire) {
            return Ok(held);
        }
    }
}

fn put(pool: &Pool, moves: &[Move<'_>]) -> Result<(), MountError> {
    let mut parents = BTreeMap::new();
    for Move { name, place, .. } in moves {
        let parent = pool.move_to(name, place)?;
        parents.insert(place.path.parent(), (parent, place));
    }
    let mut parents = parents.values();
    parents.try_for_each(|(parent, place)| pool.sync_parent(parent, place))
}

/// Removes the moved targets, if they are what the intent recorded, so that nothing remains of the group.
fn take_back(pool: &Pool, intent: impl Arg, meant: &[Meant]) -> Result<(), Errno> {
    let mut taken = Vec::new();
    for Meant { path, inode } in meant {
        let Ok(path) = PoolPath::parse(path) else {
            continue;
        };
        let parent = match open_confined(&pool.root, path.parent(), DIRECTORY) {
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            parent => parent?,
        };
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        match rustix::fs::statx(&parent, path.name(), flags, Inode::FIELDS) {
            Ok(status) if Inode::of(&status) == *inode => {
                taken.push(trash::discard(pool, parent.as_fd(), path.name())?);
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    forget(pool, intent)?;
    for name in taken {
        // It is not visible any more. What cannot be deleted now is deleted later.
        if let Err(errno) = trash::delete(pool, name) {
            tracing::warn!(%errno, "a copy that was taken back could not be deleted yet");
        }
    }
    Ok(())
}

/// Writes the intent. Durable on return.
fn write(pool: &Pool, name: &str, meant: &[Meant]) -> Result<(), Errno> {
    let text = serde_json::to_vec(meant).map_err(|_| Errno::INVAL)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&pool.groups, name, flags, FILE_MODE)?;
    let mut file = File::from(file);
    let written = file.write_all(&text).and_then(|()| file.sync_all());
    written.map_err(errno_of)?;
    sync(pool)
}

/// An incomplete intent was never acted on.
fn read(pool: &Pool, name: impl Arg + Copy) -> Result<Vec<Meant>, Errno> {
    let file = open_confined(&pool.groups, name, OFlags::RDONLY)?;
    let mut text = Vec::new();
    File::from(file).read_to_end(&mut text).map_err(errno_of)?;
    Ok(serde_json::from_slice(&text).unwrap_or_default())
}

/// Makes durable that no existing group will be undone. Must be called before a caller is informed of a group that was found.
pub(super) fn sync(pool: &Pool) -> Result<(), Errno> {
    rustix::fs::fsync(&pool.groups)
}

fn forget(pool: &Pool, name: impl Arg) -> Result<(), Errno> {
    match rustix::fs::unlinkat(&pool.groups, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => sync(pool),
        Err(errno) => Err(errno),
    }
}
