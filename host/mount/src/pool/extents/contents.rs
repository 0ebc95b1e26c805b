//! Reads one open image piece by piece: which pieces read as zeroes, which must be read, and which blocks may be shared with other files. It does not
//! compare.
//!
//! `SEEK_DATA` (lseek(2)) finds holes on every file system, even before a sync. Only `FIEMAP` shows shared blocks, and an address is known to mean
//! the same in two files only where blocks are shared.

use crate::block::read_at;
use crate::fs_type::FsType;
use crate::observe::Identity;
use crate::pool::handle::Pool;
use crate::pool::image;
use crate::pool::ledger::Inode;
use crate::pool::place::Place;
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::OwnedFd;
use wasmount_core::mounter::MountError;
use wasmount_sys::fiemap::{
    self, FIEMAP_EXTENT_LAST, FIEMAP_EXTENT_SHARED, FIEMAP_EXTENT_UNWRITTEN,
};
use wasmount_sys::xfs;

/// The content of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// A hole, or blocks that were never written.
    Zeroes,
    /// Data that must be read.
    Bytes,
    /// Blocks that start at this address, in bytes, and are shared with other files.
    Shared(u64),
}

/// A part of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) range: Range<u64>,
    pub(super) content: Content,
}

/// An open image.
#[derive(Debug)]
pub(super) struct Contents<'a> {
    place: &'a Place,
    file: OwnedFd,
    identity: Identity,
    /// Size in bytes, when it was opened.
    pub(super) size: u64,
    /// Whether shared blocks are distinguished from others. It does not change once a piece was found.
    pub(super) detects_sharing: bool,
    /// Pieces that were found but not returned yet.
    ahead: VecDeque<Piece>,
    buffer: Vec<u8>,
    /// Number of bytes read so far, without holes.
    pub(super) read_bytes: u64,
}

impl Content {
    /// Whether two pieces of the same length are known to be equal without reading them.
    pub(super) fn is_surely(self, other: Self) -> bool {
        self == other && self != Self::Bytes
    }

    /// The same content, starting so many bytes later.
    fn behind(self, bytes: u64) -> Self {
        match self {
            Self::Shared(address) => Self::Shared(address.saturating_add(bytes)),
            content => content,
        }
    }

    /// For any other extent (encrypted, compressed, part of a block), its bytes are not those at its address, or it has no address.
    fn of(extent: &fiemap::Extent) -> Self {
        match extent.flags & !FIEMAP_EXTENT_LAST {
            FIEMAP_EXTENT_SHARED => Self::Shared(extent.physical),
            flags if flags & FIEMAP_EXTENT_UNWRITTEN != 0 => Self::Zeroes,
            _ => Self::Bytes,
        }
    }
}

impl Piece {
    /// The piece with another end. Data after its own end must be read.
    pub(super) fn until(&self, end: u64) -> Self {
        let content = match end <= self.range.end {
            true => self.content,
            false => Content::Bytes,
        };
        let range = self.range.start..end;
        Self { range, content }
    }
}

impl<'a> Contents<'a> {
    /// Opens an image, even one that is in use.
    pub(super) fn open(pool: &Pool, place: &'a Place) -> Result<Self, MountError> {
        let file = image::open(pool, place, OFlags::RDONLY)?;
        let (_, status) = Inode::of_fd(&file).map_err(|errno| place.failed("stat", errno))?;
        Ok(Self {
            place,
            file,
            identity: Identity::of(&status),
            size: status.stx_size,
            detects_sharing: false,
            ahead: VecDeque::new(),
            buffer: Vec::new(),
            read_bytes: 0,
        })
    }

    /// Refuses an offset after the end. The end itself is accepted.
    pub(super) fn require(&self, offset: u64) -> Result<(), MountError> {
        if offset <= self.size {
            return Ok(());
        }
        Err(MountError::out_of_range(
            format!("offset {offset} in {}", self.place),
            format!("the image ends at {}", self.size),
        ))
    }

    /// Whether both are the same file.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        self.identity == other.identity
    }

    /// Whether equal addresses mean equal blocks: both must be on one file system that shares blocks and has a single address space. That is btrfs,
    /// whose addresses belong to the file system and not to one of its disks, and an xfs with a single data device. Other file systems may use the
    /// same block numbers on several devices. In doubt the data is read.
    pub(super) fn can_detect_sharing_with(&self, other: &Self) -> bool {
        let has_one_space = match FsType::of_mounted(&self.file) {
            Ok(Some(FsType::Btrfs)) => true,
            Ok(Some(FsType::Xfs)) => {
                xfs::geometry(&self.file).is_ok_and(|geometry| geometry.realtime_blocks == 0)
            }
            _ => false,
        };
        let device = |identity: Identity| (identity.device_major, identity.device_minor);
        has_one_space && device(self.identity) == device(other.identity)
    }

    /// The piece that starts at an offset, which must not decrease between calls. After the end: zeroes.
    pub(super) fn piece_at(&mut self, at: u64) -> Result<Piece, MountError> {
        let is_past = |piece: &mut Piece| piece.range.end <= at;
        while self.ahead.pop_front_if(is_past).is_some() {}
        if self.ahead.is_empty() && at < self.size {
            let found = match self.detects_sharing {
                true => self.map(at),
                false => self.seek(at),
            };
            self.ahead = found.map_err(|errno| self.place.failed("find the data of", errno))?;
        }
        let (end, content) = match self.ahead.front() {
            _ if at >= self.size => (u64::MAX, Content::Zeroes),
            // The kernel reported no further extents before the end: an unknown range must be read.
            None => (self.size, Content::Bytes),
            Some(piece) => {
                let behind = at.saturating_sub(piece.range.start);
                (piece.range.end, piece.content.behind(behind))
            }
        };
        let range = at..end;
        Ok(Piece { range, content })
    }

    /// The bytes of a piece. A part that is after the end by now counts as zeroes.
    pub(super) fn read(&mut self, piece: &Piece) -> Result<&[u8], MountError> {
        let bytes = usize::try_from(piece.range.end - piece.range.start).unwrap_or(usize::MAX);
        self.buffer.resize(bytes, 0);
        let read = match piece.content {
            Content::Zeroes => 0,
            _ => read_at(&self.file, &mut self.buffer, piece.range.start)
                .map_err(|errno| self.place.failed("read", errno))?,
        };
        self.buffer.get_mut(read..).unwrap_or_default().fill(0);
        self.read_bytes += read as u64;
        Ok(&self.buffer)
    }

    fn seek(&self, at: u64) -> Result<VecDeque<Piece>, Errno> {
        let start = match rustix::fs::seek(&self.file, SeekFrom::Data(at)) {
            // The rest of the file is a hole.
            Err(Errno::NXIO) => return Ok(pieces(at..self.size, [])),
            start => start?,
        };
        let end = rustix::fs::seek(&self.file, SeekFrom::Hole(start))?;
        let known = at..end.min(self.size);
        Ok(pieces(known, [(start..end, Content::Bytes)]))
    }

    fn map(&self, at: u64) -> Result<VecDeque<Piece>, Errno> {
        let extents = fiemap::extents(&self.file, at, self.size - at)?;
        // After a full answer there may be more extents.
        let is_all = extents.len() < fiemap::EXTENTS as usize;
        let known = match extents.last() {
            Some(last) if !is_all => at..last.logical.saturating_add(last.length).min(self.size),
            _ => at..self.size,
        };
        let data = extents.iter().map(|extent| {
            let range = extent.logical..extent.logical.saturating_add(extent.length);
            (range, Content::of(extent))
        });
        Ok(pieces(known, data))
    }
}

/// Splits an image into pieces: the data, in order, and zeroes between.
fn pieces(
    known: Range<u64>,
    data: impl IntoIterator<Item = (Range<u64>, Content)>,
) -> VecDeque<Piece> {
    let mut pieces = VecDeque::new();
    let mut push = |range: Range<u64>, content| {
        if range.start < range.end {
            pieces.push_back(Piece { range, content });
        }
    };
    let mut at = known.start;
    for (range, content) in data {
        let (start, end) = (range.start.max(at), range.end.min(known.end));
        if start < end {
            push(at..start, Content::Zeroes);
            push(start..end, content.behind(start - range.start));
            at = end;
        }
    }
    push(at..known.end, Content::Zeroes);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use Content::{Bytes, Shared, Zeroes};

    /// Numbers of `linux/fiemap.h`.
    const DELALLOC: u32 = 4;
    const ENCODED: u32 = 8;
    const ENCRYPTED: u32 = 0x80;
    const INLINE: u32 = 0x200 | 0x100;
    const MERGED: u32 = 0x1000;
    const LAST: u32 = FIEMAP_EXTENT_LAST;
    const SHARED: u32 = FIEMAP_EXTENT_SHARED;
    const UNWRITTEN: u32 = FIEMAP_EXTENT_UNWRITTEN;

    fn cut(known: Range<u64>, data: &[(Range<u64>, Content)]) -> Vec<(u64, u64, Content)> {
        let pieces = pieces(known, data.iter().cloned()).into_iter();
        let parts = pieces.map(|piece| (piece.range.start, piece.range.end, piece.content));
        parts.collect()
    }

    #[test]
    fn only_shared_blocks_are_compared_by_address() {
        for (flags, expected) in [
            (SHARED, Shared(9)),
            (SHARED | LAST, Shared(9)),
            (0, Bytes),
            (LAST, Bytes),
            (SHARED | ENCODED, Bytes),
            (SHARED | ENCRYPTED, Bytes),
            (SHARED | INLINE, Bytes),
            (SHARED | DELALLOC, Bytes),
            (SHARED | MERGED, Bytes),
            (UNWRITTEN, Zeroes),
            (UNWRITTEN | SHARED, Zeroes),
        ] {
            let extent = fiemap::Extent {
                physical: 9,
                flags,
                ..fiemap::Extent::default()
            };
            assert_eq!(Content::of(&extent), expected, "{flags:#x}");
        }
    }

    #[test]
    fn equal_is_surely_only_what_need_not_be_read() {
        for (one, other, expected) in [
            (Zeroes, Zeroes, true),
            (Shared(9), Shared(9), true),
            (Shared(9), Shared(8), false),
            (Bytes, Bytes, false),
            (Zeroes, Shared(0), false),
            (Zeroes, Bytes, false),
        ] {
            assert_eq!(one.is_surely(other), expected, "{one:?} {other:?}");
            assert_eq!(other.is_surely(one), expected, "{other:?} {one:?}");
        }
    }

    #[test]
    fn between_the_data_are_zeroes() {
        assert_eq!(cut(0..9, &[]), [(0, 9, Zeroes)]);
        assert_eq!(
            cut(0..9, &[(2..4, Bytes), (4..5, Shared(70)), (6..9, Bytes)]),
            [
                (0, 2, Zeroes),
                (2, 4, Bytes),
                (4, 5, Shared(70)),
                (5, 6, Zeroes),
                (6, 9, Bytes)
            ]
        );
    }

    #[test]
    fn what_reaches_out_is_cut_and_keeps_its_address() {
        assert_eq!(
            cut(
                3..9,
                &[
                    (0..2, Bytes),
                    (1..5, Shared(70)),
                    (7..12, Shared(90)),
                    (12..13, Bytes)
                ]
            ),
            [(3, 5, Shared(72)), (5, 7, Zeroes), (7, 9, Shared(90))]
        );
    }

    #[test]
    fn an_answer_that_overlaps_or_is_empty_makes_no_piece_twice() {
        assert_eq!(
            cut(
                0..9,
                &[(0..4, Shared(50)), (2..6, Shared(80)), (6..6, Bytes)]
            ),
            [(0, 4, Shared(50)), (4, 6, Shared(82)), (6, 9, Zeroes)]
        );
    }

    #[test]
    fn a_piece_is_of_its_content_only_up_to_its_end() {
        let piece = |end, content| Piece {
            range: 0..end,
            content,
        };
        assert_eq!(piece(8, Zeroes).until(4), piece(4, Zeroes));
        assert_eq!(piece(4, Zeroes).until(8), piece(8, Bytes));
    }
}
