//! The pinned tools that tests drive. Each is built from a Go module of its own under `tests/go`, whose go.sum covers all of its sources,
//! into a file that is named by its version: a file that is there is the right one.

use crate::command;
use crate::failure::Failure;
use crate::workspace::Workspace;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The version that `tests/go/csi-sanity-v5.4/go.mod` pins.
pub const CSI_SANITY_VERSION: &str = "5.4.0";

/// `go` line of the module: below that, Go refuses it, or fetches another Go.
const GO_VERSION: (u32, u32) = (1, 24);

/// The path of csi-sanity; builds it first if need be (about a minute of CPU from cold).
pub fn csi_sanity(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let directory = workspace.tools();
    let tool = directory.join(format!("csi-sanity-{CSI_SANITY_VERSION}"));
    if tool.is_file() {
        return Ok(tool);
    }
    check_go(GO_VERSION, "csi-sanity is built with it")?;
    fs::create_dir_all(&directory)
        .map_err(Failure::io(format!("create {}", directory.display())))?;
    // Under another name first: two test programs may build it at the same time, and a build may be interrupted.
    let unfinished = directory.join(format!(
        "csi-sanity-{CSI_SANITY_VERSION}.{}",
        std::process::id()
    ));
    command::run(
        Command::new("go")
            .current_dir(workspace.root().join("tests/go/csi-sanity-v5.4"))
            .env("CGO_ENABLED", "0")
            .args(["build", "-trimpath", "-o"])
            .arg(&unfinished)
            .arg("github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity"),
    )?;
    fs::rename(&unfinished, &tool)
        .map_err(Failure::io(format!("rename {}", unfinished.display())))?;
    Ok(tool)
}

/// Refuses when Go is missing or older than this; `why` it is needed.
pub fn check_go(wanted: (u32, u32), why: &str) -> Result<(), Failure> {
    let (major, minor) = wanted;
    let said = command::read(Command::new("go").args(["env", "GOVERSION"])).ok();
    match said.as_deref().and_then(version) {
        Some(version) if version >= wanted => Ok(()),
        _ => Err(Failure::Missing {
            what: format!("Go {major}.{minor} or later"),
            next: format!(
                "{why}; install it from https://go.dev/dl, or leave it out with `cargo xtask test --fast`"
            ),
        }),
    }
}

/// `go1.26.8` is (1, 26).
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().strip_prefix("go")?.split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor: String = numbers
        .next()?
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    Some((major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_that_go_prints_are_read() {
        let table = [
            ("go1.26.8\n", Some((1, 26))),
            ("go1.24", Some((1, 24))),
            ("go1.25rc1", Some((1, 25))),
            ("devel", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(version(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_module_pins_the_version_that_names_the_file() {
        let manifest = Workspace::locate()
            .unwrap()
            .root()
            .join("tests/go/csi-sanity-v5.4/go.mod");
        let pinned = format!("github.com/kubernetes-csi/csi-test/v5 v{CSI_SANITY_VERSION}");
        assert!(fs::read_to_string(manifest).unwrap().contains(&pinned));
    }
}
