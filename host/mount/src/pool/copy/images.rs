//! Copies images: one, or several as of the same moment.
//!
//! For images that cannot be frozen (raw block volumes, mounts of other programs), the change time is read before the first copy and after the last.
//! A single image does not need that: sharing its blocks is atomic.

use super::unchanged::{FILE_WAITS, Unchanged};
use super::{CopyError, Job, data, failed, found, remember};
use crate::freeze::Image;
use crate::pool::copies::Pair;
use crate::pool::handle::{Pool, fresh_name};
use crate::pool::image::{self, Unfinished};
use crate::pool::ledger::Inode;
use crate::pool::{group_move, promise};
use rustix::fs::{FileType, OFlags};
use std::os::fd::{AsFd, OwnedFd};
use wasmount_core::mounter::MountError;

/// How often several images are copied until nothing is written between the first and the last. Blocks are shared in milliseconds: an image that is
/// written during each attempt is written all the time.
const ATTEMPTS: usize = 5;

/// One image of a copy that is being made.
struct Member<'p> {
    pair: &'p Pair,
    from: OwnedFd,
    source: Inode,
    to: Unfinished<'p>,
    /// Size of the source when it was opened.
    bytes: u64,
}

/// Copies images, all or none, as of one moment.
pub(super) fn copy(job: &Job, pairs: &[Pair]) -> Result<(), MountError> {
    let pool = &*job.pool;
    let members = pairs.iter().map(|pair| Member::begin(pool, pair));
    let members: Vec<_> = members.collect::<Result<_, _>>()?;
    for member in &members {
        member.prepare(pool)?;
    }
    match members.as_slice() {
        [] => Ok(()),
        [member] => {
            let shares = copy_one(job, member).map_err(|error| member.failed(error))?;
            member.complete(shares, None)?;
            pool.finish(&member.to.name, &member.pair.target)
        }
        members => {
            share_group(job, members)?;
            let moment = fresh_name();
            for member in members {
                member.complete(true, Some(&moment))?;
            }
            let moves: Vec<_> = members.iter().map(|it| &it.to).collect();
            group_move::all_or_none(pool, &moves)
        }
    }
}

/// Whether all targets are copies of their sources, as of one moment; if so, they are made durable. If only some are, or if they are of several
/// moments, it is an error.
pub(super) fn are_done(pool: &Pool, pairs: &[Pair]) -> Result<bool, MountError> {
    let moment = |pair| {
        let found = found(pool, pair, FileType::RegularFile)?;
        Ok(found.map(|record| record.moment))
    };
    let moments: Vec<_> = pairs
        .iter()
        .map(moment)
        .collect::<Result<_, MountError>>()?;
    match moments.as_slice() {
        [] | [Some(_)] => Ok(true),
        moments if moments.iter().all(Option::is_none) => Ok(false),
        [first @ Some(Some(_)), others @ ..] if others.iter().all(|it| it == first) => Ok(true),
        moments => {
            let there = pairs.iter().zip(moments);
            let there = there.filter(|(_, moment)| moment.is_some());
            let targets: Vec<_> = there.map(|(pair, _)| pair.target.to_string()).collect();
            Err(MountError::already_exists(
                targets.join(", "),
                "they are copies of different moments, or other members of their group are gone; remove them, and copy the group again",
            ))
        }
    }
}

/// Copies one image. Returns whether it shares blocks with its source.
fn copy_one(job: &Job, member: &Member<'_>) -> Result<bool, CopyError> {
    let shared = member.try_sharing().and_then(|()| {
        let _frozen = job.freezer.freeze(&[member.image()]);
        member.share()
    });
    match shared {
        Err(CopyError::CannotShare) if job.full_copies => member.copy_in_full().map(|()| false),
        shared => shared.map(|()| true),
    }
}

/// Shares the blocks of all sources with their copies, as of one moment.
fn share_group(job: &Job, members: &[Member<'_>]) -> Result<(), MountError> {
    for member in members {
        let tried = member.try_sharing();
        tried.map_err(|error| member.failed(error))?;
    }
    let images: Vec<_> = members.iter().map(Member::image).collect();
    let mut attempts = 1;
    loop {
        let frozen = job.freezer.freeze(&images);
        let shared = share_once(members);
        drop(frozen);
        match shared {
            Ok(()) => return Ok(()),
            Err((_, CopyError::Written)) if attempts < ATTEMPTS => attempts += 1,
            Err((member, CopyError::Written)) => return Err(member.failed_group()),
            Err((member, error)) => return Err(member.failed(error)),
        }
    }
}

/// One attempt; an error contains the member that failed.
fn share_once<'m, 'p>(members: &'m [Member<'p>]) -> Result<(), (&'m Member<'p>, CopyError)> {
    let mut waits = FILE_WAITS;
    let mut sources = Vec::with_capacity(members.len());
    for member in members {
        let source = Unchanged::begin(member.from.as_fd(), &mut waits);
        sources.push(source.map_err(|error| (member, error))?);
    }
    for member in members {
        member.share().map_err(|error| (member, error))?;
    }
    for (member, source) in members.iter().zip(sources) {
        source.check().map_err(|error| (member, error))?;
    }
    Ok(())
}

impl<'p> Member<'p> {
    fn begin(pool: &'p Pool, pair: &'p Pair) -> Result<Self, MountError> {
        let Pair { source, target } = pair;
        let from = image::open(pool, source, OFlags::RDONLY)?;
        let (inode, status) = Inode::of_fd(&from).map_err(|errno| source.failed("stat", errno))?;
        Ok(Self {
            pair,
            from,
            source: inode,
            to: Unfinished::new(pool, target)?,
            bytes: status.stx_size,
        })
    }

    fn image(&self) -> Image<'_> {
        Image {
            name: self.pair.source.path.name(),
            file: &self.from,
        }
    }

    fn prepare(&self, pool: &Pool) -> Result<(), MountError> {
        let target = &self.pair.target;
        self.to.holder.promise_image(self.bytes)?;
        promise::inherit(target, &pool.parent(target)?, &self.to.file)
    }

    /// Tests whether blocks can be shared, before any writer is blocked.
    fn try_sharing(&self) -> Result<(), CopyError> {
        data::share(self.to.file.as_fd(), self.to.file.as_fd())
    }

    /// Also called for a further attempt: an earlier one may have left a longer file.
    fn share(&self) -> Result<(), CopyError> {
        rustix::fs::ftruncate(&self.to.file, 0).map_err(CopyError::Write)?;
        data::share(self.from.as_fd(), self.to.file.as_fd())
    }

    fn copy_in_full(&self) -> Result<(), CopyError> {
        let (from, to) = (self.from.as_fd(), self.to.file.as_fd());
        let mut waits = FILE_WAITS;
        let source = Unchanged::begin(from, &mut waits)?;
        data::full(from, to, self.bytes, || source.check())
    }

    /// Completes a copy: its promise and origin are recorded, and it is on stable storage except for its name.
    fn complete(&self, shares: bool, moment: Option<&str>) -> Result<(), MountError> {
        let target = &self.pair.target;
        let (_, made) =
            Inode::of_fd(&self.to.file).map_err(|errno| target.failed("stat", errno))?;
        let holder = self.to.holder;
        if made.stx_size != self.bytes {
            // The source was expanded just before its blocks were shared.
            holder.promise_image(made.stx_size)?;
        }
        remember(holder, self.pair, self.source, |record| {
            record.shares_blocks = shares;
            record.moment = moment.map(str::to_owned);
        })?;
        rustix::fs::fsync(&self.to.file).map_err(|errno| target.failed("sync", errno))
    }

    fn failed(&self, error: CopyError) -> MountError {
        failed(self.pair, error)
    }

    /// The error that a program which could not be frozen writes to an image.
    fn failed_group(&self) -> MountError {
        self.pair.source.in_use(
            "it is written to all the time, so that copies of the group would be of several moments: by a raw block volume, or by a file system that is mounted where this host does not see it; stop the writer, or unpublish the volume, and try again",
        )
    }
}
