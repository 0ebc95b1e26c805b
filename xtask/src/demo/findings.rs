//! The findings of the demo, as an outside observer: the state of the mount table, the data and the data directory after the last call.

use crate::failure::Failure;
use crate::files;
use crate::say::{self, Tone};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The results to print.
#[derive(Debug)]
pub(super) struct Findings {
    /// Calls with another result than expected.
    pub(super) failed: Vec<String>,
    /// The result of reading the data back.
    pub(super) data: Result<String, String>,
    /// The mounts after the last call.
    pub(super) mounts: Vec<PathBuf>,
    /// Files in the data directory, the pool included, that did not exist before the first volume.
    pub(super) new_files: Vec<PathBuf>,
}

impl Findings {
    /// Prints the findings; returns how many are bad.
    pub(super) fn print(&self) -> usize {
        let lines = self.lines();
        say::heading("findings");
        for line in &lines {
            let (tone, mark, text) = match line {
                Ok(text) => (Tone::Good, "ok", text),
                Err(text) => (Tone::Bad, "bad", text),
            };
            say::line(&format!(
                "  {}  {text}",
                say::paint(tone, &format!("{mark:3}"))
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
        vec![
            calls,
            self.data.clone(),
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

/// All paths below a directory.
pub(super) fn inventory(directory: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    Ok(files::below(directory)?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn findings() -> Findings {
        Findings {
            failed: Vec::new(),
            data: Err("data not read back: the journey ended before".to_owned()),
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
        let before = inventory(directory.path()).unwrap();
        fs::write(directory.path().join("old/new"), "").unwrap();
        let after = inventory(directory.path()).unwrap();
        let new: Vec<_> = after.difference(&before).cloned().collect();
        assert_eq!(new, [directory.path().join("old/new")]);
    }
}
