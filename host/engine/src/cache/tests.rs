//! Tests of the cache with the smallest possible component: an entry is found again, and only intact entries are used.

use super::*;
use std::time::SystemTime;
use tempfile::TempDir;

/// A component without imports or exports.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const KEY: Checksum = [7; 32];

struct Fixture {
    engine: Engine,
    cache: Cache,
    directory: PathBuf,
    _folder: TempDir,
}

impl Fixture {
    fn empty() -> Self {
        let engine = Engine::default();
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("cache");
        Self {
            cache: Cache::open(&directory, &engine).unwrap(),
            engine,
            directory,
            _folder: folder,
        }
    }

    /// A cache with one entry.
    fn filled() -> Self {
        let fixture = Self::empty();
        fixture.put();
        fixture
    }

    fn put(&self) {
        let code = self.engine.precompile_component(COMPONENT).unwrap();
        self.cache.put(&KEY, &code).unwrap();
    }

    fn is_found(&self) -> bool {
        self.cache.get(&self.engine, &KEY).is_some()
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.directory).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    /// Makes all files as old as those that no claim protects.
    fn age(&self) {
        for file in self.files() {
            let file = File::options().write(true).open(file).unwrap();
            file.set_modified(SystemTime::now() - GRACE).unwrap();
        }
    }

    fn code_file(&self) -> PathBuf {
        let is_code = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "cwasm");
        self.files().into_iter().find(is_code).unwrap()
    }
}

#[test]
fn what_was_put_is_found_and_nothing_else() {
    let fixture = Fixture::filled();
    assert!(fixture.is_found());
    assert!(fixture.cache.get(&fixture.engine, &[8; 32]).is_none());
    assert_eq!(fixture.files().len(), 2);
}

#[test]
fn a_damaged_entry_is_thrown_away_and_can_be_put_again() {
    let spoil: [fn(&Fixture); 6] = [
        |fixture| fs::write(fixture.code_file(), b"garbage").unwrap(),
        |fixture| {
            let file = File::options().write(true).open(fixture.code_file());
            file.unwrap().set_len(100).unwrap();
        },
        |fixture| {
            let mut code = fs::read(fixture.code_file()).unwrap();
            let middle = code.len() / 2;
            code[middle] ^= 1;
            fs::write(fixture.code_file(), code).unwrap();
        },
        |fixture| fs::remove_file(fixture.code_file()).unwrap(),
        |fixture| {
            let writable = fs::Permissions::from_mode(0o666);
            fs::set_permissions(fixture.code_file(), writable).unwrap();
        },
        |fixture| fs::write(fixture.cache.pointer(&KEY), "../../etc/passwd").unwrap(),
    ];
    for (number, spoil) in spoil.into_iter().enumerate() {
        let fixture = Fixture::filled();
        spoil(&fixture);
        assert!(!fixture.is_found(), "spoilt in way {number}");
        assert!(!fixture.cache.pointer(&KEY).exists(), "way {number}");
        fixture.put();
        assert!(fixture.is_found(), "put again after way {number}");
    }
}

#[test]
fn what_is_removed_is_gone_whole_and_may_be_removed_again() {
    let fixture = Fixture::filled();
    fixture.cache.remove(&[8; 32]).unwrap();
    assert!(fixture.is_found());
    for _ in 0..2 {
        fixture.cache.remove(&KEY).unwrap();
        assert_eq!(fixture.files(), [""; 0].map(PathBuf::from));
    }
    fixture.put();
    assert!(fixture.is_found());
}

#[test]
fn code_of_another_engine_is_not_found() {
    let fixture = Fixture::filled();
    let mut config = wasmtime::Config::new();
    config.epoch_interruption(true);
    let other = Engine::new(&config).unwrap();
    let cache = Cache::open(&fixture.directory, &other).unwrap();
    assert!(cache.get(&other, &KEY).is_none());
    assert!(fixture.is_found());
}

#[test]
fn code_of_another_engine_is_not_mapped_under_the_right_name() {
    let fixture = Fixture::empty();
    let mut config = wasmtime::Config::new();
    config.epoch_interruption(true);
    let other = Engine::new(&config).unwrap();
    let code = other.precompile_component(COMPONENT).unwrap();
    fixture.cache.put(&KEY, &code).unwrap();
    assert!(!fixture.is_found());
}

#[test]
fn writers_that_meet_leave_one_whole_entry() {
    let fixture = Fixture::empty();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| fixture.put());
        }
    });
    assert!(fixture.is_found());
    assert_eq!(fixture.files().len(), 2);
}

#[test]
fn half_written_files_of_a_killed_host_go_at_the_next_start() {
    let fixture = Fixture::filled();
    for name in ["ab-cd.ef.cwasm.1.0.new", "ab-cd.1.1.new"] {
        fs::write(fixture.directory.join(name), b"half").unwrap();
    }
    Cache::open(&fixture.directory, &fixture.engine).unwrap();
    assert_eq!(fixture.files().len(), 2);
    assert!(fixture.is_found());
}

#[test]
fn two_starts_of_one_process_number_do_not_meet_in_a_name() {
    let fixture = Fixture::empty();
    let other = Cache::open(&fixture.directory, &fixture.engine).unwrap();
    assert_ne!(fixture.cache.start, other.start);
    // The first temporary file of the other cache's naming scheme already exists.
    let suffix = format!("{}.1.{UNFINISHED}", std::process::id());
    let aside = fixture.cache.pointer(&KEY).with_added_extension(suffix);
    fs::write(fixture.directory.join(aside), b"half").unwrap();
    fixture.put();
    assert!(fixture.is_found());
}

#[test]
fn a_cache_that_cannot_be_written_says_so_and_leaves_nothing() {
    let fixture = Fixture::empty();
    fs::remove_dir(&fixture.directory).unwrap();
    assert!(fixture.cache.put(&KEY, b"code").is_err());
    assert!(!fixture.is_found());
}

#[test]
fn a_missing_directory_is_made_for_this_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("a/b");
    Cache::open(&directory, &Engine::default()).unwrap();
    let mode = fs::metadata(&directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_directory_that_others_can_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o750)).unwrap();
    let error = Cache::open(folder.path(), &Engine::default()).unwrap_err();
    assert!(error.to_string().contains("chmod 0700"), "{error}");
}

#[test]
fn a_symbolic_link_in_place_of_the_directory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path(), &link).unwrap();
    assert!(Cache::open(&link, &Engine::default()).is_err());
}

#[test]
fn only_claimed_code_stays() {
    let fixture = Fixture::filled();
    let code = fixture.engine.precompile_component(COMPONENT).unwrap();
    fixture.cache.put(&[8; 32], &code).unwrap();
    // Files of another engine, code without a pointer, and files that are not the cache's.
    let digest = hex::encode(KEY);
    for name in [
        format!("{digest}-0000000000000000"),
        format!("{digest}-0000000000000000.{digest}.cwasm"),
        format!("{}-{}.{digest}.cwasm", digest, fixture.cache.compatibility),
        "somebody-elses".to_owned(),
    ] {
        fs::write(fixture.directory.join(name), "left").unwrap();
    }
    assert_eq!(fixture.files().len(), 8);
    let claimed = HashSet::from([KEY, [9; 32]]);
    assert_eq!(fixture.cache.retain(&claimed).unwrap(), 0, "all are recent");
    fixture.age();
    assert_eq!(fixture.cache.retain(&claimed).unwrap(), 5);
    assert!(fixture.is_found());
    assert!(fixture.cache.get(&fixture.engine, &[8; 32]).is_none());
    assert!(fixture.directory.join("somebody-elses").is_file());
    assert_eq!(fixture.cache.retain(&HashSet::new()).unwrap(), 2);
    assert!(!fixture.is_found());
}
