//! A group whose copy fails, or whose host is killed, at each step in turn: in a separate process, under strace.

use super::*;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

const DIRECTORY: &str = "WASMOUNT_TEST_GROUP_DIRECTORY";
const GROUP: [(&str, &str); 3] = [("a", "a2"), ("b", "b2"), ("c", "c2")];
/// No call makes more steps of one kind.
const STEPS: usize = 100;

#[test]
#[ignore = "the process that the other tests hinder"]
fn worker() {
    let directory = std::env::var_os(DIRECTORY).expect("started by the other test");
    let pools = pools(Path::new(&directory), false, &Arc::new(Used::default()));
    let copied = pools.call(clone_images(&GROUP));
    // The same process continues: no later answer may contain half of a group.
    let there = |(_, target): &(&str, &str)| match pools.call(stat(target)) {
        Ok(found) => found != PoolReply::Stat(None),
        Err(_) => false,
    };
    let count = GROUP.iter().filter(|it| there(it)).count();
    if ![0, GROUP.len()].contains(&count) {
        std::process::abort();
    }
    copied.unwrap();
}

/// Copies the group in a process in which strace disturbs the `step`-th system call of a kind. Returns whether it succeeded all the same.
fn hindered(pool: &Path, call: &str, harm: &str, step: &str) -> bool {
    let status = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null"])
        .arg(format!("--inject={call}:{harm}:when={step}"))
        .arg(std::env::current_exe().unwrap())
        .args([
            "pool::tests::moments::steps::worker",
            "--exact",
            "--ignored",
        ])
        .env(DIRECTORY, pool)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("this test needs strace: install it");
    // Half of a group was visible.
    assert_ne!(status.signal(), Some(6), "{call} {harm} {step}");
    status.success()
}

/// Nothing exists, or the whole group as it was before. Then the retry makes it consistent, whatever was left.
fn check(path: &Path, generation: usize, what: &str) {
    let pools = pools(path, false, &Arc::new(Used::default()));
    let old = format!("generation {generation} ");
    let new = format!("generation {} ", generation + 1);
    let there = |target: &str| {
        let stat = pools.call(stat(target)).unwrap();
        stat != PoolReply::Stat(None)
    };
    let count = GROUP.iter().filter(|(_, target)| there(target)).count();
    assert!(
        [0, GROUP.len()].contains(&count),
        "{what}: {count} are there"
    );
    for (source, _) in GROUP {
        rewrite(&path.join(source), &new);
    }
    pools.call(clone_images(&GROUP)).unwrap();
    let expected = if count == 0 { &new } else { &old };
    for (_, target) in GROUP {
        assert!(
            begins_with(&path.join(target), expected),
            "{what}: {target}"
        );
        pools.call(remove_image(target)).unwrap();
    }
    assert_eq!(pools.open("data").unwrap().ledger.promised(), 3 * MIB);
}

fn hinder(harms: &[(&str, &str, &str)]) {
    let (fixture, disk) = on_xfs();
    for (source, _) in GROUP {
        image_of(&fixture, source, "generation 0 ");
    }
    let path = fixture.path("");
    let Fixture {
        directory, pools, ..
    } = fixture;
    // The lock is released when the pool is dropped.
    drop(pools);
    let mut generation = 0;
    for (call, harm, and_on) in harms {
        let mut harmed = 0;
        for step in 1..STEPS {
            let what = format!("{call} {harm} {step}{and_on}");
            let is_done = hindered(&path, call, harm, &format!("{step}{and_on}"));
            check(&path, generation, &what);
            generation += 1;
            if is_done {
                break;
            }
            harmed += 1;
        }
        println!("{call} {harm}{and_on}: {harmed} steps");
        assert!((1..STEPS - 1).contains(&harmed), "{call}: {harmed}");
    }
    drop(directory);
    drop(disk);
}

#[test]
fn privileged_a_killed_host_leaves_no_partial_group() {
    hinder(&[
        ("renameat2", "signal=SIGKILL", ""),
        ("fsync", "signal=SIGKILL", ""),
        ("unlinkat", "signal=SIGKILL", ""),
        ("ioctl", "signal=SIGKILL", ""),
    ]);
}

#[test]
fn privileged_a_step_that_fails_leaves_no_half_of_a_group() {
    hinder(&[
        ("renameat2", "error=EIO", ""),
        ("fsync", "error=EIO", ""),
        ("unlinkat", "error=EIO", ""),
        // From then on all of these calls fail, including those that would undo the group: the next start undoes it.
        ("renameat2", "error=EIO", "+"),
        ("fsync", "error=EIO", "+"),
    ]);
}
