//! How much of a promise its holder has taken already: those bytes are no longer free, and must not be asked of the disk a second time.
//!
//! A guess is always too low, never too high: an honest promise is worth more than the last byte of a disk. So nothing counts as taken for a tree
//! that no quota counts (its bytes stand against the pool twice, as written and as promised), and for a copy that shares blocks (what it overwrites
//! is taken anew).

use crate::confine::open_confined;
use crate::pool::directory::file_type;
use crate::pool::handle::Pool;
use crate::pool::ledger::{Inode, Record};
use rustix::fs::{FileType, OFlags};
use wasmount_sys::quota;

/// The unit of `stx_blocks`, in bytes, whatever the file system's own (statx(2)).
const BLOCK_BYTES: u64 = 512;

/// Bytes of a promise that its holder may still ask of the disk.
pub(super) fn outstanding(pool: &Pool, inode: Inode, record: &Record) -> u64 {
    if record.promised == 0 {
        return 0;
    }
    record.promised.saturating_sub(taken(pool, inode, record))
}

/// Bytes of a promise that its holder has surely taken.
pub(super) fn taken(pool: &Pool, inode: Inode, record: &Record) -> u64 {
    known(pool, inode, record).unwrap_or(0)
}

/// None: unknown.
fn known(pool: &Pool, inode: Inode, record: &Record) -> Option<u64> {
    if record.shares_blocks {
        return None;
    }
    if let Some(project) = record.project {
        let usage = quota::project_usage(&pool.root, project).ok()?;
        return Some(usage.used_bytes);
    }
    let path = record.path.as_deref()?;
    // Nothing is opened by this but the name: neither a pipe nor a device acts.
    let file = open_confined(&pool.root, path, OFlags::PATH | OFlags::NOFOLLOW).ok()?;
    let (found, status) = Inode::of_fd(&file).ok()?;
    let is_it = found == inode && file_type(&status) == FileType::RegularFile;
    is_it.then(|| status.stx_blocks.saturating_mul(BLOCK_BYTES))
}
