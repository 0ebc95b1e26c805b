//! Moves several finished copies of images to their places, all or none. The intent is written before the first move. Until the intent is removed,
//! the moves are undone by this call or by the next start; no caller was informed of them yet.

use crate::confine::{DIRECTORY, PoolPath, names, open_confined};
use crate::failure::kernel;
use crate::pool::handle::{Pool, errno_of, fresh_name, status_of};
use crate::pool::image::Unfinished;
use crate::pool::ledger::Inode;
use crate::pool::trash;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::{PoisonError, RwLockReadGuard};
use wasmount_core::mounter::MountError;

/// Only the host reads it.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The recorded intent of one move.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MoveIntent {
    /// The target path.
    path: String,
    inode: Inode,
}

/// Moves all to their places, if the places are free. Everything, including the ledger, is durable on return.
pub(super) fn all_or_none(pool: &Pool, moves: &[&Unfinished<'_>]) -> Result<(), MountError> {
    let Some(first) = moves.first().map(|image| image.holder.place) else {
        return Ok(());
    };
    pool.sync_ledger(first)?;
    let is_half_moved = pool.is_half_moved.write();
    let mut is_half_moved = is_half_moved.unwrap_or_else(PoisonError::into_inner);
    let intents = moves.iter().map(|image| MoveIntent {
        path: image.holder.place.path.as_str().to_owned(),
        inode: image.holder.inode,
    });
    let intents: Vec<_> = intents.collect();
    let name = fresh_name();
    let failed = |errno| first.failed("move a group", errno);
    let written = write(pool, &name, &intents).map_err(failed);
    let moved = written.and_then(|()| put(pool, moves));
    // After a success the moves are final when the intent is removed.
    let ended = match &moved {
        Ok(()) => remove(pool, &name),
        Err(_) => undo(pool, &name, &intents),
    };
    if ended.is_err() {
        *is_half_moved = true;
        tracing::error!(
            "a pool may hold part of a group of copies; it is rolled back before the pool is used again"
        );
    }
    moved.and_then(|()| ended.map_err(failed))
}

/// Undoes partial moves of a killed host or a failed call, which must happen before the pool is used. While the result is held, no group is moved or
/// undone. Otherwise a reader of the pool could report a group that is undone later, or half of a group.
pub(super) fn hold(pool: &Pool) -> Result<RwLockReadGuard<'_, bool>, MountError> {
    loop {
        let held = pool.is_half_moved.read();
        let held = held.unwrap_or_else(PoisonError::into_inner);
        if !*held {
            return Ok(held);
        }
        drop(held);
        settle(pool).map_err(|errno| {
            kernel(
                "roll back a group of copies that was moved in part",
                "a pool",
                errno,
            )
        })?;
    }
}

fn settle(pool: &Pool) -> Result<(), Errno> {
    let is_half_moved = pool.is_half_moved.write();
    let mut is_half_moved = is_half_moved.unwrap_or_else(PoisonError::into_inner);
    for name in names(&pool.groups)? {
        let name = name.as_c_str();
        undo(pool, name, &read(pool, name)?)?;
    }
    *is_half_moved = false;
    Ok(())
}

fn put(pool: &Pool, moves: &[&Unfinished<'_>]) -> Result<(), MountError> {
    let mut parents = BTreeMap::new();
    for image in moves {
        let place = image.holder.place;
        let parent = pool.move_to(&image.name, place)?;
        parents.insert(place.path.parent(), (parent, place));
    }
    let mut parents = parents.values();
    parents.try_for_each(|(parent, place)| pool.sync_parent(parent, place))
}

/// Removes the moved targets, if they are what the intent recorded, so that nothing remains of the group.
fn undo(pool: &Pool, name: impl Arg, intents: &[MoveIntent]) -> Result<(), Errno> {
    let mut discarded = Vec::new();
    for MoveIntent { path, inode } in intents {
        let Ok(path) = PoolPath::parse(path) else {
            continue;
        };
        let parent = match open_confined(&pool.root, path.parent(), DIRECTORY) {
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            parent => parent?,
        };
        let found = status_of(&parent, path.name())?;
        if found.is_some_and(|status| Inode::of(&status) == *inode) {
            discarded.push(trash::discard(pool, parent.as_fd(), path.name())?);
        }
    }
    remove(pool, name)?;
    for name in discarded {
        // It is not visible any more. What cannot be deleted now is deleted later.
        if let Err(errno) = trash::delete(pool, name) {
            tracing::warn!(%errno, "a copy that was rolled back could not be deleted yet");
        }
    }
    Ok(())
}

/// Writes the intent. Durable on return.
fn write(pool: &Pool, name: &str, intents: &[MoveIntent]) -> Result<(), Errno> {
    let text = serde_json::to_vec(intents).map_err(|_| Errno::INVAL)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&pool.groups, name, flags, FILE_MODE)?;
    let mut file = File::from(file);
    let written = file.write_all(&text).and_then(|()| file.sync_all());
    written.map_err(errno_of)?;
    sync(pool)
}

/// An incomplete intent was never acted on.
fn read(pool: &Pool, name: impl Arg + Copy) -> Result<Vec<MoveIntent>, Errno> {
    let file = open_confined(&pool.groups, name, OFlags::RDONLY)?;
    let mut text = Vec::new();
    File::from(file).read_to_end(&mut text).map_err(errno_of)?;
    Ok(serde_json::from_slice(&text).unwrap_or_default())
}

/// Makes durable that no existing group will be undone. Must be called before a caller is informed of a group that was found.
pub(super) fn sync(pool: &Pool) -> Result<(), Errno> {
    rustix::fs::fsync(&pool.groups)
}

/// Removes the intent. Durable on return.
fn remove(pool: &Pool, name: impl Arg) -> Result<(), Errno> {
    match rustix::fs::unlinkat(&pool.groups, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => sync(pool),
        Err(errno) => Err(errno),
    }
}
