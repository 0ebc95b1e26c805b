//! Root file systems of Debian packages, by mmdebstrap.
//!
//! They have the machine's own release, so that programs that are built here find the C library that they were linked against, unless they need
//! another one. apt verifies the signature of every package. Their versions are recorded beside the root file system, and compared with a list in the
//! repository.

use crate::command;
use crate::failure::Failure;
use crate::files;
use crate::say;
use crate::tools::hexadecimal;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
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

/// Where packages of another release than the machine's are.
const MIRROR: &str = "http://deb.debian.org/debian";

/// What dpkg knows about installed packages, inside a root file system.
const STATUS: &str = "/var/lib/dpkg/status";

/// The end of the name of the list of a root file system's packages, after its own.
const LIST: &str = "packages";

/// A root file system.
#[derive(Debug)]
pub(crate) struct RootFilesystem<'a> {
    /// What it is for, in messages.
    pub(crate) name: &'a str,
    /// `tar` or `directory`.
    pub(crate) format: &'a str,
    /// Another release than the machine's own: its code name.
    pub(crate) suite: Option<&'a str>,
    /// The packages that are always there, by mmdebstrap's name for them.
    pub(crate) variant: &'a str,
    /// Another processor than this machine's, by Debian's name. Its packages are unpacked only (variant `extract`), so no list of them is made.
    pub(crate) architecture: Option<&'a str>,
    /// Further packages; what they recommend is left out.
    pub(crate) packages: &'a [&'a str],
    /// Lines for a shell that run at the end, with the root file system as `$1`.
    pub(crate) hooks: &'a [&'a str],
    /// All its packages with the versions that the tests ran with, a line each.
    pub(crate) expected: &'a str,
}

impl RootFilesystem<'_> {
    /// A part of a file name: another one if any input is another.
    pub(crate) fn digest(&self) -> Result<String, Failure> {
        let mut digest = Sha256::new();
        let names = [self.format, self.variant, self.expected];
        let names = names.iter().chain(self.packages).chain(self.hooks);
        let names = names.chain(&self.suite).chain(&self.architecture);
        for name in names.chain(&LEFT_OUT) {
            digest.update(name);
            digest.update([0]);
        }
        for source in sources().iter().filter(|_| self.suite.is_none()) {
            digest.update(files::read(source)?);
        }
        Ok(hexadecimal(&digest.finalize()))
    }

    /// Downloads and unpacks the packages. `path` becomes `name` when it is complete; beside that, a file lists the packages.
    pub(crate) fn make(&self, path: &Path, name: &Path) -> Result<(), Failure> {
        let list = name.with_added_extension(LIST);
        let status =
            tempfile::NamedTempFile::new().map_err(Failure::cannot("create a temporary file"))?;
        // In a mount namespace: what it mounts into the system (/proc, /sys) is gone when it is killed, before anybody removes the unfinished system.
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--", "mmdebstrap"])
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
        match self.architecture {
            Some(architecture) => command.args(["--architectures", architecture]),
            None => {
                let copied = status.path().display();
                command.arg(format!("--customize-hook=download {STATUS} '{copied}'"))
            }
        };
        match self.suite {
            Some(suite) => command.arg(suite).arg(path).arg(MIRROR),
            // The source lists name it.
            None => command.arg("").arg(path).args(sources()),
        };
        command::read(&mut command)?;
        if self.architecture.is_some() {
            return Ok(());
        }
        let found = versions(&files::read_text(status.path())?);
        files::write(&list, found.as_bytes())?;
        if let Some(difference) = difference(self.expected, &found) {
            say::line(&format!(
                "{} {difference}; {} lists all",
                self.name,
                list.display()
            ));
        }
        Ok(())
    }
}

/// The packages of a dpkg status file (deb-control(5)), a line each with the version, in order.
fn versions(status: &str) -> String {
    let field = |paragraph: &str, name: &str| {
        let mut lines = paragraph.lines();
        lines.find_map(|line| line.strip_prefix(name).map(str::to_owned))
    };
    let lines: BTreeSet<_> = status
        .split("\n\n")
        .filter_map(|paragraph| {
            let package = field(paragraph, "Package: ")?;
            let version = field(paragraph, "Version: ")?;
            Some(format!("{package} {version}\n"))
        })
        .collect();
    lines.into_iter().collect()
}

/// How many packages are not those that were expected, and the first of them.
fn difference(expected: &str, found: &str) -> Option<String> {
    let expected: BTreeSet<_> = expected.lines().collect();
    let other: Vec<_> = found
        .lines()
        .filter(|line| !expected.contains(line))
        .collect();
    let first = other.first()?;
    Some(format!(
        "has {} packages that are not those of the last recorded run, such as {first}",
        other.len()
    ))
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
        let digest = |packages: &[&str], expected: &str| {
            let root = RootFilesystem {
                name: "the system",
                format: "tar",
                suite: None,
                variant: "minbase",
                architecture: None,
                packages,
                hooks: &[],
                expected,
            };
            root.digest().unwrap()
        };
        assert_eq!(digest(&["mount"], "a 1"), digest(&["mount"], "a 1"));
        assert_ne!(digest(&["mount"], "a 1"), digest(&["mount", "kmod"], "a 1"));
        assert_ne!(digest(&["mount"], "a 1"), digest(&["mount"], "a 2"));
    }

    #[test]
    fn packages_are_listed_with_their_versions() {
        let status = "Package: b\nVersion: 1:2-3\nDepends: c\n\nPackage: a\nStatus: install ok\nVersion: 1\n";
        assert_eq!(versions(status), "a 1\nb 1:2-3\n");
        assert_eq!(versions(""), "");
    }

    #[test]
    fn another_version_is_told_and_the_same_is_not() {
        let expected = "a 1\nb 2\n";
        assert_eq!(difference(expected, expected), None);
        let told = difference(expected, "a 1\nb 3\nc 1\n").unwrap();
        assert!(
            told.starts_with("has 2 packages") && told.ends_with("such as b 3"),
            "{told}"
        );
        // One that is gone is a consequence of another version.
        assert_eq!(difference(expected, "a 1\n"), None);
    }
}
