//! How a copy may be made, and why one fails.

use rustix::io::Errno;

/// Deepest tree that is copied: two descriptors are open for each level, and 1024 are a process's usual limit.
pub(super) const DEPTH: usize = 200;

/// How data may be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copying {
    /// Blocks are shared, or the call is refused.
    Shared,
    /// Blocks are shared where the file system can, else copied.
    SharedOrFull,
}

/// Why a copy failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyError {
    /// The file system cannot share blocks, and full copies are not granted.
    CannotShare,
    /// The source has another mount in it.
    Mount,
    /// The source is deeper than [`DEPTH`].
    TooDeep,
    /// The source was written to during a copy that must be of one moment.
    Written,
    Read(Errno),
    Write(Errno),
}
