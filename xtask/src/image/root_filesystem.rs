//! The base layer of Wasmount's image: the distribution's packages with the tools of file systems.

use crate::bootstrap::RootFilesystem;
use crate::failure::Failure;
use crate::files;
use crate::platform::Architecture;
use crate::say;
use crate::workspace::Workspace;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Packages of the programs that the host and its mounter run (host/mount/src/tools.rs says which program is in which), and of the linked libraries.
pub const PACKAGES: [&str; 8] = [
    "btrfs-progs",
    "cryptsetup-bin",
    "dmsetup",
    "e2fsprogs",
    "libgcc-s1",
    "mount",
    "util-linux",
    "xfsprogs",
];

const ROOT: RootFilesystem<'_> = RootFilesystem {
    name: "the root file system of the image",
    format: "tar",
    suite: None,
    variant: "essential",
    architecture: None,
    packages: &PACKAGES,
    hooks: &[],
    expected: include_str!("packages.txt"),
};

/// Packages of each image that mmdebstrap's variant for another processor does not have by itself: the directories, and a shell's tools.
const BASE: [&str; 2] = ["base-files", "coreutils"];

/// The tar archive of the root file system; created first if it is missing.
pub fn build(workspace: &Workspace, architecture: Architecture) -> Result<PathBuf, Failure> {
    if architecture == Architecture::of_this_machine()? {
        return build_from(workspace, &ROOT);
    }
    let packages = [&PACKAGES[..], &BASE].concat();
    let root = RootFilesystem {
        // Nothing of it runs here, so packages are unpacked and not configured.
        variant: "extract",
        architecture: Some(architecture.name()),
        packages: &packages,
        ..ROOT
    };
    build_from(workspace, &root)
}

fn build_from(workspace: &Workspace, root: &RootFilesystem<'_>) -> Result<PathBuf, Failure> {
    let path = path(workspace, root)?;
    if path.is_file() {
        return Ok(path);
    }
    say::line("building the root file system of the image by mmdebstrap (minutes, once)");
    files::complete(&path, |unfinished| root.make(unfinished, &path))?;
    Ok(path)
}

/// Makes the next build for this machine create it again.
pub fn forget(workspace: &Workspace) -> Result<(), Failure> {
    let path = path(workspace, &ROOT)?;
    match fs::remove_file(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Failure::cannot(format!("remove {}", path.display()))),
    }
}

/// The path of the archive, named by its inputs.
fn path(workspace: &Workspace, root: &RootFilesystem<'_>) -> Result<PathBuf, Failure> {
    let name = format!("root-{}.tar", root.digest()?);
    Ok(workspace.images().join(name))
}
