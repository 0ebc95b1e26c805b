//! The test programs of a workspace: built by cargo, and found in its messages.

use crate::command;
use crate::failure::Failure;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
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

/// Builds the test programs of a workspace; `cargo` is its `cargo test`.
pub(super) fn build(mut cargo: Command) -> Result<Vec<Program>, Failure> {
    cargo
        .args(["--workspace", "--no-run"])
        .args(["--message-format", "json-render-diagnostics"]);
    let mut child = cargo
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(command::cannot_start(&cargo))?;
    let mut programs = Vec::new();
    let messages = child.stdout.take().into_iter();
    for line in messages.flat_map(|out| BufReader::new(out).lines()) {
        let line = line.map_err(Failure::cannot("read the messages of cargo"))?;
        programs.extend(program(&line));
    }
    let status = child.wait().map_err(Failure::cannot("wait for cargo"))?;
    if status.success() {
        return Ok(programs);
    }
    Err(command::failed(&cargo, status, ""))
}

/// The test program that a message describes.
fn program(line: &str) -> Option<Program> {
    // Lines that are not messages are output of build scripts.
    let message: Value = serde_json::from_str(line).ok()?;
    let text = |pointer| message.pointer(pointer)?.as_str();
    if text("/reason")? != "compiler-artifact" || *message.pointer("/profile/test")? != true {
        return None;
    }
    let directory = Path::new(text("/manifest_path")?).parent()?;
    let package = directory.file_name()?.to_str()?;
    let target = match text("/target/kind/0")? {
        "test" => text("/target/name")?,
        kind => kind,
    };
    Some(Program {
        name: format!("{package}/{target}"),
        file: text("/executable")?.into(),
        directory: directory.to_owned(),
    })
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
