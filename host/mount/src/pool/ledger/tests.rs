//! The ledger alone: what it stores, and how it handles a file that a killed host or a bad disk left.

use super::lines::{FILE_NAME, SPARE_LINES};
use super::*;
use proptest::prelude::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

impl Ledger {
    /// Sum of all promises, in bytes.
    pub(in crate::pool) fn promised(&self) -> u64 {
        lock(&self.book).promised
    }
}

fn folder() -> (TempDir, OwnedFd) {
    let directory = tempfile::tempdir().unwrap();
    let folder = File::open(directory.path()).unwrap().into();
    (directory, folder)
}

fn inode(number: u64, born: i64) -> Inode {
    Inode {
        number,
        born: (born, 0),
    }
}

fn promise(ledger: &Ledger, inode: Inode, bytes: u64) {
    let changed = ledger.update(inode, |_, record| {
        record.promised = bytes;
        true
    });
    changed.unwrap();
}

/// In bytes: 100,000 volumes of this size fit every disk.
const PROMISED: u64 = 4096;

/// Adds so many records of images.
pub(in crate::pool) fn fill(folder: &OwnedFd, count: u64) {
    let ledger = Ledger::open(folder).unwrap();
    (0..count).for_each(|number| fill_one(&ledger, number));
    ledger.sync().unwrap();
}

pub(in crate::pool) fn fill_one(ledger: &Ledger, number: u64) {
    let changed = ledger.update(inode(number, 1_700_000_000), |_, record| {
        record.promised = PROMISED;
        record.path = Some(format!("volumes/pvc-{number:032x}"));
        true
    });
    changed.unwrap();
}

#[test]
fn what_was_written_is_read_again() {
    let (_directory, folder) = folder();
    let ledger = Ledger::open(&folder).unwrap();
    promise(&ledger, inode(1, 1), 10);
    promise(&ledger, inode(2, 1), 20);
    promise(&ledger, inode(1, 1), 15);
    let origin = Origin {
        path: "a\n\"b".to_owned(),
        inode: inode(1, 1),
    };
    let changed = ledger.update(inode(2, 1), |others, record| {
        assert_eq!(others.promised, 15);
        assert_eq!(others.seen, None);
        record.origin = Some(origin.clone());
        record.project = Some(7);
        true
    });
    assert_eq!(changed.unwrap().unwrap().promised, 20);
    ledger.sync().unwrap();
    for ledger in [&ledger, &Ledger::open(&folder).unwrap()] {
        assert_eq!(ledger.promised(), 35);
        let record = ledger.get(inode(2, 1));
        assert_eq!(record.project, Some(7));
        assert_eq!(record.origin, Some(origin.clone()));
    }
}

#[test]
fn a_refused_change_changes_nothing() {
    let (_directory, folder) = folder();
    let ledger = Ledger::open(&folder).unwrap();
    let refused = ledger.update(inode(1, 1), |_, record| {
        record.promised = 10;
        false
    });
    assert_eq!(refused.unwrap(), None);
    assert_eq!(ledger.promised(), 0);
}

#[test]
fn a_dead_inode_leaves_nothing_to_the_next_of_its_number() {
    let (_directory, folder) = folder();
    let ledger = Ledger::open(&folder).unwrap();
    promise(&ledger, inode(1, 1), 10);
    assert_eq!(ledger.get(inode(1, 2)), Record::default());
    promise(&ledger, inode(1, 2), 3);
    assert_eq!(ledger.promised(), 3);
    ledger.forget(1).unwrap();
    ledger.forget(1).unwrap();
    assert_eq!(ledger.promised(), 0);
    assert_eq!(Ledger::open(&folder).unwrap().promised(), 0);
}

#[test]
fn a_line_that_was_cut_short_is_dropped_and_spoils_no_other() {
    let (directory, folder) = folder();
    let ledger = Ledger::open(&folder).unwrap();
    promise(&ledger, inode(1, 1), 10);
    drop(ledger);
    let path = directory.path().join(FILE_NAME);
    let whole = std::fs::read(&path).unwrap();
    for cut in 1..whole.len() {
        let mut text = whole.clone();
        text.extend(&whole[..cut]);
        std::fs::write(&path, text).unwrap();
        let ledger = Ledger::open(&folder).unwrap();
        promise(&ledger, inode(2, 1), 5);
        drop(ledger);
        assert_eq!(Ledger::open(&folder).unwrap().promised(), 15);
    }
}

#[test]
fn a_damaged_line_costs_that_line_only() {
    let (directory, folder) = folder();
    let ledger = Ledger::open(&folder).unwrap();
    promise(&ledger, inode(1, 1), 10);
    promise(&ledger, inode(2, 1), 20);
    drop(ledger);
    let path = directory.path().join(FILE_NAME);
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"\0\0\0", 3).unwrap();
    assert_eq!(Ledger::open(&folder).unwrap().promised(), 20);
}

#[test]
fn a_ledger_that_grew_long_is_written_anew() {
    let (directory, folder) = folder();
    let ledger = Ledger::open(&folder).unwrap();
    for i in 0..=SPARE_LINES as u64 + 2 {
        promise(&ledger, inode(1, 1), i + 1);
    }
    drop(ledger);
    let ledger = Ledger::open(&folder).unwrap();
    assert_eq!(ledger.promised(), SPARE_LINES as u64 + 3);
    let text = std::fs::read_to_string(directory.path().join(FILE_NAME)).unwrap();
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn a_ledger_that_is_opened_holds_little_beside_what_holds() {
    let (directory, folder) = folder();
    let ledger = Ledger::open(&folder).unwrap();
    promise(&ledger, inode(7, 1), 70);
    for number in 8..300 {
        promise(&ledger, inode(number, 1), 1);
        ledger.forget(number).unwrap();
    }
    drop(ledger);
    let again = Ledger::open(&folder).unwrap();
    assert_eq!((again.all().len(), again.promised()), (1, 70));
    let lines = || {
        let text = std::fs::read_to_string(directory.path().join(FILE_NAME)).unwrap();
        text.lines().count()
    };
    assert_eq!(lines(), 1);
    // A rewrite for few lines is not worthwhile.
    promise(&again, inode(8, 1), 1);
    again.forget(8).unwrap();
    drop(again);
    drop(Ledger::open(&folder).unwrap());
    assert_eq!(lines(), 3);
}

#[test]
fn a_ledger_is_written_anew_while_it_is_open_and_loses_nothing() {
    let (directory, folder) = folder();
    let ledger = Ledger::open(&folder).unwrap();
    promise(&ledger, inode(7, 1), 70);
    for i in 0..3 * SPARE_LINES as u64 {
        promise(&ledger, inode(1, 1), i + 1);
        ledger.sync().unwrap();
    }
    let text = std::fs::read_to_string(directory.path().join(FILE_NAME)).unwrap();
    assert!(text.lines().count() <= SPARE_LINES + 5);
    promise(&ledger, inode(2, 1), 20);
    ledger.sync().unwrap();
    let again = Ledger::open(&folder).unwrap();
    assert_eq!(again.promised(), 3 * SPARE_LINES as u64 + 90);
    assert_eq!(again.get(inode(2, 1)).promised, 20);
}

#[test]
fn a_rename_moves_hints_of_its_contents_only() {
    let (_directory, folder) = folder();
    let ledger = Ledger::open(&folder).unwrap();
    let at = |number: u64, path: &str| {
        let changed = ledger.update(inode(number, 1), |_, record| {
            record.promised = 1;
            record.path = Some(path.to_owned());
            true
        });
        changed.unwrap();
    };
    for (number, path) in [
        (1, "a"),
        (2, "a/b"),
        (3, "a/b/c"),
        (4, "ab"),
        (5, "a-b"),
        (6, "c/a"),
    ] {
        at(number, path);
    }
    ledger.moved("a", "x/y").unwrap();
    ledger.sync().unwrap();
    for ledger in [&ledger, &Ledger::open(&folder).unwrap()] {
        let path = |number| ledger.get(inode(number, 1)).path.unwrap();
        let paths = [1, 2, 3, 4, 5, 6].map(path);
        assert_eq!(paths, ["x/y", "x/y/b", "x/y/b/c", "ab", "a-b", "c/a"]);
        assert_eq!(ledger.promised(), 6);
    }
}

#[test]
fn a_measurement_counts_no_more_than_was_promised() {
    let (_directory, folder) = folder();
    let ledger = Ledger::open(&folder).unwrap();
    promise(&ledger, inode(1, 1), 10);
    promise(&ledger, inode(2, 1), 20);
    // One uses more than its promise; one was recreated since with the same inode number.
    assert_eq!(
        ledger.measured(&[(inode(1, 1), 15), (inode(2, 9), 20)], 100),
        20
    );
    promise(&ledger, inode(1, 1), 18);
    assert_eq!(ledger.measured(&[], 100), 23);
    ledger.forget(1).unwrap();
    assert_eq!(ledger.measured(&[], 100), 20);
}

proptest! {
    /// After a measurement, volumes write and release blocks, and others write. The result never exceeds the available space, except for what others
    /// wrote, which they could also write a moment later.
    #[test]
    fn what_is_left_is_never_too_much(
        taken in 0..1000_u64,
        wrote in 0..1000_u64,
        gave_back in 0..1000_u64,
        others in 0..1000_u64,
        then in 0..5000_u64,
        own in 0..100_u64,
    ) {
        let promised = 1000;
        let taken_now = (taken + wrote).min(promised).saturating_sub(gave_back);
        let free = (then + taken).saturating_sub(taken_now).saturating_sub(others);
        let beside = Others { promised, seen: Some((promised - taken, then)) };
        let truly = free.saturating_sub(promised - taken_now + own);
        prop_assert!(beside.leave(free, own) <= truly + others);
        let unseen = Others { promised, seen: None };
        prop_assert!(unseen.leave(free, own) <= truly);
    }
}
