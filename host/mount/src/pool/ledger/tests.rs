//! The ledger alone: what it remembers, and what it makes of a file that a killed host or a bad disk left.

use super::*;
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

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
        Ok::<_, io::Error>(())
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
        record.origin = Some(origin.clone());
        record.project = Some(7);
        Ok::<_, io::Error>(())
    });
    assert_eq!(changed.unwrap().promised, 20);
    ledger.sync().unwrap();
    for ledger in [&ledger, &Ledger::open(&folder).unwrap()] {
        assert_eq!(ledger.promised(), 35);
        assert_eq!(ledger.last_project(), 7);
        assert_eq!(ledger.get(inode(2, 1)).origin, Some(origin.clone()));
    }
}

#[test]
fn a_refused_change_changes_nothing() {
    let (_directory, folder) = folder();
    let ledger = Ledger::open(&folder).unwrap();
    let refused = ledger.update(inode(1, 1), |_, record| {
        record.promised = 10;
        Err(io::Error::other("no"))
    });
    assert!(refused.is_err());
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
