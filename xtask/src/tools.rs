//! The pinned tools that tests drive. Each is built from a Go module of its own under `tests/go`, whose go.sum covers all of its sources, into a
//! file that is named by a digest of that module: a file that is there is the right one, and needs neither Go nor a network.

use crate::command;
use crate::failure::Failure;
use crate::workspace::Workspace;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the modules lie in the checkout.
const MODULES: &str = "tests/go";

/// `go` line of the modules: below that, Go refuses them, or fetches another Go.
const GO_VERSION: (u32, u32) = (1, 25);

/// Bytes of a digest that stand in a file name: enough that two states of a module never share one.
const DIGEST_BYTES: usize = 8;

/// Its package, of both versions.
const CSI_SANITY_PACKAGE: &str = "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity";

/// A program of a Go module.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    /// How its file is called, before the version.
    pub name: &'static str,
    /// The version of what it is about.
    pub version: &'static str,
    /// The folder of its module.
    module: &'static str,
    /// The manifest in there, which pins that version.
    manifest: &'static str,
    /// What is built.
    package: &'static str,
}

/// csi-sanity of the last version that is about CSI 1.12 alone.
pub const CSI_SANITY_5_4: Tool = Tool {
    name: "csi-sanity",
    version: "5.4.0",
    module: "csi-sanity-v5.4",
    manifest: "go.mod",
    package: CSI_SANITY_PACKAGE,
};

/// csi-sanity of the first version that knows CSI 1.13.
pub const CSI_SANITY_5_6: Tool = Tool {
    name: "csi-sanity",
    version: "5.6.0",
    module: "csi-sanity-v5.6",
    manifest: "go.mod",
    package: CSI_SANITY_PACKAGE,
};

/// The wire form as the specification's own Go module has it.
pub const WIRE_1_12: Tool = Tool {
    name: "wire",
    version: "1.12.0",
    module: "wire",
    manifest: "go.mod",
    package: ".",
};

/// The same for CSI 1.13.
pub const WIRE_1_13: Tool = Tool {
    name: "wire",
    version: "1.13.0",
    module: "wire",
    manifest: "go-1.13.mod",
    package: ".",
};

/// All of them; the first is the one that a person tries by hand.
pub const ALL: [Tool; 4] = [CSI_SANITY_5_4, CSI_SANITY_5_6, WIRE_1_12, WIRE_1_13];

impl Tool {
    /// The path of its program; builds it first if need be (csi-sanity takes about a minute of CPU from cold).
    pub fn build(&self, workspace: &Workspace) -> Result<PathBuf, Failure> {
        let module = workspace.root().join(MODULES).join(self.module);
        let directory = workspace.tools();
        let name = format!("{}-{}-{}", self.name, self.version, digest(&module)?);
        let tool = directory.join(&name);
        if tool.is_file() {
            return Ok(tool);
        }
        check_go(GO_VERSION, "csi-sanity and its like are built with it")?;
        fs::create_dir_all(&directory)
            .map_err(Failure::io(format!("create {}", directory.display())))?;
        // Under another name first: two test programs may build it at the same time, and a build may be interrupted.
        let unfinished = directory.join(format!("{name}.{}", std::process::id()));
        command::run(
            Command::new("go")
                .current_dir(&module)
                .env("CGO_ENABLED", "0")
                .args(["build", "-trimpath", "-modfile", self.manifest, "-o"])
                .arg(&unfinished)
                .arg(self.package),
        )?;
        fs::rename(&unfinished, &tool)
            .map_err(Failure::io(format!("rename {}", unfinished.display())))?;
        Ok(tool)
    }
}

/// Of the names and contents of a module's files.
fn digest(module: &Path) -> Result<String, Failure> {
    let failed = || Failure::io(format!("read {}", module.display()));
    let entries = fs::read_dir(module).map_err(failed())?;
    let mut files = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed())?;
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        let content = fs::read(&file).map_err(Failure::io(format!("read {}", file.display())))?;
        let name = file.file_name().unwrap_or_default();
        // Lengths first, so that no name or content can pass for another's end.
        for part in [name.as_encoded_bytes(), &content] {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
    }
    let mut text = String::new();
    for byte in digest.finalize().iter().take(DIGEST_BYTES) {
        // Never fails: a string takes all.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
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
    fn every_module_pins_the_version_that_its_tool_is_called_by() {
        let workspace = Workspace::locate().unwrap();
        for tool in ALL {
            let module = workspace.root().join(MODULES).join(tool.module);
            let manifest = fs::read_to_string(module.join(tool.manifest)).unwrap();
            let repository = match tool.name {
                "wire" => "github.com/container-storage-interface/spec",
                _ => "github.com/kubernetes-csi/csi-test/v5",
            };
            let pinned = format!("\t{repository} v{}", tool.version);
            assert!(manifest.contains(&pinned), "{tool:?}: {manifest}");
        }
    }

    #[test]
    fn a_module_has_another_digest_once_anything_in_it_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| {
            fs::write(folder.path().join(name), content).unwrap();
            digest(folder.path()).unwrap()
        };
        let first = write("go.mod", "a");
        assert_eq!(digest(folder.path()).unwrap(), first);
        assert_eq!(first.len(), 2 * DIGEST_BYTES);
        assert_ne!(write("go.mod", "b"), first);
        assert_eq!(write("go.mod", "a"), first);
        assert_ne!(write("main.go", ""), first);
    }
}
