//! The pinned Python packages that tests use. They are installed from PyPI by their digests into a directory of their own, which is named by
//! those digests and by the version of Python.

use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::tools::digest;
use crate::workspace::Workspace;
use std::path::PathBuf;
use std::process::Command;

/// The directory of their pins, and of the program that uses them.
const C_CORE: &str = "tests/python/c-core";

/// The gRPC client on the C core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CCore {
    /// For `PYTHONPATH`.
    pub packages: PathBuf,
    /// Calls methods at an address.
    pub program: PathBuf,
}

/// Returns that client; installs it first if necessary.
pub fn c_core(workspace: &Workspace) -> Result<CCore, Failure> {
    let folder = workspace.root().join(C_CORE);
    let missing = |_| {
        Failure::missing(
            "Python 3.11 or later with pip",
            "`apt-get install python3 python3-pip`, or the like of your distribution",
        )
    };
    let tag = "import sys; print(sys.implementation.cache_tag, end='')";
    let tag = command::read(Command::new("python3").args(["-c", tag])).map_err(missing)?;
    let name = format!("c-core-{tag}-{}", digest(&folder, "")?);
    let packages = workspace.tools().join(name);
    if !packages.is_dir() {
        files::complete(&packages, |unfinished| {
            command::run(
                Command::new("python3")
                    .args(["-m", "pip", "install", "--quiet", "--no-cache-dir"])
                    .args(["--root-user-action", "ignore"])
                    .args(["--require-hashes", "--only-binary", ":all:", "--target"])
                    .arg(unfinished)
                    .arg("--requirement")
                    .arg(folder.join("requirements.txt")),
            )
            .map_err(missing)
        })?;
    }
    Ok(CCore {
        packages,
        program: folder.join("call.py"),
    })
}
