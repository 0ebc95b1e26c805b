//! Files that are not, or no longer, a store: rejected with a message, and left unchanged.

use super::open::{FILE_NAME, FORMAT, MAGIC, NEW_FILE_NAME, STORE_FORMAT};
use super::*;
use crate::pending::Pending;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use wasmount_store_conformance::space;

fn write_one(directory: &Path, value: &[u8]) {
    let (database, revision) = Database::open(directory, false).unwrap();
    let mut pending = Pending::after(revision);
    pending.write(&space("a"), "k", Some(Arc::from(value)));
    database.commit(&pending.batch()).unwrap();
}

#[test]
fn a_new_store_is_for_the_host_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    drop(Database::open(directory.path(), false).unwrap());
    let metadata = std::fs::metadata(directory.path().join(FILE_NAME)).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
}

#[test]
fn a_store_of_an_unfinished_first_start_is_recreated() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(NEW_FILE_NAME), b"half").unwrap();
    write_one(directory.path(), b"v");
    let (database, _) = Database::open(directory.path(), false).unwrap();
    assert_eq!(database.get(&space("a"), "k").unwrap().unwrap().value, b"v");
}

#[test]
fn a_foreign_file_is_refused_and_left_as_it_is() {
    for content in [b"".as_slice(), b"red", b"redb?", &[0x7f; 100_000]] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        std::fs::write(&path, content).unwrap();
        let error = Database::open(directory.path(), false).unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
}

#[test]
fn a_redb_file_of_another_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE_NAME);
    let database = redb::Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let table: TableDefinition<'_, u64, u64> = TableDefinition::new("store");
    transaction.open_table(table).unwrap().insert(1, 1).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let content = std::fs::read(&path).unwrap();
    let error = Database::open(directory.path(), false).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
    assert!(std::fs::read(&path).unwrap() == content, "the file changed");
}

#[test]
fn a_store_of_another_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    write_one(directory.path(), b"v");
    let database = redb::Database::open(directory.path().join(FILE_NAME)).unwrap();
    let transaction = database.begin_write().unwrap();
    let mut table = transaction.open_table(STORE).unwrap();
    table.insert(STORE_FORMAT, FORMAT + 1).unwrap();
    drop(table);
    transaction.commit().unwrap();
    drop(database);
    let error = Database::open(directory.path(), false).unwrap_err();
    assert!(
        matches!(error, OpenError::Format { found, .. } if found == FORMAT + 1),
        "{error:?}"
    );
}

#[test]
fn a_damaged_header_is_refused_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    write_one(directory.path(), &[3; 100_000]);
    let path = directory.path().join(FILE_NAME);
    let good = std::fs::read(&path).unwrap();
    let cut = good[..good.len() / 2].to_vec();
    let mut scribbled = good.clone();
    scribbled[MAGIC.len()..512].fill(0xA5);
    for content in [cut, scribbled] {
        std::fs::write(&path, &content).unwrap();
        let error = Database::open(directory.path(), false).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
        assert!(std::fs::read(&path).unwrap() == content, "the file changed");
    }
}

#[test]
fn a_store_made_in_place_of_a_lost_one_says_so_until_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let lost = |is_expected| {
        let (database, _) = Database::open(directory.path(), is_expected).unwrap();
        database.is_lost().unwrap()
    };
    assert!(!lost(false), "a first start");
    assert!(!lost(true), "a store that is there");
    std::fs::remove_file(directory.path().join(FILE_NAME)).unwrap();
    assert!(lost(true));
    write_one(directory.path(), b"v");
    assert!(lost(true), "and after a restart");
    let (database, _) = Database::open(directory.path(), true).unwrap();
    database.accept_loss().unwrap();
    drop(database);
    assert!(!lost(true));
}

/// Whether redb has to read the whole file of a store to open it as a kill leaves it at this moment.
fn is_slow_to_open(directory: &Path) -> bool {
    let left = tempfile::NamedTempFile::new().unwrap();
    std::fs::copy(directory.join(FILE_NAME), left.path()).unwrap();
    let (say, said) = std::sync::mpsc::channel();
    let mut builder = redb::Builder::new();
    builder.set_repair_callback(move |_| say.send(()).unwrap());
    drop(builder.open(left.path()).unwrap());
    said.try_recv().is_ok()
}

#[test]
fn a_store_is_fast_to_open_once_it_was_prepared() {
    let directory = tempfile::tempdir().unwrap();
    let (database, revision) = Database::open(directory.path(), false).unwrap();
    let mut pending = Pending::after(revision);
    for _ in 0..2 {
        pending.write(&space("a"), "k", Some(Arc::from(b"v".as_slice())));
        database.commit(&pending.batch()).unwrap();
        assert!(is_slow_to_open(directory.path()));
        database.prepare_fast_open();
        assert!(!is_slow_to_open(directory.path()));
    }
}

/// Flipped bits on the disk make redb panic in places: that must not end the host, and the error must say what to do.
#[test]
fn flipped_bits_are_found_at_open_or_fail_single_calls() {
    let directory = tempfile::tempdir().unwrap();
    let value = |n: usize| vec![n as u8; 1000];
    let (database, revision) = Database::open(directory.path(), false).unwrap();
    let mut pending = Pending::after(revision);
    for n in 0..40 {
        pending.write(&space("a"), &format!("k{n}"), Some(Arc::from(value(n))));
    }
    database.commit(&pending.batch()).unwrap();
    drop(database);
    let path = directory.path().join(FILE_NAME);
    let good = std::fs::read(&path).unwrap();
    let (mut opened, mut refused, mut failed) = (0, 0, 0);
    for at in (MAGIC.len()..good.len()).step_by(1021) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        std::fs::write(&path, &bad).unwrap();
        let Ok((database, revision)) = Database::open(directory.path(), false) else {
            refused += 1;
            continue;
        };
        opened += 1;
        // Every call returns; none ends the process.
        let answers = (0..40).map(|n| database.get(&space("a"), &format!("k{n}")).is_ok());
        failed += answers.filter(|is_ok| !is_ok).count();
        let snapshot = database.snapshot(&space("a"));
        if let Ok(entries) = snapshot.and_then(|it| Ok(it.range(Bound::Unbounded, "")?.count())) {
            assert!(entries <= 100, "{entries}");
        }
        let _ = database.size(&space("a"));
        let mut pending = Pending::after(revision);
        pending.write(&space("a"), "k1", Some(Arc::from(value(1))));
        let _ = database.commit(&pending.batch());
    }
    println!("{opened} opened, {refused} refused, {failed} reads failed");
    assert!(opened > 0 && opened + refused > 50);
}

#[test]
fn a_store_with_wrong_bits_opens_or_says_that_it_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    write_one(directory.path(), &[3; 10_000]);
    let path = directory.path().join(FILE_NAME);
    let good = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for at in (MAGIC.len()..good.len()).step_by(509) {
        let mut bad = good.clone();
        bad[at] ^= 0x55;
        std::fs::write(&path, &bad).unwrap();
        match Database::open(directory.path(), false) {
            Ok(_) => {}
            Err(OpenError::Damaged { .. } | OpenError::Foreign { .. }) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(refused > 0);
}

#[test]
fn the_size_of_a_space_is_computed_when_it_was_not_recorded() {
    let directory = tempfile::tempdir().unwrap();
    write_one(directory.path(), b"1234");
    let (database, _) = Database::open(directory.path(), false).unwrap();
    let forget = || {
        let open = database.open.read().unwrap();
        let Open::Yes(database) = &*open else {
            unreachable!("it is open")
        };
        let transaction = database.begin_write().unwrap();
        let key = format!("{STORE_SIZE_OF}{}", table_name(&space("a")));
        let forgotten = transaction
            .open_table(STORE)
            .unwrap()
            .remove(key.as_str())
            .unwrap()
            .is_some();
        transaction.commit().unwrap();
        forgotten
    };
    let one = record_bytes("k", 4);
    assert_eq!(database.size(&space("a")).unwrap(), one);
    assert!(forget());
    assert_eq!(database.size(&space("a")).unwrap(), one, "when it is asked");
    let mut pending = Pending::after(1);
    pending.write(&space("a"), "l", Some(Arc::from(&b"12"[..])));
    database.commit(&pending.batch()).unwrap();
    let both = one + record_bytes("l", 2);
    assert_eq!(
        database.size(&space("a")).unwrap(),
        both,
        "when it is written to"
    );
    assert!(forget(), "and then it is kept");
    assert_eq!(database.size(&space("b")).unwrap(), 0);
}

#[test]
fn a_store_is_opened_again_after_a_read_has_failed() {
    let directory = tempfile::tempdir().unwrap();
    write_one(directory.path(), b"v");
    let path = directory.path().join(FILE_NAME);
    let content = std::fs::read(&path).unwrap();
    let (database, _) = Database::open(directory.path(), false).unwrap();
    let get = || database.get(&space("a"), "k");
    // The disk fails: at first a read, then the attempt to open the file again.
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(MAGIC.len() as u64)
        .unwrap();
    for _ in 0..2 {
        get().unwrap_err();
    }
    // It is back.
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .write_all_at(&content, 0)
        .unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let entry = loop {
        match get() {
            Ok(entry) => break entry,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        std::thread::sleep(REOPEN_INTERVAL / 10);
    };
    assert_eq!(entry.unwrap().value, b"v");
}
