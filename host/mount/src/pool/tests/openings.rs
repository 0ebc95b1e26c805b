//! Pools as directories: created, shared by backends but not by hosts, and replaced below a running host.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_pool_is_made_if_its_parent_is_there_and_refused_if_not() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    assert_eq!(fixture.stat("a"), None);
    let mode = std::fs::metadata(fixture.path("")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o7777, 0o700);
    let missing = pools(&fixture.path("none/pool"), false, &fixture.used);
    assert_eq!(kind(missing.call(stat("a"))), "precondition");
}

#[test]
fn two_backends_of_one_host_share_a_pool() {
    let fixture = Fixture::new();
    let other = pools(&fixture.path(""), false, &fixture.used);
    fixture.done(create_image("a", 1 << 20));
    assert_eq!(other.open("data").unwrap().ledger.promised(), 1 << 20);
}

#[test]
fn a_volume_used_by_another_backend_is_not_removed() {
    let fixture = Fixture::with(true);
    fixture.done(create("a"));
    fixture.done(create_image("image", 1 << 20));
    let linked = fixture.directory.path().join("link");
    symlink(fixture.path(""), &linked).unwrap();
    for directory in [fixture.path(""), linked] {
        let used = Arc::new(Used(Mutex::new(vec!["a".to_owned(), "image".to_owned()])));
        // It uses the directory, though it has made no call since the host started.
        let other = pools(&directory, true, &used);
        for call in [
            remove("a"),
            rename("a", "b"),
            remove_image("image"),
            rename("image", "b"),
        ] {
            assert_eq!(kind(fixture.call(call.clone())), "in use", "{call:?}");
        }
        drop(other);
    }
    fixture.done(clone_image("image", "copy"));
    fixture.done(remove("a"));
    fixture.done(remove_image("image"));
}

/// A driver that does not answer until it is released.
struct Mute {
    released: Mutex<std::sync::mpsc::Receiver<()>>,
    questions: AtomicUsize,
}

impl InUse for Mute {
    fn may_use(&self, _: &str, _: &dyn Fn(&str) -> bool) -> bool {
        true
    }

    fn uses(&self, _: &str, _: &dyn Fn(&str) -> bool) -> bool {
        self.questions.fetch_add(1, Ordering::Relaxed);
        let _ = self.released.lock().unwrap().recv();
        false
    }
}

#[test]
fn a_silent_backend_keeps_its_volumes_from_removal() {
    let fixture = Fixture::with(true);
    fixture.done(create("a"));
    let (answer, mute) = std::sync::mpsc::channel();
    let grant = PoolGrant {
        storage: PoolStorage::Directory(fixture.path("")),
        full_copies: false,
        mount_options: Vec::new(),
    };
    let grants = BTreeMap::from([("data".to_owned(), grant)]);
    let mute = Arc::new(Mute {
        released: Mutex::new(mute),
        questions: AtomicUsize::new(0),
    });
    let other = opened_for(&grants, mute.clone(), &fixture.path(""));
    // While a driver is silent whose directory was never opened, removals in all pools of its device wait, also those of other tests.
    other.open("data").unwrap();
    let refused = fixture.call(remove("a"));
    let words = refused.clone().unwrap_err().to_string();
    assert!(words.contains("is unknown"), "{words}");
    assert_eq!(kind(refused), "hung");
    assert_eq!(kind(fixture.call(rename("a", "b"))), "hung");
    assert_eq!(mute.questions.load(Ordering::Relaxed), 1);
    let asked = std::time::Instant::now();
    drop(answer);
    // The answer needs a moment to arrive.
    while fixture.call(remove("a")).is_err() {
        assert!(asked.elapsed() < std::time::Duration::from_secs(20));
        std::thread::yield_now();
    }
}

#[test]
fn a_replaced_pool_is_refused_until_it_is_back() {
    let fixture = Fixture::new();
    fixture.done(create("a"));
    let aside = fixture.directory.path().join("aside");
    std::fs::rename(fixture.path(""), &aside).unwrap();
    assert_eq!(kind(fixture.call(create("b"))), "unusable");
    std::fs::create_dir(fixture.path("")).unwrap();
    for call in calls_on("b") {
        assert_eq!(kind(fixture.call(call.clone())), "unusable", "{call:?}");
    }
    assert_eq!(std::fs::read_dir(fixture.path("")).unwrap().count(), 0);
    std::fs::remove_dir(fixture.path("")).unwrap();
    std::fs::rename(&aside, fixture.path("")).unwrap();
    fixture.done(create("b"));
}

#[test]
fn a_pool_that_is_a_link_of_the_administrators_works() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.directory.path().join("real")).unwrap();
    symlink("real", fixture.directory.path().join("pool")).unwrap();
    fixture.done(create("a"));
    assert!(fixture.directory.path().join("real/a").is_dir());
}

#[test]
fn a_pool_of_another_host_is_refused_until_that_lets_go() {
    use rustix::fs::FlockOperation;
    let fixture = Fixture::new();
    std::fs::create_dir_all(fixture.path(".wasmount")).unwrap();
    let folder = std::fs::File::open(fixture.path(".wasmount")).unwrap();
    rustix::fs::flock(&folder, FlockOperation::LockExclusive).unwrap();
    assert_eq!(kind(fixture.call(create("a"))), "in use");
    drop(folder);
    fixture.done(create("a"));
}
