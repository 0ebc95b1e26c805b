//! Partial answers: start offset, number of ranges, and bytes read for one.

use super::*;

#[test]
fn privileged_an_answer_begins_at_its_offset() {
    on_disks(&[XFS, EXT4], |fixture| {
        let image = fixture.image("image", MIB);
        fixture.image("empty", MIB);
        image.write_all_at(&[7; 64 << 10], 0).unwrap();
        let calls: [&dyn Fn(u64) -> PoolCall; 2] =
            [&|offset| allocated_extents("image", offset, 0), &|offset| {
                changed_extents("empty", "image", offset, 0)
            }];
        for call in calls {
            assert_eq!(fixture.extents(call(0)), (vec![(0, 64 * KIB)], None));
            // In the middle of a range, and of a block.
            assert_eq!(fixture.extents(call(5000)), (vec![(5000, 64 * KIB)], None));
            assert_eq!(fixture.extents(call(64 * KIB)), (vec![], None));
            assert_eq!(fixture.extents(call(MIB)), (vec![], None));
            let error = fixture.call(call(MIB + 1)).unwrap_err();
            assert!(matches!(error, MountError::OutOfRange { .. }), "{error}");
        }
    });
}

#[test]
fn privileged_many_extents_are_equal_at_once_and_in_pages() {
    on_disks(&[XFS, BTRFS, EXT4], |fixture| {
        let fragmented = fixture.image("fragmented", 20_000 * BLOCK);
        for i in 0..10_000 {
            fragmented
                .write_all_at(&[7; 4 << 10], 2 * i * BLOCK)
                .unwrap();
        }
        fixture.image("empty", 20_000 * BLOCK);
        let wanted: Vec<_> = (0..10_000)
            .map(|i| (2 * i * BLOCK, (2 * i + 1) * BLOCK))
            .collect();
        let allocated = |offset, limit| allocated_extents("fragmented", offset, limit);
        let changed = |offset, limit| changed_extents("empty", "fragmented", offset, limit);
        for limit in [0, 7] {
            assert!(fixture.paged(limit, allocated) == wanted);
            assert!(fixture.paged(limit, changed) == wanted);
        }
        assert_eq!(
            fixture.extents(allocated(1, 1)),
            (vec![(1, BLOCK)], Some(2 * BLOCK))
        );
    });
}

#[test]
fn privileged_an_answer_is_bounded_and_names_its_end() {
    on_disks(&[EXT4], |fixture| {
        for (path, byte) in [("base", 7), ("target", 8)] {
            let image = fixture.image(path, 4 * MIB);
            image.write_all_at(&vec![byte; 4 << 20], 0).unwrap();
        }
        let (mut pages, mut offset) = (0, Some(0));
        while let Some(at) = offset {
            let (found, read_bytes) = compared(fixture, at, MIB);
            assert_eq!(read_bytes, MIB);
            // Half of the bytes read belong to the target.
            assert_eq!(found.ranges, [extent(at, MIB / 2)]);
            (pages, offset) = (pages + 1, found.next_offset);
        }
        assert_eq!(pages, 8);
        // However small the limit is, it makes progress.
        let (found, read_bytes) = compared(fixture, 0, 0);
        assert_eq!(found.next_offset, Some(64 * KIB));
        assert_eq!(read_bytes, 128 * KIB);
    });
}
