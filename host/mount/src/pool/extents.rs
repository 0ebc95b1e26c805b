//! Reads the content of images: ranges with data, and ranges that differ between two images. It only reads. Each answer is bounded in ranges, in
//! bytes read and in time, and contains the offset at which to continue.
//!
//! An answer is consistent at one moment only for images that are not written, such as snapshots.

mod contents;

use crate::pool::handle::Pool;
use crate::pool::place::Place;
use contents::{Content, Contents};
use std::ops::Range;
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;
use wasmount_core::pool::Extents;
use wasmount_core::snapshot::Extent;

/// Unit of comparison, in bytes: the block size of xfs, btrfs and ext4, and a page of memory; all of them write in this unit.
const BLOCK_BYTES: u64 = 4096;
/// One step of a comparison, in bytes: large enough for few system calls, and two of them fit the processor's cache.
const STEP_BYTES: u64 = 64 << 10;

/// Maximum number of ranges of one answer: 256 KiB of a guest's memory, while a call may carry 4 MiB.
const RANGES: u32 = 16 << 10;

/// The budget of one answer. However small it is, each answer makes progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// Bytes that may be read of both images together.
    pub(super) read_bytes: u64,
    pub(super) time: Duration,
}

/// 256 MiB: a second of a fast disk. 2 s: a small part of a guest's 60 s, and of the time for which another call of the driver waits for a thread.
pub(super) const BUDGET: Budget = Budget {
    read_bytes: 256 << 20,
    time: Duration::from_secs(2),
};

/// The ranges found so far.
#[derive(Debug)]
struct Page {
    ranges: Vec<Extent>,
    limit: usize,
}

impl Budget {
    /// Whether the budget is used up.
    fn is_spent(self, read_bytes: u64, began: Instant) -> bool {
        read_bytes >= self.read_bytes || began.elapsed() >= self.time
    }
}

impl Page {
    /// For at most `limit` ranges. 0: as many as an answer may have.
    fn new(limit: u32) -> Self {
        let limit = match limit {
            0 => RANGES,
            limit => limit.min(RANGES),
        };
        Self {
            ranges: Vec::new(),
            limit: limit as usize,
        }
    }

    /// Adds the next range, which lies after all others. `false`: it belongs to the next page.
    fn add(&mut self, range: Range<u64>) -> bool {
        let size_bytes = range.end.saturating_sub(range.start);
        let is_full = self.ranges.len() >= self.limit;
        match self.ranges.last_mut() {
            Some(last) if last.offset_bytes.saturating_add(last.size_bytes) == range.start => {
                last.size_bytes += size_bytes;
            }
            _ if is_full => return false,
            _ => self.ranges.push(Extent {
                offset_bytes: range.start,
                size_bytes,
            }),
        }
        true
    }

    /// The answer, after everything before `at` in an image of `size` bytes was processed.
    fn end(self, at: u64, size: u64) -> Extents {
        Extents {
            ranges: self.ranges,
            next_offset: (at < size).then_some(at),
        }
    }
}

/// Ranges of an image that contain data, starting at `offset`.
pub(super) fn allocated(
    pool: &Pool,
    place: &Place,
    offset: u64,
    limit: u32,
) -> Result<Extents, MountError> {
    let mut image = Contents::open(pool, place)?;
    image.require(offset)?;
    let began = Instant::now();
    let mut page = Page::new(limit);
    let mut at = offset;
    while at < image.size {
        let piece = image.piece_at(at)?;
        if piece.content != Content::Zeroes && !page.add(piece.range.clone()) {
            break;
        }
        at = piece.range.end;
        if BUDGET.is_spent(0, began) {
            break;
        }
    }
    Ok(page.end(at, image.size))
}

/// Ranges of the image `target` that differ from the image `base`, starting at `offset`, and the number of bytes read. After its end, `base` counts
/// as zeroes.
pub(super) fn compare(
    pool: &Pool,
    base: &Place,
    target: &Place,
    offset: u64,
    limit: u32,
    budget: Budget,
) -> Result<(Extents, u64), MountError> {
    let mut base = Contents::open(pool, base)?;
    let mut target = Contents::open(pool, target)?;
    target.require(offset)?;
    let size = target.size;
    let mut page = Page::new(limit);
    if base.is_same_file(&target) {
        return Ok((page.end(size, size), 0));
    }
    if base.can_detect_sharing_with(&target) {
        base.detects_sharing = true;
        target.detects_sharing = true;
    }
    let began = Instant::now();
    let mut at = offset;
    while at < size {
        let (of_base, of_target) = (base.piece_at(at)?, target.piece_at(at)?);
        let both_end = of_base.range.end.min(of_target.range.end).min(size);
        let is_same = of_base.content.is_surely(of_target.content);
        let (end, must_compare) = next_part(at, both_end, is_same, size);
        if must_compare {
            let in_base = base.read(&of_base.until(end))?;
            let in_target = target.read(&of_target.until(end))?;
            let mut differing = differing_blocks(at, in_base, in_target);
            if let Some(block) = differing.find(|block| !page.add(block.clone())) {
                at = block.start;
                break;
            }
        }
        at = end;
        if budget.is_spent(base.read_bytes + target.read_bytes, began) {
            break;
        }
    }
    let read_bytes = base.read_bytes + target.read_bytes;
    Ok((page.end(at, size), read_bytes))
}

/// Returns the end of the next part from `at`, where each image has one piece up to `end`, and whether to compare it.
///
/// Equal content is skipped in whole blocks. A block in which an extent ends (extents may have 512 bytes) is compared as a whole, so that the result
/// does not depend on the layout of an image on the disk. Steps end at multiples from the start of the image, whatever the offset was.
fn next_part(at: u64, end: u64, is_same: bool, size: u64) -> (u64, bool) {
    let whole = match end == size {
        true => end,
        false => end - end % BLOCK_BYTES,
    };
    if is_same && whole > at {
        return (whole, false);
    }
    let step_end = (at / STEP_BYTES + 1) * STEP_BYTES;
    let end = end.next_multiple_of(BLOCK_BYTES).min(step_end).min(size);
    (end, true)
}

/// Blocks that differ between the bytes at `at`. The first and the last one may be parts of blocks.
fn differing_blocks(at: u64, base: &[u8], target: &[u8]) -> impl Iterator<Item = Range<u64>> {
    let end = at + target.len() as u64;
    let blocks = std::iter::successors(Some(at..at), move |block| {
        let next = (block.end / BLOCK_BYTES + 1) * BLOCK_BYTES;
        (block.end < end).then(|| block.end..next.min(end))
    });
    let bytes = move |block: &Range<u64>| (block.start - at) as usize..(block.end - at) as usize;
    blocks.filter(move |block| base.get(bytes(block)) != target.get(bytes(block)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page_of(limit: u32, ranges: &[Range<u64>]) -> (Vec<bool>, Vec<(u64, u64)>) {
        let mut page = Page::new(limit);
        let taken = ranges.iter().map(|range| page.add(range.clone())).collect();
        let ranges = page.end(0, 0).ranges.into_iter();
        let ranges = ranges.map(|extent| (extent.offset_bytes, extent.size_bytes));
        (taken, ranges.collect())
    }

    #[test]
    fn ranges_that_touch_are_one_and_others_are_not() {
        let (taken, ranges) = page_of(0, &[0..4, 4..6, 7..8, 8..9]);
        assert_eq!(taken, [true; 4]);
        assert_eq!(ranges, [(0, 6), (7, 2)]);
    }

    #[test]
    fn a_full_page_takes_what_touches_and_refuses_the_next() {
        let (taken, ranges) = page_of(1, &[0..4, 4..6, 7..8]);
        assert_eq!(taken, [true, true, false]);
        assert_eq!(ranges, [(0, 6)]);
    }

    #[test]
    fn a_page_has_a_default_and_a_maximum_size() {
        let apart: Vec<_> = (0..u64::from(RANGES) + 1)
            .map(|i| 2 * i..2 * i + 1)
            .collect();
        for limit in [0, u32::MAX] {
            let (taken, ranges) = page_of(limit, &apart);
            assert_eq!(ranges.len(), 16_384);
            assert_eq!(taken.iter().filter(|taken| !**taken).count(), 1);
        }
    }

    #[test]
    fn the_last_page_says_that_it_is_the_last() {
        assert_eq!(Page::new(1).end(9, 10).next_offset, Some(9));
        assert_eq!(Page::new(1).end(10, 10).next_offset, None);
    }

    #[test]
    fn equal_blocks_are_skipped_and_others_compared() {
        const SIZE: u64 = 1_000_000;
        for (at, end, is_same, expected) in [
            (0, SIZE, true, (SIZE, false)),
            (0, 9000, true, (8192, false)),
            (5000, 9000, true, (8192, false)),
            // The extent ends inside the block.
            (8192, 9000, true, (12_288, true)),
            (8192, 8193, false, (12_288, true)),
            (0, SIZE, false, (65_536, true)),
            (5000, 100_000, false, (65_536, true)),
            (65_536, 65_536 + 4096, false, (65_536 + 4096, true)),
            // The last part of the image is smaller than a block.
            (999_424, SIZE, true, (SIZE, false)),
            (999_424, 999_500, true, (SIZE, true)),
            (999_424, SIZE, false, (SIZE, true)),
        ] {
            let next = next_part(at, end, is_same, SIZE);
            assert_eq!(next, expected, "{at}..{end} {is_same}");
        }
    }

    proptest! {
        #[test]
        fn parts_always_go_on_and_hold_what_was_asked(
            at in 0..1_000_000u64, length in 1..200_000u64, rest in 0..2u64, is_same: bool,
        ) {
            let end = at + length;
            let (next, must_compare) = next_part(at, end, is_same, end + rest * 5000);
            prop_assert!(at < next && next <= end + rest * 5000);
            prop_assert!(must_compare || (is_same && next <= end));
            prop_assert!(!must_compare || next - at <= STEP_BYTES);
        }

        #[test]
        fn blocks_are_those_with_a_byte_that_differs(
            at in 0..20_000u64, differing in prop::collection::btree_set(0..20_000usize, 0..5), length in 1..20_000usize,
        ) {
            let base = vec![7; length];
            let mut target = base.clone();
            let mut expected = std::collections::BTreeSet::new();
            for i in differing.into_iter().filter(|i| *i < length) {
                target[i] = 8;
                let block = (at + i as u64) / BLOCK_BYTES * BLOCK_BYTES;
                expected.insert((block.max(at), (block + BLOCK_BYTES).min(at + length as u64)));
            }
            let found = differing_blocks(at, &base, &target);
            let found: Vec<_> = found.map(|block| (block.start, block.end)).collect();
            prop_assert_eq!(found, Vec::from_iter(expected));
        }
    }
}
