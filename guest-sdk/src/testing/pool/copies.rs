//! Copies that outlast their calls, as on the host: the running ones, and those that failed before a call could return their error.
//!
//! It stores names only, and no time: a test decides when a copy ends.

use super::tree::{is_within, otherwise};
use crate::error::Error;
use crate::pool::Kind;
use std::collections::BTreeMap;

#[derive(Clone, Default)]
pub(crate) struct Copies {
    pub(crate) is_slow: bool,
    /// By target.
    pub(crate) under_way: BTreeMap<String, Copy>,
}

#[derive(Clone)]
pub(crate) struct Copy {
    source: String,
    kind: Kind,
    failed: Option<Error>,
}

impl Copies {
    /// The state of a copy that an earlier call began.
    pub(super) fn join(&mut self, source: &str, target: &str) -> Result<(), Error> {
        let Some(copy) = self.under_way.get(target) else {
            return Ok(());
        };
        if copy.source != source {
            return Err(otherwise(target));
        }
        match copy.failed.clone() {
            None => Err(under_way(target)),
            Some(error) => {
                self.under_way.remove(target);
                Err(error)
            }
        }
    }

    /// Begins a slow copy. Does nothing if copies are made at once.
    pub(super) fn begin(&mut self, source: &str, target: &str, kind: &Kind) -> Result<(), Error> {
        if !self.is_slow {
            return Ok(());
        }
        let copy = Copy {
            source: source.to_owned(),
            kind: kind.clone(),
            failed: None,
        };
        self.under_way.insert(target.to_owned(), copy);
        Err(under_way(target))
    }

    /// Ends all copies; returns source, target and kind of the successful ones.
    pub(super) fn finish(&mut self, outcome: &Result<(), Error>) -> Vec<(String, String, Kind)> {
        if let Err(error) = outcome {
            for copy in self.under_way.values_mut() {
                copy.failed = Some(error.clone());
            }
            return Vec::new();
        }
        std::mem::take(&mut self.under_way)
            .into_iter()
            .filter(|(_, copy)| copy.failed.is_none())
            .map(|(target, copy)| (copy.source, target, copy.kind))
            .collect()
    }

    /// Rejects removing or renaming an entry that a copy creates or reads.
    pub(super) fn leave(&self, path: &str) -> Result<(), Error> {
        let mut running = self.under_way.iter().filter(|(_, it)| it.failed.is_none());
        match running.find(|(target, it)| is_within(target, path) || is_within(&it.source, path)) {
            None => Ok(()),
            Some((target, _)) if is_within(target, path) => Err(under_way(target)),
            Some(_) => Err(Error::failed_precondition(format!(
                "`{path}` is being copied"
            ))),
        }
    }
}

fn under_way(target: &str) -> Error {
    Error::aborted(format!("a copy to `{target}` is under way: retry"))
}
