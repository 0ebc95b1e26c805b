//! Tests of the parent's side, with system programs as children: how they end is reported, and none is left behind.

use super::*;
use crate::Bounds;
use std::fs;
use std::time::{Duration, Instant};

/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(60);

fn bounds() -> Bounds {
    Bounds {
        memory_bytes: 1 << 30,
        cpu: LONG,
        wall: LONG,
        output_bytes: 1 << 20,
        network: false,
        readable: Vec::new(),
    }
}

fn task(subcommand: &'static str, arguments: &[&str]) -> Task {
    Task {
        subcommand,
        arguments: arguments.iter().map(Into::into).collect(),
        bounds: bounds(),
    }
}

/// Runs lines of a shell, in place of a misbehaving child.
async fn lines(lines: &str) -> Result<Vec<u8>, ChildError> {
    run_program(Path::new("/bin/sh"), &task("-c", &[lines]), Vec::new()).await
}

#[tokio::test]
async fn what_goes_in_comes_out() {
    // More than a pipe's buffer.
    let input = vec![7; 700_000];
    let task = task("-", &[]);
    let answer = run_program(Path::new("/bin/cat"), &task, input.clone()).await;
    assert_eq!(answer.unwrap(), input);
}

#[tokio::test]
async fn a_missing_program_is_reported() {
    let task = task("-", &[]);
    let answer = run_program(Path::new("/nowhere/program"), &task, Vec::new()).await;
    assert!(
        matches!(answer, Err(ChildError::Start { .. })),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_refusal_has_the_message_of_the_child() {
    let answer = lines("echo wasmount: not today >&2; exit 1").await;
    assert!(
        matches!(&answer, Err(ChildError::Refused { message }) if message == "not today"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_child_that_hears_nothing_is_judged_by_its_end() {
    let task = task("-c", &["exit 0"]);
    let answer = run_program(Path::new("/bin/sh"), &task, vec![0; 1 << 20]).await;
    assert_eq!(answer.unwrap(), b"");
}

#[tokio::test]
async fn only_the_last_lines_are_kept() {
    let answer =
        lines("i=0; while [ $i -lt 3000 ]; do echo $i >&2; i=$((i+1)); done; exit 1").await;
    match answer {
        Err(ChildError::Refused { message }) => {
            assert!(
                message.ends_with("2999") && message.len() <= MESSAGE_BYTES,
                "{message}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_child_that_says_too_much_is_stopped() {
    let task = task(
        "-c",
        &["while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"],
    );
    let start = Instant::now();
    let answer = run_program(Path::new("/bin/sh"), &task, Vec::new()).await;
    assert!(
        matches!(answer, Err(ChildError::TooMuch { limit_bytes }) if limit_bytes == 1 << 20),
        "{answer:?}"
    );
    assert!(start.elapsed() < LONG);
}

#[tokio::test]
async fn an_answer_of_just_the_limit_is_taken() {
    let mut task = task("-", &[]);
    task.bounds.output_bytes = 5;
    let cat = Path::new("/bin/cat");
    let answer = run_program(cat, &task, b"12345".to_vec()).await;
    assert_eq!(answer.unwrap(), b"12345");
    let answer = run_program(cat, &task, b"123456".to_vec()).await;
    assert!(
        matches!(answer, Err(ChildError::TooMuch { .. })),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_child_that_hangs_is_killed_with_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ids");
    let script = format!("sleep 61 & echo $! $$ > {}; wait", file.display());
    let mut task = task("-c", &[&script]);
    task.bounds.wall = Duration::from_secs(1);
    let answer = run_program(Path::new("/bin/sh"), &task, Vec::new()).await;
    assert!(
        matches!(answer, Err(ChildError::Time { limit_seconds: 1 })),
        "{answer:?}"
    );
    all_go(&fs::read_to_string(file).unwrap());
}

#[tokio::test]
async fn a_child_is_killed_and_reaped_when_its_future_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ids");
    let script = format!("echo $$ > {}; sleep 61", file.display());
    let task = task("-c", &[&script]);
    {
        let running = run_program(Path::new("/bin/sh"), &task, Vec::new());
        let written = async {
            while fs::read_to_string(&file)
                .unwrap_or_default()
                .trim()
                .is_empty()
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            answer = running => panic!("{answer:?}"),
            () = written => {}
        }
    }
    let id = fs::read_to_string(file).unwrap();
    let process = Path::new("/proc").join(id.trim());
    let start = Instant::now();
    // It is reaped, too.
    while process.exists() {
        assert!(start.elapsed() < LONG, "{id} is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_child_killed_from_outside_is_reported() {
    let answer = lines("kill -9 $$").await;
    assert!(matches!(answer, Err(ChildError::Killed)), "{answer:?}");
    let answer = lines("kill -XCPU $$").await;
    assert!(matches!(answer, Err(ChildError::Cpu { .. })), "{answer:?}");
    let answer = lines("kill -SEGV $$").await;
    assert!(
        matches!(answer, Err(ChildError::Crashed { .. })),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_child_has_three_descriptors_and_nothing_of_our_environment() {
    // Not close-on-exec: a descriptor that a careless parent of the host could leak to it.
    let careless = fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&careless, rustix::io::FdFlags::empty()).unwrap();
    // The shell reads the directory by a descriptor of its own, which `ls` does not have.
    let answer = lines("exec /bin/ls /proc/self/fd").await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    // The last descriptor is the directory that `ls` reads.
    assert_eq!(
        answer.split_whitespace().collect::<Vec<_>>(),
        ["0", "1", "2", "3"]
    );
    let names = lines("exec /usr/bin/env").await.unwrap();
    let names = String::from_utf8(names).unwrap();
    let own = ["PWD", "SHLVL", "_", "OLDPWD"];
    let mut names: Vec<_> = names
        .lines()
        .filter_map(|line| line.split('=').next())
        .filter(|name| !own.contains(name))
        .collect();
    names.sort_unstable();
    let mut expected = THREAD_VARIABLES;
    expected.sort_unstable();
    assert_eq!(names, expected);
}

/// Waits until every process with these ids has ended.
fn all_go(ids: &str) {
    let ids: Vec<&str> = ids.split_whitespace().collect();
    assert!(!ids.is_empty());
    let start = Instant::now();
    for id in ids {
        while is_alive(id) {
            assert!(start.elapsed() < LONG, "{id} is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A zombie counts as ended: its parent may be slow to reap it.
fn is_alive(id: &str) -> bool {
    fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}
