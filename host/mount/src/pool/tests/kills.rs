//! A host that is killed at any moment leaves complete trees and images with correct promises, and nothing else. It runs in a separate process, since
//! only a process can be killed.

use super::*;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::Duration;

const KILLS: u64 = 12;
const DIRECTORY: &str = "WASMOUNT_TEST_POOL_DIRECTORY";
const IMAGE_BYTES: u64 = 256 << 10;
/// Content of the images.
const BYTE: u8 = 7;
/// Longest lifetime of a process that is killed, in milliseconds: a few rounds of its work.
const LIFE: u64 = 320;
const PROMISE_BYTES: u64 = 1 << 20;
/// Number of files written into each tree and read from each copy.
const FILES: usize = 8;

#[test]
#[ignore = "the process that the other test kills"]
fn worker() {
    let directory = std::env::var_os(DIRECTORY).expect("started by the other test");
    let pools = pools(Path::new(&directory), true, &Arc::new(Used::default()));
    let done = |call: PoolCall| pools.call(call).unwrap();
    for i in 0..10_000_u64 {
        // Names of an earlier process exist already; with the process id, all names are unique.
        let name = |kind: &str| format!("{kind}-{}-{i}", std::process::id());
        done(create(&name("tree")));
        done(set_quota(&name("tree"), Some(PROMISE_BYTES)));
        for file in 0..FILES {
            let path = Path::new(&directory).join(name("tree"));
            std::fs::write(path.join(file.to_string()), "content").unwrap();
        }
        done(clone_directory(&name("tree"), &name("copy")));
        done(rename(&name("copy"), &name("renamed")));
        done(create_image(&name("image"), IMAGE_BYTES));
        let image = Path::new(&directory).join(name("image"));
        let image = std::fs::File::options().write(true).open(image).unwrap();
        image
            .write_all_at(&[BYTE; IMAGE_BYTES as usize], 0)
            .unwrap();
        done(clone_image(&name("image"), &name("second")));
        if i % 2 == 0 {
            done(remove(&name("renamed")));
            done(remove(&name("tree")));
            done(remove_image(&name("image")));
        }
    }
}

#[test]
fn a_killed_host_leaves_whole_things_and_true_promises() {
    let mut fixture = Fixture::with(true);
    let mut seen = 0;
    for kill in 0..KILLS {
        let used: Arc<dyn InUse> = Arc::<Used>::clone(&fixture.used);
        let path = fixture.path("");
        // The lock is released when the pool is dropped.
        drop(std::mem::replace(
            &mut fixture.pools,
            Arc::new(opened_for(&BTreeMap::new(), used, &path)),
        ));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["pool::tests::kills::worker", "--exact", "--ignored"])
            .env(DIRECTORY, fixture.path(""))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let life = RandomState::new().hash_one(kill) % LIFE;
        println!("killed after {life} ms");
        std::thread::sleep(Duration::from_millis(life));
        child.kill().unwrap();
        child.wait().unwrap();
        fixture.pools = pools(&fixture.path(""), true, &fixture.used);
        fixture.wait_until_clear();
        seen = check(&fixture);
    }
    assert!(seen > 0, "every kill came too early");
}

/// Compares the content with the promises. Returns the number of trees and images.
fn check(fixture: &Fixture) -> usize {
    let mut trees = 0;
    let mut images = 0;
    for entry in std::fs::read_dir(fixture.path("")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        match name.split('-').next().unwrap() {
            "tree" => trees += 1,
            "image" | "second" => {
                let content = std::fs::read(entry.path()).unwrap();
                assert_eq!(content.len() as u64, IMAGE_BYTES, "{name}");
                let is_whole = content.iter().all(|byte| *byte == BYTE);
                assert!(is_whole || name.starts_with("image"), "{name}");
                images += 1;
            }
            "copy" | "renamed" => {
                let count = std::fs::read_dir(entry.path()).unwrap().count();
                assert_eq!(count, FILES, "{name}");
            }
            _ => assert_eq!(name, ".wasmount"),
        }
    }
    // Each killed process may have left one tree without its promise.
    let promised = fixture.promised() - images * IMAGE_BYTES;
    assert_eq!(promised % PROMISE_BYTES, 0);
    let promised_trees = promised / PROMISE_BYTES;
    assert!(promised_trees <= trees && promised_trees + KILLS >= trees);
    usize::try_from(trees + images).unwrap()
}
