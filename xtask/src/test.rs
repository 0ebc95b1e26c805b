//! `cargo xtask test`: all set-up, then every check and test of both workspaces, in the order in which a mistake is cheapest to hear of.
//! It stops at the first step that fails, but runs all tests of a step. The last line holds the totals alone, for whoever runs this.

mod totals;

use crate::command;
use crate::failure::Failure;
use crate::image::root_filesystem;
use crate::packages;
use crate::plugins;
use crate::python;
use crate::say::{Console, Tone};
use crate::toolchain;
use crate::tools;
use crate::workspace::Workspace;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;
use totals::Totals;

/// What the names of tests hold that need root (csi-sanity's are among them), and of those that need only Go.
const NEED_ROOT_OR_GO: [&str; 4] = [
    "privileged_",
    "official_go_module",
    "official_cosign",
    "real_api_server",
];

/// Warnings are errors; what is left to taste is not.
const STRICT: [&str; 3] = ["--", "-D", "warnings"];

/// Options of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub struct TestOptions {
    /// Leaves out what needs Go or root
    #[arg(long)]
    fast: bool,
    /// For the test programs, such as a part of a name; only tests run then
    #[arg(last = true)]
    filter: Vec<String>,
}

/// One run.
struct Run<'a> {
    workspace: &'a Workspace,
    console: &'a Console,
    options: &'a TestOptions,
    totals: Totals,
}

/// Runs all of it; false if anything failed, which was said.
pub fn run(workspace: &Workspace, console: &Console, options: &TestOptions) -> bool {
    let mut run = Run {
        workspace,
        console,
        options,
        totals: Totals::default(),
    };
    let outcome = run.all();
    if let Err(failure) = &outcome {
        console.failure(failure);
    }
    console.line(&run.totals.to_string());
    outcome.is_ok()
}

impl Run<'_> {
    fn all(&mut self) -> Result<(), Failure> {
        let whole = self.options.filter.is_empty();
        if whole {
            toolchain::components(self.console)?;
        }
        if whole {
            self.step("format", Self::format)?;
        }
        self.step("set-up", Self::set_up)?;
        if whole {
            self.step("clippy", Self::clippy)?;
        }
        self.step("tests", Self::tests)?;
        if whole {
            self.step("documentation", Self::documentation)?;
        }
        Ok(())
    }

    fn step(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.console.heading(&format!("── {name}"));
        let start = Instant::now();
        let outcome = work(self);
        let time = format!("   {name}: {:.1} s", start.elapsed().as_secs_f64());
        self.console.line(&self.console.paint(Tone::Quiet, &time));
        outcome
    }

    fn format(&mut self) -> Result<(), Failure> {
        let check = ["fmt", "--all", "--check"];
        command::run(self.workspace.plain_cargo().args(check))?;
        let manifest = self.workspace.plugins_manifest();
        command::run(
            self.workspace
                .plain_cargo()
                .args(check)
                .arg("--manifest-path")
                .arg(manifest),
        )
    }

    fn set_up(&mut self) -> Result<(), Failure> {
        packages::install(packages::DEMO, self.console)?;
        if !self.options.fast {
            packages::install(packages::TEST, self.console)?;
            packages::install(packages::CLUSTER, self.console)?;
            packages::install(packages::IMAGE, self.console)?;
            root_filesystem::build(self.workspace, self.console)?;
            for tool in tools::ALL.into_iter().chain(tools::CLUSTER) {
                tool.build(self.workspace)?;
            }
            python::c_core(self.workspace)?;
        }
        // The host is built with the tests: built by itself, half of it would be built twice, since test tools change features.
        plugins::build(self.workspace, self.console)
    }

    fn clippy(&mut self) -> Result<(), Failure> {
        let mut host = self.workspace.cargo("clippy");
        command::run(host.args(["--workspace", "--all-targets"]).args(STRICT))?;
        let mut guests = self.workspace.plugins_cargo("clippy");
        command::run(guests.args(["--workspace", "--all-targets"]).args(STRICT))
    }

    fn tests(&mut self) -> Result<(), Failure> {
        let host = self.workspace.cargo("test");
        let guests = self.workspace.plugins_cargo("test");
        // Both run whatever the first says: the totals are those of all tests.
        let host = self.count(host);
        let guests = self.count(guests);
        host.and(guests)
    }

    fn documentation(&mut self) -> Result<(), Failure> {
        let mut cargo = self.workspace.cargo("doc");
        cargo.args(["--workspace", "--no-deps"]);
        command::run(cargo.env("RUSTDOCFLAGS", "-D warnings"))
    }

    /// Runs a `cargo test`, shows its lines and adds up their results.
    fn count(&mut self, mut cargo: Command) -> Result<(), Failure> {
        cargo.args(["--workspace", "--no-fail-fast", "--"]);
        if self.options.fast {
            cargo.args(NEED_ROOT_OR_GO.iter().flat_map(|name| ["--skip", name]));
        }
        cargo.args(&self.options.filter);
        let mut child = cargo
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|source| command::start_failure(&cargo, source))?;
        let lines = child
            .stdout
            .take()
            .map(|out| BufReader::new(out).split(b'\n'));
        for line in lines.into_iter().flatten() {
            let line = line.map_err(Failure::io("read what the tests say"))?;
            // A test may print what is not text.
            let line = String::from_utf8_lossy(&line);
            self.totals.add(&line);
            self.console.line(&line);
        }
        let status = child.wait().map_err(Failure::io("wait for the tests"))?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::Command {
            command: command::describe(&cargo),
            status,
            words: String::new(),
        })
    }
}
