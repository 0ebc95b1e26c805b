//! `cargo xtask test`: all set-up, then every check and test of both workspaces. It stops at the first step that fails, but runs all tests of
//! the step `tests`. The last line has only the totals.

mod failures;
mod other_kernel;
mod programs;
mod schedule;
mod slowest;
mod space;
mod totals;

use crate::command;
use crate::failure::Failure;
use crate::image::root_filesystem;
use crate::packages;
use crate::place;
use crate::platform::Architecture;
use crate::plugins;
use crate::python;
use crate::release;
use crate::say::{self, Tone};
use crate::toolchain;
use crate::tools;
use crate::vm;
use crate::workspace::Workspace;
use failures::{failures, unfinished};
use programs::Program;
use schedule::{Job, Report, Settings};
use slowest::Times;
use std::ffi::OsString;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use totals::Totals;

/// Parts of the names of tests that need root (those of csi-sanity included), Go, or Cinder.
const NEED_ROOT_OR_TOOLS: [&str; 5] = [
    "privileged_",
    "official_go_module",
    "official_cosign",
    "real_api_server",
    "real_cinder",
];

/// Concurrent test programs. Their tests wait for the host, the API server or the disk most of the time.
const LANES: usize = 3;

/// Prefix of the directories of API servers that the tests of a program share.
pub const SHARED_CONTROL_PLANE: &str = "wasmount-control-plane-";

/// Options of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub struct TestOptions {
    /// Leaves out what needs Go, Cinder or root
    #[arg(long)]
    fast: bool,
    /// Runs loops of hundreds whole, not a tenth of them (about an hour)
    #[arg(long)]
    thorough: bool,
    /// For the test programs, such as a part of a name; only tests run then
    #[arg(last = true)]
    filter: Vec<OsString>,
}

/// One run.
struct Run<'a> {
    workspace: &'a Workspace,
    options: &'a TestOptions,
    totals: Totals,
    times: Times,
    failures: Vec<String>,
}

/// Runs all steps; returns false if anything failed, which was printed.
pub fn run(workspace: &Workspace, options: &TestOptions) -> bool {
    let mut run = Run {
        workspace,
        options,
        totals: Totals::default(),
        times: Times::default(),
        failures: Vec::new(),
    };
    let outcome = run.all();
    if let Err(failure) = &outcome {
        say::failure(failure);
    }
    for line in run.times.lines() {
        say::line(&say::paint(Tone::Quiet, &line));
    }
    for failure in &run.failures {
        say::line(&say::paint(Tone::Bad, failure));
    }
    say::line(&run.totals.to_string());
    outcome.is_ok()
}

impl Run<'_> {
    fn all(&mut self) -> Result<(), Failure> {
        let whole = self.options.filter.is_empty();
        if whole {
            toolchain::components()?;
            self.step("format", Self::format)?;
        }
        self.step("packages", Self::packages)?;
        let programs = self.build()?;
        let mut jobs = Vec::new();
        if !self.options.fast {
            let arguments = &self.options.filter;
            let thorough = self.options.thorough;
            jobs = other_kernel::jobs(self.workspace, &programs, arguments, thorough)?;
        }
        jobs.extend(programs.into_iter().map(Job::from));
        jobs.push(examples(self.workspace));
        self.step("tests", |run| run.tests(jobs))
    }

    fn step<T>(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        say::heading(&format!("── {name}"));
        let start = Instant::now();
        let outcome = work(self);
        self.times.step(name, start.elapsed());
        outcome
    }

    fn format(&mut self) -> Result<(), Failure> {
        for manifest in self.workspace.manifests() {
            let mut cargo = self.workspace.plain_cargo();
            cargo.args(["fmt", "--all", "--check", "--manifest-path"]);
            command::run(cargo.arg(manifest))?;
        }
        Ok(())
    }

    fn packages(&mut self) -> Result<(), Failure> {
        packages::install(packages::DEMO)?;
        if !self.options.fast {
            packages::install(packages::TEST)?;
            packages::install(packages::CLUSTER)?;
            packages::install(packages::IMAGE)?;
            packages::install(packages::VM)?;
        }
        Ok(())
    }

    /// Cargo and the builders of tools run side by side: each waits for the network, and links on one processor.
    fn build(&mut self) -> Result<Vec<Program>, Failure> {
        say::heading("── tools, and build with lints");
        let (workspace, fast) = (self.workspace, self.options.fast);
        let (tools, programs) = thread::scope(|scope| {
            let tools = scope.spawn(move || timed(|| build_tools(workspace, fast)));
            let programs = timed(|| build_programs(workspace));
            let tools = tools
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (tools, programs)
        });
        self.times.step("tools", tools.1);
        self.times.step("build with lints", programs.1);
        tools.0.and(programs.0)
    }

    fn tests(&mut self, jobs: Vec<Job>) -> Result<(), Failure> {
        space::check()?;
        let mut arguments = self.options.filter.clone();
        arguments.extend(["--skip", other_kernel::PREFIX].map(Into::into));
        if self.options.fast {
            let skip = NEED_ROOT_OR_TOOLS.iter().flat_map(|name| ["--skip", name]);
            arguments.extend(skip.map(Into::into));
        }
        let settings = Settings {
            arguments: &arguments,
            logs: &self.workspace.test_logs(),
            thorough: self.options.thorough,
        };
        let mut jobs = jobs;
        jobs.sort_by_key(Job::rank);
        let (alone, together) = jobs.into_iter().partition(Job::runs_alone);
        let mut failed = Vec::new();
        let mut report = |report: Report| {
            self.totals.add_all(report.totals);
            self.times.program(&report);
            self.show(&report);
            if !report.passed {
                self.failures.extend(failures(&report.output));
                self.failures.extend(unfinished(&report.output));
                failed.push(report.name);
            }
        };
        schedule::run(together, LANES, &settings, &mut report)?;
        schedule::run(alone, 1, &settings, &mut report)?;
        // Servers that all tests of a program share live as long as its process, and cannot remove their own directory.
        place::sweep(SHARED_CONTROL_PLANE);
        if failed.is_empty() {
            return Ok(());
        }
        Err(Failure::Unexpected(format!(
            "tests failed in {}",
            failed.join(", ")
        )))
    }

    /// Prints a line for a program that passed; its whole output if it failed, or if the caller selected tests.
    fn show(&self, report: &Report) {
        if report.totals.is_empty() && report.passed {
            return;
        }
        if !report.passed || !self.options.filter.is_empty() {
            say::line(report.output.trim_end());
        }
        let tone = if report.passed { Tone::Good } else { Tone::Bad };
        let line = format!("{}: {}", report.name, report.totals);
        let time = format!("   {:.1} s", report.elapsed.as_secs_f64());
        let time = say::paint(Tone::Quiet, &time);
        say::line(&format!("{}{time}", say::paint(tone, &line)));
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    (work(), start.elapsed())
}

/// Builds the inputs that cargo does not build: Go programs, root file systems, Python packages.
fn build_tools(workspace: &Workspace, fast: bool) -> Result<(), Failure> {
    if fast {
        return Ok(());
    }
    for tool in tools::ALL.into_iter().chain(tools::CLUSTER) {
        tool.build(workspace)?;
    }
    release::CYCLONEDX.install(workspace)?;
    root_filesystem::build(workspace, Architecture::of_this_machine()?)?;
    vm::build(workspace)?;
    vm::build_ceph(workspace)?;
    python::c_core(workspace)?;
    python::openstack(workspace)?;
    Ok(())
}

/// Builds the plugins, and the test programs of both workspaces, with the host among them: built separately, half of it would be built twice, since
/// tests change features.
fn build_programs(workspace: &Workspace) -> Result<Vec<Program>, Failure> {
    plugins::build(workspace)?;
    let mut programs = programs::build(linted(workspace, workspace.cargo("test")))?;
    programs.extend(programs::build(linted(
        workspace,
        workspace.plugins_cargo("test"),
    ))?);
    Ok(programs)
}

/// The examples in the documentation of the host's workspace, which cargo builds when it runs them.
fn examples(workspace: &Workspace) -> Job {
    let mut cargo = linted(workspace, workspace.cargo("test"));
    cargo.args(["--workspace", "--doc", "--quiet", "--"]);
    Job {
        name: "examples".to_owned(),
        command: cargo,
        has_tests: true,
    }
}

/// Makes cargo compile the members of a workspace with clippy, which is the compiler with more lints, and check their documentation: `cargo clippy`
/// and `cargo doc` would each need all their dependencies once more, as metadata without code. Warnings are errors.
fn linted(workspace: &Workspace, mut cargo: Command) -> Command {
    let compiler = workspace.root().join("xtask/src/test/compile.sh");
    cargo
        .env("RUSTC_WORKSPACE_WRAPPER", compiler)
        .env("CLIPPY_ARGS", "-Dwarnings");
    cargo
}
