//! The findings of the demo, as an outside observer: the state of the mount table, the data and the data directory after the last call.

use super::journey::Data;
use crate::failure::Failure;
use crate::say::{Console, Tone};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The paths below a directory at one time.
#[derive(Debug)]
pub(super) struct Inventory(BTreeSet<PathBuf>);

/// The results to print.
#[derive(Debug)]
pub(super) struct Findings {
    /// Calls with another result than expected.
    pub(super) failed: Vec<String>,
    /// The result of reading the data back.
    pub(super) data: Data,
    /// The mounts after the last call.
    pub(super) mounts: Vec<PathBuf>,
    /// Files in the data directory, the pool included, that did not exist before the first volume.
    pub(super) new_files: Vec<PathBuf>,
}

impl Inventory {
    /// Lists the directory.
    pub(super) fn of(directory: &Path) -> Result<Self, Failure> {
        let mut paths = BTreeSet::new();
        collect(directory, &mut paths)
            .map_err(Failure::io(format!("list {}", directory.display())))?;
        Ok(Self(paths))
    }

    /// The paths in this inventory and not in an earlier one.
    pub(super) fn beyond(&self, earlier: &Self) -> Vec<PathBuf> {
        self.0.difference(&earlier.0).cloned().collect()
    }
}

impl Findings {
    /// Prints the findings; returns how many are bad.
    pub(super) fn say(&self, console: &Console) -> usize {
        let lines = self.lines();
        console.heading("findings");
        for line in &lines {
            let (tone, mark, text) = match line {
                Ok(text) => (Tone::Good, "ok", text),
                Err(text) => (Tone::Bad, "bad", text),
            };
            console.line(&format!(
                "  {}  {text}",
                console.paint(tone, &format!("{mark:3}"))
            ));
        }
        lines.iter().filter(|line| line.is_err()).count()
    }

    fn lines(&self) -> Vec<Result<String, String>> {
        let calls = if self.failed.is_empty() {
            Ok("every call answered as it must".to_owned())
        } else {
            Err(self.failed.join("; "))
        };
        let data = match self.data {
            Data::Intact(times, sum) => Ok(format!(
                "data intact: read back {times} times, sha256 {}",
                sum.short()
            )),
            Data::Changed => Err("data changed: the checksums differ".to_owned()),
            Data::Unread => Err("data not read back: the journey ended before".to_owned()),
        };
        vec![
            calls,
            data,
            nothing("nothing left mounted", "still mounted", &self.mounts),
            nothing("nothing left in the pool", "left behind", &self.new_files),
        ]
    }
}

fn nothing(good: &str, bad: &str, paths: &[PathBuf]) -> Result<String, String> {
    let paths: Vec<_> = paths.iter().map(|it| it.display().to_string()).collect();
    if paths.is_empty() {
        Ok(good.to_owned())
    } else {
        Err(format!("{bad}: {}", paths.join(", ")))
    }
}

/// Symbolic links are listed like other entries, and not followed.
fn collect(directory: &Path, paths: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), paths)?;
        }
        paths.insert(entry.path());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Findings {
        Findings {
            failed: Vec::new(),
            data: Data::Unread,
            mounts: Vec::new(),
            new_files: Vec::new(),
        }
    }

    #[test]
    fn a_journey_that_ended_early_is_bad_even_with_nothing_left() {
        let bad: Vec<_> = findings()
            .lines()
            .into_iter()
            .filter_map(Result::err)
            .collect();
        assert_eq!(bad, ["data not read back: the journey ended before"]);
    }

    #[test]
    fn a_mount_that_is_left_is_named() {
        let mount = PathBuf::from("/tmp/left");
        let findings = Findings {
            mounts: vec![mount],
            ..findings()
        };
        assert_eq!(
            findings.lines()[2],
            Err("still mounted: /tmp/left".to_owned())
        );
    }

    #[test]
    fn new_paths_are_found_and_old_ones_are_not() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("old")).unwrap();
        let before = Inventory::of(directory.path()).unwrap();
        fs::write(directory.path().join("old/new"), "").unwrap();
        let after = Inventory::of(directory.path()).unwrap();
        assert_eq!(after.beyond(&before), [directory.path().join("old/new")]);
    }
}
