//! Random writes to an image and its copy: the reported ranges equal the result of a comparison byte by byte, on every file system.

use super::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// A repeated write of one byte to an image of 1 MiB.
#[derive(Debug, Clone)]
struct Write {
    to_target: bool,
    at: u64,
    bytes: u64,
    byte: u8,
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let write = (any::<bool>(), 0..MIB, 1..32 * KIB, 0..3u8);
    let write = write.prop_map(|(to_target, at, bytes, byte)| Write {
        to_target,
        at,
        bytes: bytes.min(MIB - at),
        byte,
    });
    prop::collection::vec(write, 0..20)
}

#[test]
fn privileged_random_writes_are_reported_as_changed() {
    on_disks(&[XFS, BTRFS, EXT4], |fixture| {
        let mut runner = TestRunner::new(Config {
            cases: 32,
            failure_persistence: None,
            ..Config::default()
        });
        let strategy = (writes(), writes(), any::<bool>(), 1..5u32);
        let case = |(before, after, synced, limit): (Vec<Write>, Vec<Write>, bool, u32)| {
            fixture.done(remove_image("target"));
            fixture.done(remove_image("base"));
            let base = fixture.image("base", MIB);
            let write = |file: &File, it: &Write| {
                file.write_all_at(&vec![it.byte; it.bytes as usize], it.at)
                    .unwrap();
            };
            before.iter().for_each(|it| write(&base, it));
            fixture.done(clone_image("base", "target"));
            let target = fixture.image("target", MIB);
            for it in &after {
                write(if it.to_target { &target } else { &base }, it);
                if synced {
                    rustix::fs::fsync(&target).unwrap();
                }
            }
            let read = |path| std::fs::read(fixture.path(path)).unwrap();
            let (of_base, of_target) = (read("base"), read("target"));
            let found = fixture.paged(limit, |offset, limit| {
                changed_extents("base", "target", offset, limit)
            });
            prop_assert_eq!(found, differing(&of_base, &of_target));
            let allocated = fixture.paged(limit, |offset, limit| {
                allocated_extents("target", offset, limit)
            });
            let mut holes = of_target;
            for (start, end) in allocated {
                holes[start as usize..end as usize].fill(0);
            }
            prop_assert!(holes.iter().all(|byte| *byte == 0));
            Ok(())
        };
        runner.run(&strategy, case).unwrap();
    });
}

/// Blocks of the second image that differ from the first, of the same size, as ranges that do not touch.
fn differing(base: &[u8], target: &[u8]) -> Vec<Bytes> {
    let mut ranges: Vec<Bytes> = Vec::new();
    let bytes = BLOCK as usize;
    for (number, block) in (0..).zip(target.chunks(bytes).zip(base.chunks(bytes))) {
        let at = number * BLOCK;
        match ranges.last_mut() {
            _ if block.0 == block.1 => {}
            Some(last) if last.1 == at => last.1 += BLOCK,
            _ => ranges.push((at, at + BLOCK)),
        }
    }
    ranges
}
