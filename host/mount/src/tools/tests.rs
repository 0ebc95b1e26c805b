//! Real programs, well-behaved and not.

use super::*;

fn call(program: &'static str, arguments: &[&str]) -> ToolCall {
    ToolCall {
        program,
        root: None,
        arguments: arguments.iter().map(OsString::from).collect(),
        object: "an object".to_owned(),
        deadline: Duration::from_secs(20),
    }
}

/// Runs a shell script as a tool. The product code runs no shell.
fn shell(script: &str) -> ToolCall {
    call("sh", &["-c", script])
}

#[test]
fn what_a_program_says_and_how_it_ends_comes_back() {
    let output = shell("echo out; echo err >&2; exit 3").run().unwrap();
    assert_eq!(
        (output.status, &*output.stdout, &*output.stderr),
        (3, &b"out\n"[..], "err\n")
    );
}

#[test]
fn a_program_gets_no_input_and_nothing_of_our_environment() {
    let output = call("env", &[]).run().unwrap();
    let mut lines: Vec<_> = std::str::from_utf8(&output.stdout)
        .unwrap()
        .lines()
        .collect();
    lines.sort_unstable();
    let path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    assert_eq!(lines, ["DM_DISABLE_UDEV=1", "LC_ALL=C", path]);
    assert_eq!(call("cat", &[]).run().unwrap().stdout, b"");
}

#[test]
fn a_program_is_started_by_its_name() {
    let output = call("cat", &["/proc/self/cmdline"]).run().unwrap();
    assert_eq!(output.stdout, b"cat\0/proc/self/cmdline\0");
}

#[test]
fn a_program_reads_its_input_to_the_end_or_not_at_all() {
    let input = b"correct horse\n";
    let read = call("cat", &[]).run_with_input(input).unwrap();
    assert_eq!(read.stdout, input);
    let ignored = call("false", &[]).run_with_input(input).unwrap();
    assert_eq!(ignored.status, 1);
}

#[test]
fn a_chatterer_neither_blocks_nor_fills_memory() {
    let output = shell("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2")
        .run()
        .unwrap();
    assert_eq!(
        [output.stdout.len() as u64, output.stderr.len() as u64],
        [KEPT_BYTES, KEPT_BYTES]
    );
}

#[test]
fn a_program_over_its_deadline_is_killed_with_children() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let script = format!("sleep 60 & echo $! $$ > {}; wait", file.display());
    let tool = ToolCall {
        deadline: Duration::from_secs(1),
        ..shell(&script)
    };
    let before = Instant::now();
    let error = tool.run().unwrap_err();
    assert!(matches!(error, MountError::Hung { .. }), "{error}");
    assert!(before.elapsed() < Duration::from_secs(10));
    let pids = std::fs::read_to_string(&file).unwrap();
    let (sleeper, shell) = pids.trim().split_once(' ').unwrap();
    assert!(!std::path::Path::new("/proc").join(shell).exists());
    // The kernel kills it and init reaps it with some delay.
    let stat = || std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
    let is_dead = |stat: &str| stat.is_empty() || stat.contains(") Z ");
    while !is_dead(&stat()) {
        assert!(before.elapsed() < Duration::from_secs(10), "{}", stat());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_a_program_leaves_behind_does_not_keep_the_call() {
    let before = Instant::now();
    let output = shell("sleep 60 & echo done").run().unwrap();
    assert_eq!((output.status, &*output.stdout), (0, &b"done\n"[..]));
    assert!(before.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_program_that_is_killed_is_an_error_and_says_so() {
    let error = shell("echo begun >&2; kill -9 $$").run().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`sh` failed on an object: it was killed by signal 9; it said: begun"
    );
}

#[test]
fn a_program_that_is_missing_is_named_with_its_package() {
    let tool = call("mkfs.btrfs", &[]);
    assert!(tool.missing().contains("`btrfs-progs`"));
    let error = call("no-such-program", &[]).run().unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("`no-such-program` failed on an object: it is not installed"),
        "{error}"
    );
}

#[test]
fn many_run_at_a_time_and_a_slow_one_delays_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let end = directory.path().join("end");
    let script = format!("until [ -e {} ]; do sleep 0.01; done", end.display());
    thread::scope(|scope| {
        let slow = scope.spawn(|| shell(&script).run());
        for _ in 0..20 {
            call("true", &[]).run().unwrap();
        }
        assert!(!slow.is_finished());
        std::fs::write(end, "").unwrap();
        assert_eq!(slow.join().unwrap().unwrap().status, 0);
    });
}

#[test]
fn an_error_repeats_the_end_of_an_output_escaped() {
    let output = ToolOutput {
        status: 1,
        stdout: b"not this".to_vec(),
        stderr: format!("{}\x1b[31mlast", "x".repeat(5000)),
    };
    let words = output.excerpt();
    assert!(
        words.ends_with("\\u{1b}[31mlast") && words.len() < 450,
        "{words}"
    );
}
