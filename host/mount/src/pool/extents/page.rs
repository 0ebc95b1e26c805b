//! The ranges of one answer: in order, merged where they touch, and no more of them than are wanted.

use std::ops::Range;
use wasmount_core::pool::Extents;
use wasmount_core::snapshot::Extent;

/// Most ranges of one answer: 256 KiB of a guest's memory, where a call may carry 4 MiB.
const RANGES: u32 = 16 << 10;

/// Ranges that were found so far.
#[derive(Debug)]
pub(super) struct Page {
    ranges: Vec<Extent>,
    limit: usize,
}

impl Page {
    /// For at most `limit` ranges; 0: for as many as an answer holds.
    pub(super) fn new(limit: u32) -> Self {
        let limit = match limit {
            0 => RANGES,
            limit => limit.min(RANGES),
        };
        Self {
            ranges: Vec::new(),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        }
    }

    /// Takes the next range, which lies behind all others. False: it belongs on the next page.
    pub(super) fn add(&mut self, range: Range<u64>) -> bool {
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

    /// The answer, where all before `at` of an image of `size` bytes has been looked at.
    pub(super) fn end(self, at: u64, size: u64) -> Extents {
        Extents {
            ranges: self.ranges,
            next_offset: (at < size).then_some(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
