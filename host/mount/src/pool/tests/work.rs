//! The cost of a call in a pool with few and with many entries, in system calls and bytes and not in time, counted by strace in a separate process.

use super::*;
use std::process::Command;

const FEW: usize = 100;
const MANY: usize = 10_000;
const DIRECTORY: &str = "WASMOUNT_TEST_WORK_DIRECTORY";
/// Number of times that each call is made.
const ROUNDS: usize = 8;
const IMAGE_BYTES: u64 = 4096;
/// More volumes than any node has.
const RECORDS: u64 = 100_000;
/// Maximum length of a line of the ledger, for paths as short as these, in bytes.
const LINE_BYTES: u64 = 512;

/// A pool with so many names, and as many records of promises. The names are hard links of one file: creating files is slow on the test machine.
fn pool_of(count: usize) -> Fixture {
    let fixture = Fixture::with(true);
    fixture.done(create_image("image-0", IMAGE_BYTES));
    for i in 1..count {
        let name = fixture.path(&format!("image-{i}"));
        std::fs::hard_link(fixture.path("image-0"), name).unwrap();
    }
    let pool = fixture.pools.open("data").unwrap();
    (1..count as u64).for_each(|number| ledger::tests::fill_one(&pool.ledger, u64::MAX - number));
    pool.ledger.sync().unwrap();
    fixture
}

#[test]
#[ignore = "the process whose work the other test counts"]
fn worker() {
    let directory = std::env::var_os(DIRECTORY).expect("started by the other test");
    let pools = pools(Path::new(&directory), true, &Arc::new(Used::default()));
    pools.call(stat("x")).unwrap();
    // Failing calls that no other code makes mark the beginning and the end in the trace.
    let mark = |name: &str| drop(std::fs::metadata(format!("/wasmount-{name}")));
    mark("begin");
    for i in 0..ROUNDS {
        let name = |kind: &str| format!("{kind}-{i}");
        for call in [
            create(&name("new")),
            set_quota(&name("new"), Some(4096)),
            set_permissions(&name("new"), 0o700),
            stat(&name("new")),
            rename(&name("new"), &name("renamed")),
            clone_directory(&name("renamed"), &name("copy")),
            remove(&name("renamed")),
            remove(&name("copy")),
            create_image(&name("disk"), IMAGE_BYTES),
            resize_image(&name("disk"), 2 * IMAGE_BYTES),
            clone_image(&name("disk"), &name("disk-2")),
            remove_image(&name("disk")),
            remove_image(&name("disk-2")),
        ] {
            pools.call(call).unwrap();
        }
    }
    mark("end");
}

/// System calls between the marks, and the bytes that they write.
fn work_in(fixture: Fixture) -> (usize, u64) {
    let path = fixture.path("");
    let Fixture {
        directory, pools, ..
    } = fixture;
    drop(pools);
    let trace = tempfile::NamedTempFile::new().unwrap();
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(trace.path())
        .arg(std::env::current_exe().unwrap())
        .args(["pool::tests::work::worker", "--exact", "--ignored"])
        .env(DIRECTORY, path)
        .output()
        .expect("this test needs strace: install it");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let text = std::fs::read_to_string(trace.path()).unwrap();
    let calls: Vec<_> = text
        .lines()
        .skip_while(|line| !line.contains("/wasmount-begin"))
        .take_while(|line| !line.contains("/wasmount-end"))
        .collect();
    let written = calls.iter().filter(|line| line.contains("write"));
    let written = written.filter_map(|line| line.rsplit("= ").next()?.parse::<u64>().ok());
    // Waits between threads and memory allocation are random.
    let is_chance = |line: &str| {
        ["futex(", "resumed>", "mmap(", "madvise(", "brk("]
            .iter()
            .any(|call| line.contains(call))
    };
    let done = calls.iter().filter(|line| !is_chance(line));
    let work = (done.count(), written.sum());
    drop(directory);
    work
}

#[test]
fn no_call_works_more_among_10_000_entries_than_among_100() {
    let (few, many) = (work_in(pool_of(FEW)), work_in(pool_of(MANY)));
    println!("calls and bytes among {FEW}: {few:?}, among {MANY}: {many:?}");
    assert!(few.0 > ROUNDS * 13, "{few:?}");
    // Numbers with more digits make longer lines.
    assert!(many.0 * 100 <= few.0 * 102, "{few:?} {many:?}");
    assert!(many.1 * 100 <= few.1 * 110, "{few:?} {many:?}");
}

#[test]
fn full_volumes_are_not_measured_at_every_promise() {
    let fixture = pool_of(FEW);
    let pool = fixture.pools.open("data").unwrap();
    // All images are full: nothing is unused, though all space is promised.
    let all = pool.ledger.all();
    let taken = all.iter().map(|(inode, record)| (*inode, record.promised));
    let taken: Vec<_> = taken.collect();
    assert_eq!(pool.ledger.measured(&taken, IMAGE_BYTES * 10), 0);
    assert_eq!(fixture.promised(), FEW as u64 * IMAGE_BYTES);
    let leaves = |free: u64| {
        let file = tempfile::tempfile().unwrap();
        let (inode, _) = ledger::Inode::of_fd(&file).unwrap();
        let mut left = 0;
        let looked = pool.ledger.update(inode, |others, _| {
            left = others.leave(free, 0);
            true
        });
        looked.unwrap();
        left
    };
    assert_eq!(leaves(IMAGE_BYTES * 10), IMAGE_BYTES * 10);
    // Writes of others count at once. Released space counts only at the next measurement, because a volume may use it again.
    assert_eq!(leaves(IMAGE_BYTES * 4), IMAGE_BYTES * 4);
    assert_eq!(leaves(IMAGE_BYTES * 40), IMAGE_BYTES * 10);
}

#[test]
fn a_ledger_of_100_000_records_is_read_and_appended() {
    let directory = tempfile::tempdir().unwrap();
    let folder: std::os::fd::OwnedFd = std::fs::File::open(directory.path()).unwrap().into();
    ledger::tests::fill(&folder, RECORDS);
    let file = directory.path().join("ledger");
    let bytes = || std::fs::metadata(&file).unwrap().len();
    let before = bytes();
    let start = std::time::Instant::now();
    let ledger = ledger::Ledger::open(&folder).unwrap();
    println!(
        "{RECORDS} records, {before} bytes: open {:?}",
        start.elapsed()
    );
    assert_eq!(ledger.all().len() as u64, RECORDS);
    ledger::tests::fill_one(&ledger, RECORDS);
    ledger.sync().unwrap();
    assert!((1..LINE_BYTES).contains(&(bytes() - before)), "{}", bytes());
}
