//! The search for credentials of a storage system in all that a host logs, shows or keeps.
//!
//! ```no_run
//! # fn example() -> Result<(), xtask::failure::Failure> {
//! use wasmount_tests::host::{Host, HostOptions};
//! use wasmount_tests::secret_search::SecretSearch;
//! let host = Host::start(HostOptions::default())?;
//! let search = SecretSearch::of(["open-sesame"])?;
//! assert!(search.kept_by(&host)?.is_empty());
//! # Ok(())
//! # }
//! ```

use crate::health::Health;
use crate::host::Host;
use crate::leaks;
use aho_corasick::AhoCorasick;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command;
use xtask::failure::Failure;
use xtask::files;
use xtask::workspace::Workspace;

/// All that a host and its HTTP client ever log.
const LEVELS: &str = "trace,hyper=trace,hyper_util=trace,reqwest=trace";

/// What is in a log of these levels: the finest lines of the host, those of its HTTP client, and fields of calls. A search of a log without them means nothing.
const FINEST: [&str; 3] = ["\"TRACE\"", "\"hyper_util::", "\"rpc\""];

/// Secrets to search for.
#[derive(Debug)]
pub struct SecretSearch {
    secrets: Vec<Vec<u8>>,
    automaton: AhoCorasick,
}

/// Arguments of a host that logs everything.
pub fn logging_everything() -> Vec<OsString> {
    ["--log", LEVELS, "--log-format", "json"]
        .map(OsString::from)
        .into()
}

impl SecretSearch {
    /// Of these bytes, none of which are empty.
    pub fn of<S: Into<Vec<u8>>>(secrets: impl IntoIterator<Item = S>) -> Result<Self, Failure> {
        let secrets: Vec<Vec<u8>> = secrets.into_iter().map(Into::into).collect();
        if secrets.iter().any(Vec::is_empty) {
            let why = "a secret to search for is empty";
            return Err(Failure::Unexpected(why.to_owned()));
        }
        let automaton =
            AhoCorasick::new(&secrets).map_err(Failure::cannot("prepare a search for secrets"))?;
        Ok(Self { secrets, automaton })
    }

    /// All secrets, as messages show them.
    pub fn all(&self) -> BTreeSet<String> {
        self.secrets.iter().map(|it| shown(it)).collect()
    }

    /// Those that are in these bytes.
    pub fn found_in(&self, bytes: impl AsRef<[u8]>) -> BTreeSet<String> {
        let matches = self.automaton.find_overlapping_iter(bytes.as_ref());
        let numbers: BTreeSet<_> = matches.map(|it| it.pattern().as_usize()).collect();
        let secrets = numbers
            .into_iter()
            .filter_map(|number| self.secrets.get(number));
        secrets.map(|it| shown(it)).collect()
    }

    /// Where they are below a directory: in files, and in the names of files and directories.
    pub fn found_below(&self, directory: &Path) -> Result<Vec<String>, Failure> {
        self.found_at(leaks::below(directory)?)
    }

    /// Where they are in the whole directory of a host, but for what is mounted there, and in arguments and variables of any process.
    pub fn found_around(&self, host: &Host) -> Result<Vec<String>, Failure> {
        let root = host.root();
        let root = root
            .canonicalize()
            .map_err(Failure::cannot(format!("resolve {}", root.display())))?;
        let (mut paths, mounts) = (leaks::below(&root)?, host.mounts()?);
        paths.retain(|path| !mounts.iter().any(|mount| path.starts_with(mount)));
        let mut found = self.found_at(paths)?;
        for process in files::entries(Path::new("/proc"))? {
            for file in ["cmdline", "environ"].map(|file| process.join(file)) {
                // Not every entry is a process, and processes end meanwhile.
                let content = fs::read(&file).unwrap_or_default();
                self.note(&file.display().to_string(), content, &mut found);
            }
        }
        Ok(found)
    }

    /// Where they are in the log and the directories of a host, which may run: its data with state, history and compiled code, and its journal.
    pub fn kept_by(&self, host: &Host) -> Result<Vec<String>, Failure> {
        let mut found = Vec::new();
        self.note("the log", host.log(), &mut found);
        let directories = BTreeSet::from([host.data(), host.run(), host.mount_data()]);
        for directory in directories {
            found.extend(self.found_below(&directory)?);
        }
        Ok(found)
    }

    /// Where they are in what a running host keeps and shows: that, its metrics and the answers of its admin socket. It must log everything
    /// ([`logging_everything`]), and have used the driver: a place without the driver's name is an error, since a search of it would mean nothing.
    pub fn shown_by(
        &self,
        host: &Host,
        health: &Health,
        driver: &str,
    ) -> Result<Vec<String>, Failure> {
        let log = host.log();
        if let Some(missing) = FINEST.iter().find(|words| !log.contains(*words)) {
            let why = format!("nothing of {missing} was logged");
            return Err(Failure::Unexpected(why));
        }
        must_name(driver, "the log", log.contains(driver))?;
        let (_, metrics) = health.get("/metrics")?;
        let mut texts = vec![("/metrics".to_owned(), metrics)];
        let commands: [&[&str]; 2] = [&["status", "--json"], &["history", driver, "--json"]];
        for words in commands {
            let mut command = Command::new(Workspace::locate()?.host_program());
            command.args(words).arg("--data-dir").arg(host.data());
            texts.push((words.join(" "), command::read(&mut command)?));
        }
        let mut found = self.kept_by(host)?;
        for (place, text) in texts {
            must_name(driver, &place, text.contains(driver))?;
            self.note(&place, text, &mut found);
        }
        let named = Self::of([driver])?.found_below(&host.data())?;
        must_name(driver, "the data directory", !named.is_empty())?;
        Ok(found)
    }

    fn found_at(&self, paths: Vec<PathBuf>) -> Result<Vec<String>, Failure> {
        let mut found = Vec::new();
        for path in paths {
            let place = path.display().to_string();
            let name = format!("the name of {place}");
            self.note(&name, path.as_os_str().as_encoded_bytes(), &mut found);
            if !fs::symlink_metadata(&path).is_ok_and(|it| it.is_file()) {
                continue;
            }
            let content = match fs::read(&path) {
                // The host works on its files meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                read => read.map_err(Failure::cannot(format!("read {place}")))?,
            };
            self.note(&place, content, &mut found);
        }
        Ok(found)
    }

    fn note(&self, place: &str, bytes: impl AsRef<[u8]>, found: &mut Vec<String>) {
        let secrets = self.found_in(bytes);
        found.extend(secrets.iter().map(|secret| format!("{place}: {secret}")));
    }
}

fn must_name(driver: &str, place: &str, is_named: bool) -> Result<(), Failure> {
    match is_named {
        true => Ok(()),
        false => Err(Failure::Unexpected(format!(
            "{place} does not name {driver}: a search of it means nothing"
        ))),
    }
}

fn shown(secret: &[u8]) -> String {
    secret.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_wherever_it_is_and_nothing_else_is() {
        let search = SecretSearch::of(["sesame", "same key"]).unwrap();
        assert_eq!(search.found_in("a sesame key").len(), 2);
        assert_eq!(
            search.found_in("a same key"),
            ["same key".to_owned()].into()
        );
        assert!(search.found_in("se same ke y").is_empty());
        assert_eq!(search.all().len(), 2);
        assert!(SecretSearch::of([""]).is_err());
    }

    #[test]
    fn a_secret_in_a_file_or_its_name_is_found_and_shown() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("below");
        fs::create_dir(&below).unwrap();
        fs::write(below.join("other"), "ses ame").unwrap();
        let search = SecretSearch::of(["sesame"]).unwrap();
        assert!(search.found_below(folder.path()).unwrap().is_empty());
        fs::write(below.join("file"), b"a\0sesame\0b").unwrap();
        let file = below.join("file");
        let found = search.found_below(folder.path()).unwrap();
        assert_eq!(found, [format!("{}: sesame", file.display())]);
        fs::remove_file(&file).unwrap();
        let named = below.join("a sesame");
        fs::create_dir(&named).unwrap();
        let found = search.found_below(folder.path()).unwrap();
        assert_eq!(found, [format!("the name of {}: sesame", named.display())]);
    }
}
