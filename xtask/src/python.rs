//! The pinned Python packages that tests use. They are installed from PyPI by their digests into a directory of their own, which is named by
//! those digests and by the version of Python.

use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::tools::digest;
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use wasmount_core::mutex::lock;

/// Tests of a program run at once: one of them installs, the others wait.
static INSTALLING: Mutex<()> = Mutex::new(());

/// The directory of databases among the packages.
const PREPARED: &str = "prepared";

/// The gRPC client on the C core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CCore {
    /// For `PYTHONPATH`.
    pub packages: PathBuf,
    /// Calls methods at an address.
    pub program: PathBuf,
}

/// Cinder, Keystone and Nova.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenStack {
    /// For `PYTHONPATH`.
    pub packages: PathBuf,
    /// The programs that serve them, and their configuration.
    pub folder: PathBuf,
    /// Their databases and keys, to be copied.
    pub prepared: PathBuf,
}

/// Returns that client; installs it first if necessary.
pub fn c_core(workspace: &Workspace) -> Result<CCore, Failure> {
    let folder = workspace.root().join("tests/python/c-core");
    Ok(CCore {
        packages: pinned(workspace, &folder)?,
        program: folder.join("call.py"),
    })
}

/// Returns Cinder, Keystone and Nova; installs them and creates their databases first if necessary: about a minute and 450 MB.
pub fn openstack(workspace: &Workspace) -> Result<OpenStack, Failure> {
    let folder = workspace.root().join("tests/python/openstack");
    let prepare = |packages: &Path| {
        let prepared = packages.join(PREPARED);
        files::create_directory(&prepared)?;
        command::read(
            Command::new("python3")
                .arg(folder.join("prepare.py"))
                .args([packages, &prepared])
                .env("PYTHONPATH", packages),
        )
        .map(drop)
    };
    let packages = environment(workspace, &folder, prepare)?;
    Ok(OpenStack {
        prepared: packages.join(PREPARED),
        packages,
        folder,
    })
}

/// The directory with the packages that a folder pins.
pub fn pinned(workspace: &Workspace, folder: &Path) -> Result<PathBuf, Failure> {
    environment(workspace, folder, |_| Ok(()))
}

/// The directory with the packages that a folder pins, which is named as they are; `finish` adds what is made of them.
fn environment(
    workspace: &Workspace,
    folder: &Path,
    finish: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<PathBuf, Failure> {
    let missing = |_| {
        Failure::missing(
            "Python 3.11 or later with pip",
            "`apt-get install python3 python3-pip`, or the like of your distribution",
        )
    };
    let tag = "import sys; print(sys.implementation.cache_tag, end='')";
    let tag = command::read(Command::new("python3").args(["-c", tag])).map_err(missing)?;
    let name = folder.file_name().unwrap_or_default().display();
    let packages = format!("{name}-{tag}-{}", digest(folder, "")?);
    let packages = workspace.tools().join(packages);
    let _installing = lock(&INSTALLING);
    if !packages.is_dir() {
        files::complete(&packages, |unfinished| {
            command::run(
                Command::new("python3")
                    .args(["-m", "pip", "install", "--quiet", "--no-cache-dir"])
                    .args(["--root-user-action", "ignore", "--no-deps"])
                    .args(["--require-hashes", "--only-binary", ":all:", "--target"])
                    .arg(unfinished)
                    .arg("--requirement")
                    .arg(folder.join("requirements.txt")),
            )
            .map_err(missing)?;
            finish(unfinished)
        })?;
    }
    Ok(packages)
}
