//! What a copy does: an image or a tree, made aside and moved to its place when it is whole. Apart because it is a job that outlives its
//! call; a later call finds it done, and told apart from something else that has the name.
//!
//! An image is copied as it is at one moment, a tree file by file. A killed copy leaves nothing at the target; what it left aside is cleared
//! at the next start. How bytes are copied is `copy_data`'s and `copy_tree`'s, who waits for whom `copies`'.

use crate::pool::copies::Kind;
use crate::pool::copy_data::{self, CopyError};
use crate::pool::copy_tree;
use crate::pool::directory::{self, file_type};
use crate::pool::image;
use crate::pool::ledger::{Inode, Origin};
use crate::pool::open::Pool;
use crate::pool::place::Place;
use crate::pool::still::Still;
use crate::pool::{promise, trash};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::AsFd;
use std::sync::Arc;
use wasmount_core::mounter::MountError;

/// How data may be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copying {
    /// Blocks are shared, or the call is refused.
    Shared,
    /// Blocks are shared where the file system can, else copied.
    SharedOrFull,
}

/// A copy to be made.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) pool: Arc<Pool>,
    pub(super) kind: Kind,
    pub(super) source: Place,
    pub(super) target: Place,
    pub(super) copying: Copying,
}

impl Job {
    /// Copies, for as long as it takes. The target is such a copy already: done.
    pub(super) fn run(&self) -> Result<(), MountError> {
        if self.is_done()? {
            return Ok(());
        }
        match self.kind {
            Kind::Image => self.image(),
            Kind::Directory => self.directory(),
        }
    }

    /// Whether the target is a copy of the source; durably, if so. Something else there is an error.
    pub(super) fn is_done(&self) -> Result<bool, MountError> {
        let Self { pool, source, .. } = self;
        let target = &self.target;
        if self.kind == Kind::Directory && target.path.is_in(source.path.as_str()) {
            return Err(target.invalid("it is the source of the copy, or lies in it"));
        }
        let parent = pool.parent(target)?;
        let Some(status) = pool.look(parent.as_fd(), target)? else {
            return Ok(false);
        };
        let Some(origin) = pool.ledger.get(Inode::of(&status)).origin else {
            return Err(target.otherwise_there("it is not a copy"));
        };
        // A source that is gone is known by its path only; one that was made anew there is another.
        let from = match pool.parent(source) {
            Ok(parent) => pool.look(parent.as_fd(), source)?,
            Err(MountError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let is_same = match from {
            Some(from) => Inode::of(&from) == origin.inode,
            None => source.path.as_str() == origin.path,
        };
        let kind = match self.kind {
            Kind::Image => FileType::RegularFile,
            Kind::Directory => FileType::Directory,
        };
        if !is_same || file_type(&status) != kind {
            return Err(target.otherwise_there(format!("it is not a copy of {source}")));
        }
        // An earlier call may have been killed before the sync.
        pool.sync_parent(&parent, target)?;
        Ok(true)
    }

    fn image(&self) -> Result<(), MountError> {
        let Self { pool, source, .. } = self;
        let target = &self.target;
        let from = image::open(pool, source, OFlags::RDONLY)?;
        let (inode, status) = Inode::of_fd(&from).map_err(|errno| source.failed("stat", errno))?;
        let (name, to) = image::unfinished(pool, target)?;
        let copy = || {
            let (own, _) = Inode::of_fd(&to).map_err(|errno| target.failed("stat", errno))?;
            promise::promise_image(pool, target, own, status.stx_size)?;
            promise::inherit(target, &pool.parent(target)?, &to)?;
            let still = Some(Still::new(from.as_fd()));
            let size = status.stx_size;
            let shares = copy_data::copy(from.as_fd(), to.as_fd(), size, self.copying, still)
                .map_err(|error| failed(source, target, error))?;
            let (_, made) = Inode::of_fd(&to).map_err(|errno| target.failed("stat", errno))?;
            if made.stx_size != size {
                // It grew just before its blocks were shared.
                promise::promise_image(pool, target, own, made.stx_size)?;
            }
            remember(pool, target, own, source, inode, shares)?;
            rustix::fs::fsync(&to).map_err(|errno| target.failed("sync", errno))?;
            pool.finish(&name, target)
        };
        let copied = copy();
        if copied.is_err() {
            image::abandon(pool, &name, &to);
        }
        copied
    }

    /// The copy is promised nothing: `set-quota` says what it may use.
    fn directory(&self) -> Result<(), MountError> {
        let Self { pool, source, .. } = self;
        let target = &self.target;
        let from = directory::open(pool, source)?;
        let (inode, _) = Inode::of_fd(&from).map_err(|errno| source.failed("stat", errno))?;
        let name = pool.fresh_name();
        rustix::fs::mkdirat(&pool.unfinished, &name, Mode::RWXU)
            .map_err(|errno| target.failed("make", errno))?;
        let copy = || {
            let (to, shares) = copy_tree::tree(from.as_fd(), &pool.unfinished, &name, self.copying)
                .map_err(|error| failed(source, target, error))?;
            let (own, _) = Inode::of_fd(&to).map_err(|errno| target.failed("stat", errno))?;
            promise::inherit(target, &pool.parent(target)?, &to)?;
            remember(pool, target, own, source, inode, shares)?;
            // Once for all: a sync of each of 10,000 files takes seconds.
            rustix::fs::syncfs(&to).map_err(|errno| target.failed("sync", errno))?;
            pool.finish(&name, target)
        };
        let copied = copy();
        if copied.is_err() {
            discard_unfinished(pool, &name);
        }
        copied
    }
}

fn remember(
    pool: &Pool,
    target: &Place,
    own: Inode,
    source: &Place,
    inode: Inode,
    shares_blocks: bool,
) -> Result<(), MountError> {
    let path = source.path.as_str().to_owned();
    promise::set(pool, target, own, |record| {
        record.origin = Some(Origin { path, inode });
        record.shares_blocks = shares_blocks;
    })
}

fn discard_unfinished(pool: &Pool, name: &str) {
    let Ok(number) = rustix::fs::statat(
        &pool.unfinished,
        name,
        rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
    )
    .map(|status| status.st_ino) else {
        return;
    };
    let discarded = trash::discard(pool, pool.unfinished.as_fd(), name);
    let deleted = discarded.and_then(|discarded: CString| trash::delete(pool, discarded, number));
    if let Err(errno) = deleted {
        tracing::warn!(%errno, "an unfinished copy could not be deleted; the next start tries again");
    }
}

fn failed(source: &Place, target: &Place, error: CopyError) -> MountError {
    match error {
        CopyError::CannotShare => MountError::Unsupported {
            what: format!("a copy of {source} that shares its blocks"),
            reason: "the file system cannot; use xfs or btrfs, or grant `fullCopies` to the pool"
                .to_owned(),
        },
        CopyError::Mount => source.in_use("there is a mount in it"),
        CopyError::TooDeep => MountError::Unsupported {
            what: format!("a copy of {source}"),
            reason: format!("it is more than {} directories deep", copy_tree::DEPTH),
        },
        CopyError::Written => source.in_use(
            "it was written to while all of it was copied, so the copy would be of no one moment; unstage its volume, or put the pool on xfs or btrfs, which share blocks at once",
        ),
        CopyError::Read(Errno::NOENT | Errno::STALE) => MountError::Kernel {
            operation: "copy".to_owned(),
            object: source.to_string(),
            errno: Errno::AGAIN.raw_os_error(),
            text: "it changed during the copy; try again".to_owned(),
        },
        CopyError::Read(errno) => source.failed("read", errno),
        CopyError::Write(errno) => target.failed("write", errno),
    }
}
