//! `cargo xtask vm` as a user starts it: output and exit code come through, and nothing is left, whatever ends it.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may end where it fails"
)]

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The program of the project's commands.
const XTASK: &str = env!("CARGO_BIN_EXE_xtask");

/// Timeout of the end of a VM that was signalled.
const END: Duration = Duration::from_secs(60);

/// Between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The command, with its temporary directories below this one.
fn vm(directory: &Path, command: &[&str]) -> Command {
    assert!(
        rustix::process::geteuid().is_root(),
        "root is missing: a VM needs it; leave this test out with `cargo xtask test --fast`"
    );
    let mut vm = Command::new(XTASK);
    vm.args(["vm", "--"]).args(command).env("TMPDIR", directory);
    vm.stdin(Stdio::null());
    vm
}

/// A VM whose command runs, for long, and what it prints from then on.
fn running(directory: &Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut vm = vm(directory, &["echo running; exec sleep 1000"]);
    let mut child = vm.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The first run of all builds the VMs' system before.
    assert!(lines.any(|line| line.unwrap() == "running"));
    (child, lines)
}

/// The command lines of all processes that name the directory.
fn processes(directory: &Path) -> Vec<String> {
    files(directory).map(|(_, line)| line).collect()
}

/// Their directories below `/proc`, with their command lines.
fn files(directory: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    let name = directory.display().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines =
        entries.filter_map(|it| Some((it.path(), fs::read(it.path().join("cmdline")).ok()?)));
    let lines = lines.map(|(path, line)| (path, String::from_utf8_lossy(&line).replace('\0', " ")));
    lines.filter(move |(_, line)| line.contains(&name))
}

/// The processors that each of these processes may run on (proc_pid_status(5)).
fn processors(directory: &Path) -> BTreeSet<String> {
    let statuses =
        files(directory).filter_map(|(path, _)| fs::read_to_string(path.join("status")).ok());
    let allowed = |status: String| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.unwrap().trim().to_owned()
    };
    statuses.map(allowed).collect()
}

fn wait_until_no_process_is_left(directory: &Path) {
    let start = Instant::now();
    while !processes(directory).is_empty() {
        assert!(start.elapsed() < END, "{:#?}", processes(directory));
        thread::sleep(POLL_INTERVAL);
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn privileged_a_vm_has_another_kernel_and_the_same_files() {
    let directory = tempfile::tempdir().unwrap();
    let here = std::env::current_dir().unwrap();
    let line = "uname -r; pwd; ls Cargo.toml; touch Cargo.toml || exit 7";
    let output = vm(directory.path(), &[line]).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let own = rustix::system::uname().release().to_owned();
    assert!(!printed.contains(own.to_str().unwrap()), "{printed}");
    let expected = format!("\n{}\nCargo.toml\n", here.display());
    assert!(printed.contains(&expected), "{printed}");
    assert!(printed.contains("Read-only file system"), "{printed}");
    assert!(is_empty(directory.path()));
}

#[test]
fn privileged_a_dead_kernel_is_a_failure_with_its_last_words() {
    let directory = tempfile::tempdir().unwrap();
    let line = "echo 1 >/proc/sys/kernel/sysrq; echo c >/proc/sysrq-trigger; sleep 1000";
    let output = vm(directory.path(), &[line]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("ended before the command did"), "{said}");
    assert!(said.contains("sysrq triggered crash"), "{said}");
    assert!(is_empty(directory.path()));
}

#[test]
fn privileged_an_ended_vm_leaves_nothing_but_its_stacks() {
    for (signal, has_stacks) in [(Signal::INT, false), (Signal::TERM, true)] {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, lines) = running(directory.path());
        assert!(processes(directory.path()).len() > 1);
        let [one] = Vec::from_iter(processors(directory.path()))
            .try_into()
            .unwrap();
        assert!(
            one.parse::<u32>().is_ok(),
            "a VM may run on the processors {one}"
        );
        kill_process(Pid::from_child(&child), signal).unwrap();
        // Where `sleep 1000` waits in the kernel.
        let stacks = lines.filter(|line| line.as_ref().unwrap().contains("nanosleep+"));
        assert_eq!(stacks.count() > 0, has_stacks);
        assert_eq!(child.wait().unwrap().code(), Some(1));
        wait_until_no_process_is_left(directory.path());
        assert!(is_empty(directory.path()));
    }
}

#[test]
fn privileged_a_killed_vm_leaves_no_process() {
    let directory = tempfile::tempdir().unwrap();
    let (mut child, _) = running(directory.path());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_no_process_is_left(directory.path());
    // A later VM removes the directory.
    assert!(!is_empty(directory.path()));
    let output = vm(directory.path(), &["true"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(is_empty(directory.path()));
}
