//! Real programs: what they get, what they do not inherit, and how long they live.

use super::*;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{WaitStatus, kill_process_group};
use std::fs::File;
use std::io::{PipeReader, Read, Write, pipe};
use std::thread;

/// The signals 32 and 33, which glibc keeps for itself (nptl(7)): what this process inherited of them stays.
const OF_GLIBC: u64 = 0b11 << 31;

/// A program that reads `input`, and a pipe with its output.
fn program(paths: &[&str], arguments: &[&str], input: &str) -> (Program, PipeReader) {
    let (input_reader, mut input_writer) = pipe().unwrap();
    input_writer.write_all(input.as_bytes()).unwrap();
    let (reader, writer) = pipe().unwrap();
    let program = Program {
        paths: paths.iter().map(PathBuf::from).collect(),
        arguments: arguments.iter().map(OsString::from).collect(),
        environment: vec!["A=b c".into()],
        streams: [
            input_reader.into(),
            writer.try_clone().unwrap().into(),
            writer.into(),
        ],
    };
    (program, reader)
}

fn end(started: &Started) -> WaitStatus {
    let ended = waitpid(Some(started.id), WaitOptions::empty());
    ended.unwrap().unwrap().1
}

/// Runs a program to its end, and returns what it printed.
fn printed(arguments: &[&str]) -> String {
    let arguments = [&["env"][..], arguments].concat();
    let paths = ["/nowhere/env", "/usr/bin/env"];
    let (program, mut reader) = program(&paths, &arguments, "in");
    let started = start(program).unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(end(&started).exit_status(), Some(0), "{text}");
    text
}

#[test]
fn a_program_gets_arguments_environment_and_streams() {
    assert_eq!(printed(&[]), "A=b c\n");
    let script = "read line; echo $line $1; echo err >&2";
    assert_eq!(printed(&["sh", "-c", script, "sh", "x"]), "in x\nerr\n");
    assert_eq!(printed(&["pwd"]), "/\n");
}

#[test]
fn a_program_inherits_neither_descriptors_nor_signals() {
    // Rust ignores SIGPIPE, and a test's process has handlers.
    let careless = File::open("/dev/null").unwrap();
    fcntl_setfd(&careless, FdFlags::empty()).unwrap();
    // The fourth descriptor is the directory that `ls` reads.
    assert_eq!(printed(&["ls", "/proc/self/fd"]), "0\n1\n2\n3\n");
    let status = printed(&["cat", "/proc/self/status"]);
    for name in ["SigBlk:", "SigIgn:", "SigCgt:"] {
        let mask = status.lines().find_map(|line| line.strip_prefix(name));
        let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
        assert_eq!(mask & !OF_GLIBC, 0, "{name} {mask:x}");
    }
}

#[test]
fn a_program_that_cannot_run_is_an_error() {
    for (paths, expected) in [
        (&["/nowhere/program"][..], Errno::NOENT),
        (&["/", "/usr/bin/env"], Errno::ACCESS),
        (&["/usr/bin/\0env"], Errno::INVAL),
        (&[], Errno::NOENT),
    ] {
        let (program, _reader) = program(paths, &[], "");
        assert_eq!(start(program).unwrap_err(), expected, "{paths:?}");
    }
}

#[test]
fn a_program_has_a_process_group_of_its_own() {
    let (program, _reader) = program(&["/usr/bin/sleep"], &["sleep", "60"], "");
    let started = start(program).unwrap();
    kill_process_group(started.id, Signal::TERM).unwrap();
    let signal = end(&started).terminating_signal();
    assert_eq!(signal, Some(Signal::TERM.as_raw()));
}

#[test]
fn a_program_is_killed_when_the_thread_that_started_it_ends() {
    let (program, _reader) = program(&["/usr/bin/sleep"], &["sleep", "60"], "");
    let started = thread::spawn(|| start(program)).join().unwrap().unwrap();
    let signal = end(&started).terminating_signal();
    assert_eq!(signal, Some(Signal::KILL.as_raw()));
}

#[test]
fn signals_of_the_parent_are_as_before() {
    let blocked = || {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("SigBlk:"));
        line.unwrap().to_owned()
    };
    let before = blocked();
    printed(&["true"]);
    assert_eq!(blocked(), before);
}

#[test]
fn a_child_without_its_parent_does_not_run() {
    assert_eq!(still_child_of(getppid().unwrap()), Ok(()));
    assert_eq!(still_child_of(getpid()), Err(Errno::SRCH));
}
