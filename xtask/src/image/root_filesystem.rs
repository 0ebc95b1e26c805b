//! The base layer of Wasmount's image: the distribution's packages with the tools of file systems.
//!
//! It uses the machine's own release, so that the program finds the C library that it was linked against.

use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::say;
use crate::tools::hexadecimal;
use crate::workspace::Workspace;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages of the programs that the host and its mounter run (host/mount/src/tools.rs says which program is in which), and of the linked libraries.
pub const PACKAGES: [&str; 6] = [
    "btrfs-progs",
    "e2fsprogs",
    "libgcc-s1",
    "mount",
    "util-linux",
    "xfsprogs",
];

/// Files of packages that are of no use in a container.
const LEFT_OUT: [&str; 4] = [
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
];

/// The lists of a machine's package sources: a file, and a directory of files.
const SOURCES: &str = "/etc/apt/sources.list";
const SOURCES_DIRECTORY: &str = "/etc/apt/sources.list.d";

/// The tar archive of the root file system; created first if it is missing.
pub fn build(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let sources = sources();
    let path = path(workspace, &sources)?;
    if path.is_file() {
        return Ok(path);
    }
    say::line("building the root file system of the image by mmdebstrap (minutes, once)");
    let mut command = Command::new("mmdebstrap");
    command
        // Files have the times of their packages, or this one.
        .env("SOURCE_DATE_EPOCH", "0")
        .args(["--quiet", "--format=tar", "--variant=essential"])
        .arg(format!("--include={}", PACKAGES.join(",")));
    for pattern in LEFT_OUT {
        command.arg(format!("--dpkgopt=path-exclude={pattern}"));
    }
    // No suite: the source lists name it.
    command.arg("");
    files::complete(&path, |unfinished| {
        command::read(command.arg(unfinished).args(&sources)).map(drop)
    })?;
    Ok(path)
}

/// Makes the next build create it again.
pub fn forget(workspace: &Workspace) -> Result<(), Failure> {
    let path = path(workspace, &sources())?;
    match fs::remove_file(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Failure::cannot(format!("remove {}", path.display()))),
    }
}

/// The path of the archive, named by its inputs.
fn path(workspace: &Workspace, sources: &[PathBuf]) -> Result<PathBuf, Failure> {
    let mut digest = Sha256::new();
    for name in PACKAGES.iter().chain(&LEFT_OUT) {
        digest.update(name);
        digest.update([0]);
    }
    for source in sources {
        digest.update(files::read(source)?);
    }
    let name = format!("root-{}.tar", hexadecimal(&digest.finalize()));
    Ok(workspace.images().join(name))
}

fn sources() -> Vec<PathBuf> {
    let mut all = files::entries(Path::new(SOURCES_DIRECTORY)).unwrap_or_default();
    all.push(PathBuf::from(SOURCES));
    all.retain(|it| is_list(it));
    all.sort();
    all
}

/// Whether apt reads it as a source list (sources.list(5)).
fn is_list(path: &Path) -> bool {
    let known = path
        .extension()
        .is_some_and(|it| it == "list" || it == "sources");
    known && path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_apt_reads_is_a_list_of_sources() {
        let directory = tempfile::tempdir().unwrap();
        let table = [
            ("a.list", true),
            ("b.sources", true),
            ("c.list.save", false),
            ("d", false),
        ];
        for (name, expected) in table {
            let path = directory.path().join(name);
            assert!(!is_list(&path), "{name} is not there");
            fs::write(&path, "").unwrap();
            assert_eq!(is_list(&path), expected, "{name}");
        }
    }
}
