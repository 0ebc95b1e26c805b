//! Root file systems of Debian packages, by mmdebstrap.
//!
//! They have the machine's own release, so that programs that are built here find the C library that they were linked against. apt verifies the
//! signature of every package.

use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::tools::hexadecimal;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of packages that nothing reads.
const LEFT_OUT: [&str; 4] = [
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
];

/// The lists of a machine's package sources: a file, and a directory of files.
const SOURCES: &str = "/etc/apt/sources.list";
const SOURCES_DIRECTORY: &str = "/etc/apt/sources.list.d";

/// A root file system.
#[derive(Debug)]
pub(crate) struct RootFilesystem<'a> {
    /// `tar` or `directory`.
    pub(crate) format: &'a str,
    /// The packages that are always there, by mmdebstrap's name for them.
    pub(crate) variant: &'a str,
    /// Further packages; what they recommend is left out.
    pub(crate) packages: &'a [&'a str],
    /// Lines for a shell that run at the end, with the root file system as `$1`.
    pub(crate) hooks: &'a [&'a str],
}

impl RootFilesystem<'_> {
    /// A part of a file name: another one if any input is another.
    pub(crate) fn digest(&self) -> Result<String, Failure> {
        let mut digest = Sha256::new();
        let names = [self.format, self.variant];
        let names = names.iter().chain(self.packages).chain(self.hooks);
        for name in names.chain(&LEFT_OUT) {
            digest.update(name);
            digest.update([0]);
        }
        for source in sources() {
            digest.update(files::read(&source)?);
        }
        Ok(hexadecimal(&digest.finalize()))
    }

    /// Downloads and unpacks the packages.
    pub(crate) fn make(&self, path: &Path) -> Result<(), Failure> {
        let mut command = Command::new("mmdebstrap");
        command
            // Files have the times of their packages, or this one.
            .env("SOURCE_DATE_EPOCH", "0")
            .arg("--quiet")
            .args(["--format", self.format, "--variant", self.variant])
            .arg(format!("--include={}", self.packages.join(",")));
        for pattern in LEFT_OUT {
            command.arg(format!("--dpkgopt=path-exclude={pattern}"));
        }
        for hook in self.hooks {
            command.arg(format!("--customize-hook={hook}"));
        }
        // No suite: the source lists name it.
        command.arg("").arg(path).args(sources());
        command::read(&mut command).map(drop)
    }
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
    use std::fs;

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

    #[test]
    fn another_package_gives_another_digest() {
        let digest = |packages: &[&str]| {
            let root = RootFilesystem {
                format: "tar",
                variant: "minbase",
                packages,
                hooks: &[],
            };
            root.digest().unwrap()
        };
        assert_eq!(digest(&["mount"]), digest(&["mount"]));
        assert_ne!(digest(&["mount"]), digest(&["mount", "kmod"]));
    }
}
