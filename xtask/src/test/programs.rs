//! The test programs of a workspace: built by cargo, and found in its messages.

use crate::command;
use crate::failure::Failure;
use serde::Deserialize;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// Its package and target, as `wasmount-core/lib` or `wasmount-tests/cluster`.
    pub(super) name: String,
    /// The file to run.
    pub(super) file: PathBuf,
    /// The directory of its package: cargo runs test programs there.
    pub(super) directory: PathBuf,
}

/// The fields of a message of `cargo --message-format json` that are used here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds the test programs of a workspace; `cargo` is its `cargo test`.
pub(super) fn build(mut cargo: Command) -> Result<Vec<Program>, Failure> {
    cargo
        .args(["--workspace", "--no-run"])
        .args(["--message-format", "json-render-diagnostics"]);
    let mut child = cargo
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|source| command::start_failure(&cargo, source))?;
    let mut programs = Vec::new();
    for line in child
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines())
    {
        let line = line.map_err(Failure::io("read the messages of cargo"))?;
        programs.extend(program(&line));
    }
    let status = child.wait().map_err(Failure::io("wait for cargo"))?;
    if status.success() {
        return Ok(programs);
    }
    Err(Failure::Command {
        command: command::describe(&cargo),
        status,
        words: String::new(),
    })
}

/// The test program that a message describes.
fn program(line: &str) -> Option<Program> {
    // Lines that are not messages are output of build scripts.
    let message: Message = serde_json::from_str(line).ok()?;
    if message.reason != "compiler-artifact" || !message.profile?.test {
        return None;
    }
    let directory = message.manifest_path?.parent()?.to_owned();
    let package = directory.file_name().and_then(|name| name.to_str())?;
    let target = message.target?;
    let target = match target.kind.first().map(String::as_str) {
        Some("test") => target.name,
        Some(kind) => kind.to_owned(),
        None => return None,
    };
    Some(Program {
        name: format!("{package}/{target}"),
        file: message.executable?,
        directory,
    })
}

impl Program {
    /// Whether it has its own `main`, with fewer flags than Rust's test runner.
    pub(super) fn has_own_main(&self) -> bool {
        self.name == "tests/cluster"
    }

    /// The command as cargo runs it: in the directory of its package. A program that `yields` to others runs at a lower priority.
    pub(super) fn command(&self, yields: bool) -> Command {
        let mut command = match yields {
            true => Command::new("nice"),
            false => Command::new(&self.file),
        };
        if yields {
            command.arg(&self.file);
        }
        command
            .current_dir(&self.directory)
            .env("CARGO_MANIFEST_DIR", &self.directory);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_program_is_found_in_a_message() {
        let message = r#"{"reason":"compiler-artifact","package_id":"x","manifest_path":"/w/tests/Cargo.toml",
            "target":{"kind":["test"],"crate_types":["bin"],"name":"swaps"},"profile":{"opt_level":"0","test":true},
            "features":[],"filenames":["/t/swaps-1"],"executable":"/t/swaps-1","fresh":true}"#;
        let expected = Program {
            name: "tests/swaps".to_owned(),
            file: PathBuf::from("/t/swaps-1"),
            directory: PathBuf::from("/w/tests"),
        };
        assert_eq!(program(&message.replace('\n', "")), Some(expected));
        let library = message.replace(r#""kind":["test"]"#, r#""kind":["lib"]"#);
        assert_eq!(program(&library).unwrap().name, "tests/lib");
    }

    #[test]
    fn other_messages_hold_no_test_program() {
        let artifact = r#"{"reason":"compiler-artifact","manifest_path":"/w/core/Cargo.toml","target":{"kind":["lib"],"name":"core"},
            "profile":{"test":false},"executable":null}"#;
        for message in [
            artifact,
            r#"{"reason":"build-finished","success":true}"#,
            "warning: text",
        ] {
            assert_eq!(program(message), None, "{message}");
        }
    }
}
