//! Runs test programs concurrently: most tests wait for other processes, so more programs run than there are processors.

use super::programs::Program;
use super::totals::Totals;
use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::process::Process;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{io, thread};
use wasmount_core::mutex::lock;

/// Clock ticks per second in `/proc/PID/stat`: `USER_HZ`, which is 100 on every Linux (proc_pid_stat(5)).
const TICKS_PER_SECOND: f64 = 100.0;

/// Lets a test program report the time of each test; cargo must not see the variable (see `Workspace::plain_cargo`).
pub(super) const ALLOW_UNSTABLE: (&str, &str) = ("RUSTC_BOOTSTRAP", "1");

/// Set for tests with full-length loops: `wasmount_tests::rounds` reads it.
pub(super) const THOROUGH: &str = "WASMOUNT_TEST_THOROUGH";

/// The longest programs, which start first so that none is left over at the end.
const LONGEST: [&str; 10] = [
    "tests/cluster",
    "tests/cluster_up",
    "tests/volumes",
    "vm/mount/attached",
    "vm/tests/volumes",
    "vm/mount/mounts",
    "tests/api_server",
    "tests/host",
    "mount/lib",
    "mount/mounts",
];

/// Programs that run their tests one after another on a complete cluster, and so take longest whatever runs beside them. All others yield to them.
const PRIORITY: [&str; 2] = ["tests/cluster", "tests/cluster_up"];

/// The cluster's test program has its own `main`, with fewer flags than Rust's test runner.
pub(super) const OWN_MAIN: &str = "tests/cluster";

/// A program with tests that use all processors, or compare memory over time: it runs after all others.
const ALONE: &str = "tests/load";

/// Time limit of a program, for coreutils' timeout(1): three times what the longest takes. One that hangs is killed, and its output shows the test.
const TIME_LIMIT: &str = "30m";
/// The same where loops have their full length.
const THOROUGH_TIME_LIMIT: &str = "3h";
/// How long a program may take to end after SIGTERM.
const GRACE_PERIOD: &str = "--kill-after=1m";
/// The exit codes of `timeout` when it has ended a program: by SIGTERM, and by SIGKILL.
const TIMED_OUT: [i32; 2] = [124, 137];

/// Concurrent tests of a program. Whole-system tests wait for other processes most of the time; with 4 of them in 3 programs, two processors run none
/// of them for hundreds of milliseconds.
const TESTS_AT_ONCE: usize = 3;

/// A job: a test program, or the examples in the documentation of the host's workspace.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) command: Command,
    /// Whether it accepts the arguments of test programs.
    pub(super) has_tests: bool,
}

/// The result of one job.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) name: String,
    pub(super) passed: bool,
    pub(super) output: String,
    pub(super) totals: Totals,
    pub(super) elapsed: Duration,
    /// CPU time of the program and of all children that it waited for.
    pub(super) cpu: Duration,
}

/// Settings of all jobs.
#[derive(Debug)]
pub(super) struct Settings<'a> {
    /// Arguments of every program: filters.
    pub(super) arguments: &'a [OsString],
    /// The directory with the output of each.
    pub(super) logs: &'a Path,
    /// Whether loops run at full length.
    pub(super) thorough: bool,
}

/// Runs jobs in order, several concurrently, and reports each when it has ended.
pub(super) fn run(
    jobs: Vec<Job>,
    lanes: usize,
    settings: &Settings<'_>,
    report: impl FnMut(Report) + Send,
) -> Result<(), Failure> {
    files::create_directory(settings.logs)?;
    let jobs = Mutex::new(VecDeque::from(jobs));
    let report = Mutex::new(report);
    let next = || lock(&jobs).pop_front();
    thread::scope(|scope| {
        let lane = || {
            while let Some(job) = next() {
                let ended = job.run(settings)?;
                (lock(&report))(ended);
            }
            Ok(())
        };
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| match lane.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

impl From<Program> for Job {
    /// As cargo runs it: in the directory of its package. Most programs have a lower priority than the longest ones.
    fn from(program: Program) -> Self {
        let mut command = Command::new("nice");
        if PRIORITY.contains(&program.name.as_str()) {
            command.args(["-n", "0"]);
        }
        command
            .arg(&program.file)
            .current_dir(&program.directory)
            .env("CARGO_MANIFEST_DIR", &program.directory)
            .env("RUST_TEST_THREADS", TESTS_AT_ONCE.to_string());
        if program.name != OWN_MAIN {
            command
                .args(["-Z", "unstable-options", "--report-time"])
                .env(ALLOW_UNSTABLE.0, ALLOW_UNSTABLE.1);
        }
        Self {
            name: program.name,
            command,
            has_tests: true,
        }
    }
}

impl Job {
    /// Whether it must not run beside others.
    pub(super) fn runs_alone(&self) -> bool {
        self.name == ALONE
    }

    /// Its rank in the order of starts.
    pub(super) fn rank(&self) -> usize {
        let longest = LONGEST.iter().position(|it| *it == self.name);
        longest.unwrap_or(LONGEST.len())
    }

    fn run(mut self, settings: &Settings<'_>) -> Result<Report, Failure> {
        if self.has_tests {
            self.command.args(settings.arguments);
        }
        if settings.thorough {
            self.command.env(THOROUGH, "1");
        }
        let mut command = within(settings.time_limit(), &self.command);
        let name = self.name;
        // A file instead of a pipe: a process that a test leaves running would hold a pipe open.
        let log = settings
            .logs
            .join(format!("{}.log", name.replace('/', "-")));
        let failed = || Failure::cannot(format!("write {}", log.display()));
        let out = File::create(&log).map_err(failed())?;
        let err = out.try_clone().map_err(failed())?;
        let start = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .map_err(command::cannot_start(&command))?;
        let cpu = cpu_at_end(&child).map_err(Failure::cannot(format!("wait for {name}")))?;
        let status = child
            .wait()
            .map_err(Failure::cannot(format!("wait for {name}")))?;
        let elapsed = start.elapsed();
        // A test may print bytes that are not UTF-8.
        let mut output = files::read_text(&log)?;
        if status.code().is_some_and(|code| TIMED_OUT.contains(&code)) {
            let limit = settings.time_limit();
            output.push_str(&format!("{name} was killed; its time limit is {limit}\n"));
        }
        let mut totals = Totals::default();
        output.lines().for_each(|line| totals.add(line));
        if !status.success() {
            totals.failed_at_least_one();
        }
        Ok(Report {
            name,
            passed: status.success(),
            output,
            totals,
            elapsed,
            cpu,
        })
    }
}

impl Settings<'_> {
    fn time_limit(&self) -> &'static str {
        match self.thorough {
            true => THOROUGH_TIME_LIMIT,
            false => TIME_LIMIT,
        }
    }
}

/// The same command, which is ended after a time, and with the thread that started it. Ctrl-C reaches it as before.
fn within(limit: &str, program: &Command) -> Command {
    let mut command = Process::command();
    command.args(["timeout", "--foreground", GRACE_PERIOD, limit]);
    command.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(directory) = program.get_current_dir() {
        command.current_dir(directory);
    }
    command
}

/// Waits until it has ended, and reads its CPU time before the process is reaped.
fn cpu_at_end(child: &Child) -> io::Result<Duration> {
    let pid = Pid::from_child(child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options))?;
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
    Ok(cpu(&stat).unwrap_or_default())
}

/// utime, stime, cutime and cstime: fields 14 to 17 of proc_pid_stat(5). The second, a name, may contain anything, so they are counted from its end.
fn cpu(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks = rest.split_whitespace().skip(11).take(4);
    let ticks = ticks.map(str::parse::<u32>).sum::<Result<u32, _>>().ok()?;
    Some(Duration::from_secs_f64(f64::from(ticks) / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::Signal;
    use std::collections::BTreeSet;
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;

    fn program(name: &str, script: &str, directory: &Path) -> Job {
        use std::os::unix::fs::PermissionsExt;
        let file = directory.join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        Job::from(Program {
            name: format!("x/{name}"),
            file,
            directory: directory.to_owned(),
        })
    }

    fn reports(jobs: Vec<Job>, lanes: usize, directory: &Path) -> Vec<Report> {
        let settings = Settings {
            arguments: &[],
            logs: &directory.join("logs"),
            thorough: false,
        };
        let mut reports = Vec::new();
        run(jobs, lanes, &settings, |report| reports.push(report)).unwrap();
        reports
    }

    #[test]
    fn programs_run_side_by_side() {
        let directory = tempfile::tempdir().unwrap();
        // Each waits for the file of the other.
        let script = |own, other| format!("touch {own}; until [ -e {other} ]; do sleep 0.01; done");
        let jobs = vec![
            program("a", &script("one", "two"), directory.path()),
            program("b", &script("two", "one"), directory.path()),
        ];
        let ended = reports(jobs, 2, directory.path());
        let names: BTreeSet<_> = ended.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, BTreeSet::from(["x/a", "x/b"]));
        assert!(ended.iter().all(|report| report.passed));
    }

    #[test]
    fn a_failed_program_keeps_its_output() {
        let directory = tempfile::tempdir().unwrap();
        let script =
            "echo 'test result: FAILED. 2 passed; 1 failed; 0 ignored'; echo why >&2; exit 101";
        let ended = reports(
            vec![program("a", script, directory.path())],
            1,
            directory.path(),
        );
        assert!(!ended[0].passed);
        assert!(ended[0].output.ends_with("why\n"));
        assert_eq!(ended[0].totals.to_string(), "2 passed, 1 failed");
    }

    #[test]
    fn a_program_without_results_that_fails_counts_as_one() {
        let directory = tempfile::tempdir().unwrap();
        let ended = reports(
            vec![program("a", "exit 9", directory.path())],
            1,
            directory.path(),
        );
        assert_eq!(ended[0].totals.to_string(), "0 passed, 1 failed");
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_keeps_its_output() {
        let directory = tempfile::tempdir().unwrap();
        let Job { command, .. } = program("a", "echo before; exec sleep 1000", directory.path());
        // A busy machine may need longer than the first limits to start the program.
        let output = ["0.1s", "1s", "10s", "100s"].into_iter().find_map(|limit| {
            let output = within(limit, &command).output().unwrap();
            assert_eq!(output.status.code(), Some(TIMED_OUT[0]), "{limit}");
            (!output.stdout.is_empty()).then_some(output.stdout)
        });
        assert_eq!(output.unwrap(), b"before\n");
    }

    #[test]
    fn a_program_ends_with_the_thread_that_started_it() {
        let directory = tempfile::tempdir().unwrap();
        let Job { command, .. } = program("a", "echo on; exec sleep 1000", directory.path());
        let starter = thread::spawn(move || {
            let mut child = within("1h", &command)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = [0; 3];
            child.stdout.take().unwrap().read_exact(&mut line).unwrap();
            child
        });
        let status = starter.join().unwrap().wait().unwrap();
        assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    }

    #[test]
    fn cpu_time_is_read_behind_any_name() {
        let stat = "7 (a) b (c) Z 1 7 7 0 -1 4 0 0 0 0 150 50 20 30 20 0 1 0";
        assert_eq!(cpu(stat), Some(Duration::from_millis(2_500)));
        assert_eq!(cpu("7 sh Z"), None);
    }
}
