//! Ranges of images that contain data, and ranges in which two images differ, on file systems with and without shared blocks.

mod model;
mod pages;

use super::disk::*;
use super::*;
use crate::pool::extents::{Budget, compare};
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use wasmount_core::pool::Extents;
use wasmount_core::snapshot::Extent;

const KIB: u64 = 1 << 10;
/// Block size of these file systems, and the unit in which the host compares.
const BLOCK: u64 = 4 * KIB;
const XFS: &[&str] = &["mkfs.xfs", "-q"];
const BTRFS: &[&str] = &["mkfs.btrfs", "-q"];
const EXT4: &[&str] = &["mkfs.ext4", "-q"];

/// Start and end of a range.
type Bytes = (u64, u64);

/// Runs a test on a pool of each kind of file system. Only the first two share blocks. The pool is dropped before the disk.
fn on_disks(kinds: &[&[&str]], test: impl Fn(&Fixture)) {
    for mkfs in kinds {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::on_loop(directory.path(), 320 * MIB, mkfs, "");
        let fixture = Fixture::below(directory, true);
        test(&fixture);
        drop(fixture.pools);
        drop(disk);
    }
}

impl Fixture {
    /// An image that was made by hand, so that nothing is promised for it.
    fn image(&self, path: &str, size: u64) -> File {
        self.stat("x");
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(self.path(path)).unwrap();
        file.set_len(size).unwrap();
        file
    }

    fn extents(&self, call: PoolCall) -> (Vec<Bytes>, Option<u64>) {
        match self.call(call) {
            Ok(PoolReply::Extents(extents)) => {
                let ranges = extents.ranges.into_iter();
                let range = |it: Extent| (it.offset_bytes, it.offset_bytes + it.size_bytes);
                (ranges.map(range).collect(), extents.next_offset)
            }
            other => panic!("{other:?}"),
        }
    }

    /// All pages, joined to a single answer.
    fn paged(&self, limit: u32, call: impl Fn(u64, u32) -> PoolCall) -> Vec<Bytes> {
        let (mut all, mut next): (Vec<Bytes>, _) = (Vec::new(), Some(0));
        while let Some(offset) = next {
            let (ranges, more) = self.extents(call(offset, limit));
            assert!(limit == 0 || ranges.len() <= limit as usize);
            assert!(more.is_none_or(|more| more > offset), "{offset}: {more:?}");
            let is_outside = |it: &Bytes| it.0 < offset || more.is_some_and(|more| it.1 > more);
            assert!(!ranges.iter().any(is_outside), "{ranges:?} {more:?}");
            assert!(ranges.is_sorted_by(|it, next| it.1 < next.0), "{ranges:?}");
            for range in ranges {
                match all.last_mut() {
                    Some(last) if last.1 == range.0 => last.1 = range.1,
                    _ => all.push(range),
                }
            }
            next = more;
        }
        all
    }

    fn allocated(&self, path: &str) -> Vec<Bytes> {
        self.paged(0, |offset, limit| allocated_extents(path, offset, limit))
    }

    fn changed(&self, base: &str, target: &str) -> Vec<Bytes> {
        self.paged(0, |offset, limit| {
            changed_extents(base, target, offset, limit)
        })
    }
}

fn extent(offset_bytes: u64, size_bytes: u64) -> Extent {
    Extent {
        offset_bytes,
        size_bytes,
    }
}

/// One page of a comparison with this limit of bytes and without a time limit, and the number of bytes it read.
fn compared(fixture: &Fixture, offset: u64, read_bytes: u64) -> (Extents, u64) {
    let pool = fixture.pools.open("data").unwrap();
    let [base, target] = ["base", "target"].map(|path| Place::parse("data", path).unwrap());
    let time = Duration::MAX;
    let budget = Budget { read_bytes, time };
    compare(&pool, &base, &target, offset, 0, budget).unwrap()
}

#[test]
fn privileged_data_is_found_and_holes_are_not() {
    on_disks(&[XFS, BTRFS, EXT4], |fixture| {
        let sparse = fixture.image("sparse", 8 * MIB);
        // The data is not synced, so it has no address on the disk yet.
        for at in [MIB, 2 * MIB, 2 * MIB + 64 * KIB] {
            sparse.write_all_at(&[7; 64 << 10], at).unwrap();
        }
        let found = [(MIB, MIB + 64 * KIB), (2 * MIB, 2 * MIB + 128 * KIB)];
        assert_eq!(fixture.allocated("sparse"), found);
        fixture.image("empty", 8 * MIB);
        assert_eq!(fixture.allocated("empty"), []);
        let dense = fixture.image("dense", MIB + 5);
        dense.write_all_at(&vec![7; (MIB + 5) as usize], 0).unwrap();
        dense.sync_all().unwrap();
        // No byte after the end is reported, though the last block contains some.
        assert_eq!(fixture.allocated("dense"), [(0, MIB + 5)]);
    });
}

#[test]
fn privileged_what_is_only_reserved_is_no_data() {
    on_disks(&[XFS, BTRFS, EXT4], |fixture| {
        let reserved = fixture.image("reserved", 8 * MIB);
        rustix::fs::fallocate(&reserved, FallocateFlags::empty(), 0, 8 * MIB).unwrap();
        fixture.image("empty", 8 * MIB);
        assert_eq!(fixture.allocated("reserved"), []);
        assert_eq!(fixture.changed("empty", "reserved"), []);
        reserved.write_all_at(&[7; 4 << 10], 4 * MIB).unwrap();
        reserved.sync_all().unwrap();
        let written = [(4 * MIB, 4 * MIB + BLOCK)];
        assert_eq!(fixture.allocated("reserved"), written);
        assert_eq!(fixture.changed("empty", "reserved"), written);
        assert_eq!(fixture.changed("reserved", "empty"), written);
    });
}

#[test]
fn privileged_what_is_not_there_or_no_image_holds_nothing() {
    on_disks(&[EXT4], |fixture| {
        fixture.image("image", MIB);
        fixture.done(create("tree"));
        for (path, expected) in [("none", "not found"), ("tree", "invalid")] {
            for call in [
                allocated_extents(path, 0, 0),
                changed_extents(path, "image", 0, 0),
                changed_extents("image", path, 0, 0),
            ] {
                assert_eq!(kind(fixture.call(call.clone())), expected, "{call:?}");
            }
        }
    });
}

#[test]
fn privileged_only_differing_blocks_are_reported_changed() {
    on_disks(&[XFS, BTRFS, EXT4], |fixture| {
        let base = fixture.image("base", 8 * MIB);
        base.write_all_at(&vec![7; 4 << 20], 0).unwrap();
        // On ext4, the copy is a full one.
        fixture.done(clone_image("base", "target"));
        assert_eq!(fixture.changed("base", "target"), []);
        let target = fixture.image("target", 8 * MIB);
        // The same data again: other blocks with equal content.
        target.write_all_at(&[7; 64 << 10], MIB).unwrap();
        target.sync_all().unwrap();
        assert_eq!(fixture.changed("base", "target"), []);
        // Written zeroes are equal to a hole.
        target.write_all_at(&[0; 64 << 10], 6 * MIB).unwrap();
        assert_eq!(fixture.changed("base", "target"), []);
        // Another byte, not synced.
        target.write_all_at(&[8], 2 * MIB).unwrap();
        let written = (2 * MIB, 2 * MIB + BLOCK);
        assert_eq!(fixture.changed("base", "target"), [written]);
        assert_eq!(fixture.changed("target", "base"), [written]);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&target, punch, 3 * MIB, 128 * KIB).unwrap();
        let gone = (3 * MIB, 3 * MIB + 128 * KIB);
        assert_eq!(fixture.changed("base", "target"), [written, gone]);
        assert_eq!(fixture.changed("target", "target"), []);
    });
}

#[test]
fn privileged_behind_its_end_the_base_is_zeroes() {
    on_disks(&[XFS, BTRFS, EXT4], |fixture| {
        let size = MIB + 1000;
        let base = fixture.image("base", size);
        base.write_all_at(&vec![7; size as usize], 0).unwrap();
        fixture.done(clone_image("base", "target"));
        let target = fixture.image("target", 2 * MIB);
        assert_eq!(fixture.changed("base", "target"), []);
        // In the block in which the base ends, and far after it.
        target.write_all_at(&[8], MIB + 1500).unwrap();
        target.write_all_at(&[8], 2 * MIB - 1).unwrap();
        let wanted = [(MIB, MIB + BLOCK), (2 * MIB - BLOCK, 2 * MIB)];
        assert_eq!(fixture.changed("base", "target"), wanted);
        // In the other direction, the answer ends with the smaller image.
        assert_eq!(fixture.changed("target", "base"), []);
    });
}

#[test]
fn privileged_blocks_that_both_share_are_not_read() {
    on_disks(&[XFS, BTRFS], |fixture| {
        let size = 8 << 30;
        let base = fixture.image("base", size);
        for at in [0, 1 << 30, size - 32 * MIB] {
            base.write_all_at(&vec![7; 32 << 20], at).unwrap();
        }
        let target = fixture.image("target", 0);
        rustix::fs::ioctl_ficlone(&target, &base).unwrap();
        let (found, read_bytes) = compared(fixture, 0, u64::MAX);
        assert_eq!((found.ranges, read_bytes), (vec![], 0));
        let changes = [MIB, (1 << 30) + 5 * BLOCK, 4 << 30, size - BLOCK];
        for at in changes {
            target.write_all_at(&[8; 4 << 10], at).unwrap();
        }
        let (found, read_bytes) = compared(fixture, 0, u64::MAX);
        assert_eq!(found.ranges, changes.map(|at| extent(at, BLOCK)));
        assert_eq!(found.next_offset, None);
        // Three blocks of both images, and one block that is a hole in the base.
        assert_eq!(read_bytes, 7 * BLOCK);
    });
}
