//! How images are copied: one, or several as they are at one and the same moment.
//!
//! What cannot be frozen (raw block volumes, what others mount) is looked at before the first is copied and after the last. One image needs no look:
//! its blocks are shared at one moment by themselves. It must not know who waits.

use crate::freeze::Image;
use crate::pool::copy_data;
use crate::pool::copy_job::{Job, failed, found, remember};
use crate::pool::copying::{CopyError, Copying};
use crate::pool::handle::Pool;
use crate::pool::image;
use crate::pool::ledger::Inode;
use crate::pool::still::Still;
use crate::pool::wanted::Pair;
use crate::pool::{group_move, promise};
use rustix::fs::{FileType, OFlags};
use std::os::fd::{AsFd, OwnedFd};
use wasmount_core::mounter::MountError;

/// How often several images are copied until nobody writes between the first and the last. Blocks are shared in milliseconds: who writes in
/// each of these times writes all the time.
const ATTEMPTS: usize = 5;

/// A copy that is being made.
struct Member<'p> {
    pair: &'p Pair,
    from: OwnedFd,
    source: Inode,
    /// Among what is unfinished.
    name: String,
    to: OwnedFd,
    own: Inode,
    /// Of the source when it was opened.
    bytes: u64,
}

/// Copies images, all or none, as they are at one moment.
pub(super) fn copy(job: &Job, pairs: &[Pair]) -> Result<(), MountError> {
    let mut members = Vec::with_capacity(pairs.len());
    let copied = make(job, pairs, &mut members);
    if copied.is_err() {
        for member in &members {
            image::abandon(&job.pool, &member.name, &member.to);
        }
    }
    copied
}

/// Whether all targets are copies of their sources, of one moment; durably, if so. Some of them, or of several moments, is an error.
pub(super) fn are_done(pool: &Pool, pairs: &[Pair]) -> Result<bool, MountError> {
    let mut moments = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let found = found(pool, pair, FileType::RegularFile)?;
        moments.push(found.map(|record| record.moment));
    }
    match moments.as_slice() {
        [] | [Some(_)] => Ok(true),
        moments if moments.iter().all(Option::is_none) => Ok(false),
        [Some(Some(first)), others @ ..]
            if others
                .iter()
                .all(|it| it.as_ref().and_then(Option::as_ref) == Some(first)) =>
        {
            Ok(true)
        }
        moments => {
            let there = pairs.iter().zip(moments);
            let there = there.filter(|(_, moment)| moment.is_some());
            let targets: Vec<_> = there.map(|(pair, _)| pair.target.to_string()).collect();
            Err(MountError::AlreadyExists {
                what: targets.join(", "),
                difference: "they are copies of several moments, or the others of their group are gone; remove them, and copy the group anew".to_owned(),
            })
        }
    }
}

fn make<'p>(job: &Job, pairs: &'p [Pair], members: &mut Vec<Member<'p>>) -> Result<(), MountError> {
    let pool = &job.pool;
    for pair in pairs {
        members.push(Member::begin(pool, pair)?);
    }
    for member in members.iter() {
        member.prepare(pool)?;
    }
    let shares = share(job, members)?;
    let moment = (members.len() > 1).then(|| pool.fresh_name());
    for member in members.iter() {
        if !shares {
            member.copy_in_full(job.copying)?;
        }
        member.whole(pool, shares, moment.as_deref())?;
    }
    match members.as_slice() {
        [member] => pool.finish(&member.name, &member.pair.target),
        members => {
            let moves = members.iter().map(|member| group_move::Move {
                name: &member.name,
                inode: member.own,
                place: &member.pair.target,
            });
            group_move::all_or_none(pool, &moves.collect::<Vec<_>>())
        }
    }
}

/// Lets all copies share the blocks of their sources, as these are at one moment; false: there is only one, and it cannot.
fn share(job: &Job, members: &[Member<'_>]) -> Result<bool, MountError> {
    let Some((first, others)) = members.split_first() else {
        return Ok(true);
    };
    let is_one = others.is_empty();
    let cannot = || match is_one {
        true => Ok(false),
        false => Err(first.failed(CopyError::CannotShare)),
    };
    // Asked before anybody is kept waiting.
    let can = copy_data::can_share(first.to.as_fd()).map_err(|error| first.failed(error))?;
    if !can {
        return cannot();
    }
    let images: Vec<_> = members.iter().map(Member::image).collect();
    let mut written = first;
    for _ in 0..ATTEMPTS {
        let frozen = job.freezer.freeze(&images);
        let mut still = Still::new(members.iter().map(|member| member.from.as_fd()).collect());
        let mut look = || match is_one {
            true => Ok(None),
            false => still
                .written()
                .map_err(|errno| first.failed(CopyError::Read(errno))),
        };
        let mut torn = look()?;
        if torn.is_none() {
            for member in members {
                if !member.share()? {
                    return cannot();
                }
            }
            torn = look()?;
        }
        drop(frozen);
        match torn.and_then(|index| members.get(index)) {
            None => return Ok(true),
            Some(member) => written = member,
        }
    }
    Err(written.failed_group())
}

impl<'p> Member<'p> {
    fn begin(pool: &Pool, pair: &'p Pair) -> Result<Self, MountError> {
        let Pair { source, target } = pair;
        let from = image::open(pool, source, OFlags::RDONLY)?;
        let (inode, status) = Inode::of_fd(&from).map_err(|errno| source.failed("stat", errno))?;
        let (name, to) = image::unfinished(pool, target)?;
        let (own, _) = Inode::of_fd(&to).map_err(|errno| target.failed("stat", errno))?;
        Ok(Self {
            pair,
            from,
            source: inode,
            name,
            to,
            own,
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
        promise::promise_image(pool, target, self.own, self.bytes)?;
        promise::inherit(target, &pool.parent(target)?, &self.to)
    }

    /// Also a second time: an earlier attempt may have left a longer file.
    fn share(&self) -> Result<bool, MountError> {
        rustix::fs::ftruncate(&self.to, 0).map_err(|errno| self.failed(CopyError::Write(errno)))?;
        copy_data::share(self.from.as_fd(), self.to.as_fd()).map_err(|error| self.failed(error))
    }

    fn copy_in_full(&self, copying: Copying) -> Result<(), MountError> {
        if copying == Copying::Shared {
            return Err(self.failed(CopyError::CannotShare));
        }
        let (from, to) = (self.from.as_fd(), self.to.as_fd());
        copy_data::full(from, to, self.bytes, Some(Still::new(vec![from])))
            .map_err(|error| self.failed(error))
    }

    /// The copy is whole: its promise and its origin are noted, and it is on stable storage but for its name.
    fn whole(&self, pool: &Pool, shares: bool, moment: Option<&str>) -> Result<(), MountError> {
        let target = &self.pair.target;
        let (_, made) = Inode::of_fd(&self.to).map_err(|errno| target.failed("stat", errno))?;
        if made.stx_size != self.bytes {
            // The source grew just before its blocks were shared.
            promise::promise_image(pool, target, self.own, made.stx_size)?;
        }
        remember(pool, self.pair, self.own, self.source, |record| {
            record.shares_blocks = shares;
            record.moment = moment.map(str::to_owned);
        })?;
        rustix::fs::fsync(&self.to).map_err(|errno| target.failed("sync", errno))
    }

    fn failed(&self, error: CopyError) -> MountError {
        failed(&self.pair.source, &self.pair.target, error)
    }

    /// It is written to by what is not frozen.
    fn failed_group(&self) -> MountError {
        self.pair.source.in_use(
            "it is written to all the time, so that copies of the group would be of several moments: by a raw block volume, or by a file system that is mounted where this host does not see it; stop who writes, or unpublish the volume, and try again",
        )
    }
}
