//! The documents of a mounter, those of its command line and those in its directory: files that are added, changed or removed change the grants of
//! their drivers, without a restart.
//!
//! A document that is not accepted changes nothing, and affects no other one. Grants are withdrawn only for a file of the directory that is gone.

use super::follow::{FileStates, changed, read_states};
use super::local_mounts;
use crate::config::{self, Configured};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};
use tokio::task::spawn_blocking;
use wasmount_core::document::Grants;
use wasmount_core::names::DriverName;
use wasmount_mount::LocalMounter;

/// Names of documents end so.
const EXTENSION: &str = "yaml";

/// The documents, and what of them is in effect.
pub(super) struct MounterDocuments {
    /// The documents of the command line, which has precedence, with their drivers.
    named: BTreeMap<PathBuf, DriverName>,
    directory: Option<PathBuf>,
    mounter: Arc<LocalMounter>,
    data_dir: PathBuf,
    in_effect: BTreeMap<PathBuf, Granted>,
    /// The state of the directory and the documents before they were read last.
    states: FileStates,
}

/// What a document grants.
#[derive(Debug, Clone, PartialEq)]
struct Granted {
    driver: DriverName,
    grants: Grants,
}

/// What a file says; or why it is no document.
type Reading = Result<Granted, String>;

impl From<Configured> for Granted {
    fn from(configured: Configured) -> Self {
        Self {
            driver: configured.document.driver_name,
            grants: configured.document.grants,
        }
    }
}

impl MounterDocuments {
    /// Reads them after the mounter was opened with those of the command line. It blocks.
    pub(super) fn open(
        of_command_line: Vec<Configured>,
        directory: Option<PathBuf>,
        mounter: Arc<LocalMounter>,
        data_dir: PathBuf,
    ) -> Self {
        let granted = |it: Configured| (it.file.clone(), Granted::from(it));
        let in_effect: BTreeMap<_, _> = of_command_line.into_iter().map(granted).collect();
        let driver = |(file, it): (&PathBuf, &Granted)| (file.clone(), it.driver.clone());
        let mut opened = Self {
            named: in_effect.iter().map(driver).collect(),
            directory,
            mounter,
            data_dir,
            in_effect,
            states: FileStates::new(),
        };
        opened.read();
        opened
    }

    /// The drivers that have grants.
    pub(super) fn drivers(&self) -> impl Iterator<Item = DriverName> {
        self.in_effect.values().map(|it| it.driver.clone())
    }

    /// Follows them until the mounter ends.
    pub(super) async fn keep(mut self) {
        loop {
            changed(&mut self.states).await;
            let read = spawn_blocking(move || {
                self.read();
                self
            });
            let Ok(again) = read.await else {
                // The runtime is shutting down.
                return;
            };
            self = again;
        }
    }

    /// Brings the grants in line with the files as they are now. It blocks.
    fn read(&mut self) {
        // The state is always older than what is read: a change in between is seen as one.
        let mut states = read_states(self.directory.clone());
        let mut files: BTreeSet<_> = self.named.keys().cloned().collect();
        if let Some(directory) = &self.directory {
            files.extend(documents(directory).unwrap_or_else(|error| {
                let directory = directory.display();
                tracing::error!(%directory, %error, "documents cannot be listed: their grants stay");
                self.in_effect.keys().cloned().collect()
            }));
        }
        states.extend(read_states(files.clone()));
        self.states = states;
        let now = files.into_iter().map(|file| {
            let reading = reading(&file);
            (file, reading)
        });
        let (wanted, refused) = wanted(&self.in_effect, now.collect(), &self.named);
        for (file, reason) in refused {
            let file = file.display();
            tracing::error!(%file, reason, "a document is not applied: its grants stay as they were");
        }
        self.apply(wanted);
    }

    /// First withdraws, since a pool may move from one driver to another.
    fn apply(&mut self, wanted: BTreeMap<PathBuf, Granted>) {
        let kept: BTreeSet<_> = wanted.values().map(|it| &it.driver).collect();
        for driver in self.drivers().collect::<Vec<_>>() {
            if !kept.contains(&driver) && self.grant(&driver, None) {
                tracing::info!(%driver, "the document is gone: its driver has no grants any more");
            }
        }
        let before = std::mem::take(&mut self.in_effect);
        for (file, granted) in wanted {
            let is_new = !before.values().any(|it| *it == granted);
            if !is_new || self.grant(&granted.driver, Some(granted.grants.clone())) {
                self.in_effect.insert(file, granted);
            } else if let Some(old) = before.values().find(|it| it.driver == granted.driver) {
                self.in_effect.insert(file, old.clone());
            }
        }
    }

    fn grant(&self, driver: &DriverName, grants: Option<Grants>) -> bool {
        let is_granted = grants.is_some();
        match local_mounts::grant(&self.mounter, &self.data_dir, driver, grants) {
            Ok(()) if is_granted => tracing::info!(%driver, "grants of the document are in effect"),
            Ok(()) => {}
            Err(error) => {
                tracing::error!(%driver, %error, "grants of the document are not in effect");
                return false;
            }
        }
        true
    }
}

fn documents(directory: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == EXTENSION) {
            found.insert(path);
        }
    }
    Ok(found)
}

fn reading(file: &Path) -> Reading {
    let configured = config::load_one(file).map_err(|complaints| complaints.in_one_line())?;
    Ok(configured.into())
}

/// What is to be in effect, by file, and which files are refused: those that are no documents, or whose driver another one has. A driver stays with
/// the file that had it before.
fn wanted(
    before: &BTreeMap<PathBuf, Granted>,
    now: BTreeMap<PathBuf, Reading>,
    named: &BTreeMap<PathBuf, DriverName>,
) -> (BTreeMap<PathBuf, Granted>, Vec<(PathBuf, String)>) {
    let mut wanted = BTreeMap::new();
    let mut refused = Vec::new();
    let mut owners: BTreeMap<DriverName, PathBuf> = BTreeMap::new();
    // A file that is no document any more keeps what it had, too.
    let keeps = |file: &PathBuf, now: &Reading| match (before.get(file), now) {
        (Some(before), Ok(now)) => before.driver == now.driver,
        (before, Err(_)) => before.is_some(),
        (None, Ok(_)) => false,
    };
    let (first, second): (Vec<_>, Vec<_>) = now.into_iter().partition(|(file, it)| keeps(file, it));
    for (file, reading) in first.into_iter().chain(second) {
        let reading = reading.and_then(|it| {
            match named.get(&file) {
                Some(own) if *own != it.driver => {
                    let is = it.driver;
                    return Err(format!(
                        "driverName was {own} and is {is}: restart the mounter"
                    ));
                }
                None if named.values().any(|other| *other == it.driver) => {
                    return Err(format!("{} has a document on the command line", it.driver));
                }
                _ => {}
            }
            match owners.get(&it.driver) {
                Some(owner) => Err(format!(
                    "{} is the driver of {} too",
                    it.driver,
                    owner.display()
                )),
                None => Ok(it),
            }
        });
        let granted = reading.map_or_else(
            |reason| {
                refused.push((file.clone(), reason));
                let stays = before.get(&file).cloned();
                stays.filter(|it| !owners.contains_key(&it.driver))
            },
            Some,
        );
        if let Some(granted) = granted {
            owners.insert(granted.driver.clone(), file.clone());
            wanted.insert(file, granted);
        }
    }
    (wanted, refused)
}

#[cfg(test)]
mod tests;
