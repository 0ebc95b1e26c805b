//! The contents of a pool in memory, as a map of paths, and the copies that are under way.

use crate::error::Error;
use crate::pool::{Entry, Kind, Usage};
use std::collections::BTreeMap;

/// The host's own folder in a pool, as on the host.
const RESERVED_NAME: &str = ".wasmount";
/// Mode of a new directory, as on the host.
const DEFAULT_MODE: u32 = 0o755;
/// Longest path, in bytes, as on the host.
const PATH_BYTES: usize = 4095;

#[derive(Clone)]
pub(crate) struct Tree {
    total_bytes: u64,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) copies: Copies,
}

#[derive(Clone)]
pub(crate) struct Node {
    pub(super) kind: Kind,
    pub(super) size_bytes: u64,
    pub(crate) quota: Option<u64>,
    /// Permission bits of a directory.
    pub(crate) mode: u32,
    /// The source of a copy, by which a repeated request is recognised.
    copy_of: Option<String>,
}

/// Copies that outlast their calls, as on the host: the running ones, and those that failed before a call could return their error. A test decides
/// when a copy ends.
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

impl Node {
    pub(super) fn new(kind: Kind, size_bytes: u64) -> Self {
        Self {
            kind,
            size_bytes,
            quota: None,
            mode: DEFAULT_MODE,
            copy_of: None,
        }
    }

    pub(super) fn entry(&self, path: &str) -> Entry {
        Entry {
            path: path.to_owned(),
            kind: self.kind.clone(),
            size_bytes: self.size_bytes,
            allocated_bytes: 0,
        }
    }
}

impl Tree {
    pub(crate) fn new(total_bytes: u64) -> Self {
        Self {
            total_bytes,
            nodes: BTreeMap::new(),
            copies: Copies::default(),
        }
    }

    pub(super) fn usage(&self) -> Usage {
        let promised = self
            .nodes
            .values()
            .map(|node| node.size_bytes.saturating_add(node.quota.unwrap_or(0)))
            .fold(0, u64::saturating_add);
        Usage {
            total_bytes: self.total_bytes,
            available_bytes: self.total_bytes.saturating_sub(promised),
        }
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// Names and entries directly below a path, in order of names.
    pub(super) fn children(&self, path: &str) -> impl Iterator<Item = (&str, Entry)> {
        self.nodes.iter().filter_map(move |(child, node)| {
            let (parent, name) = child.rsplit_once('/').unwrap_or(("", child));
            (parent == path).then(|| (name, node.entry(child)))
        })
    }

    /// An entry that must exist, of this kind if one is given.
    pub(super) fn existing(&mut self, path: &str, kind: Option<&Kind>) -> Result<&mut Node, Error> {
        let node = self
            .nodes
            .get_mut(path)
            .ok_or_else(|| Error::not_found(format!("`{path}` does not exist")))?;
        match kind {
            Some(kind) if node.kind != *kind => Err(otherwise(path)),
            _ => Ok(node),
        }
    }

    pub(super) fn create(&mut self, path: &str, node: Node) -> Result<(), Error> {
        if let Some(there) = self.nodes.get(path) {
            let alike = there.kind == node.kind && there.size_bytes == node.size_bytes;
            return alike.then_some(()).ok_or_else(|| otherwise(path));
        }
        self.parent_exists(path)?;
        self.afford(path, node.size_bytes)?;
        self.nodes.insert(path.to_owned(), node);
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &str, kind: &Kind) -> Result<(), Error> {
        self.copies.leave(path)?;
        match self.nodes.get(path) {
            None => Ok(()),
            Some(node) if node.kind != *kind => Err(otherwise(path)),
            Some(_) => {
                self.nodes.retain(|other, _| !is_within(other, path));
                Ok(())
            }
        }
    }

    /// Makes a copy, or begins one if [`crate::testing::delay_copies`] is set.
    pub(super) fn copy(&mut self, source: &str, target: &str, kind: &Kind) -> Result<(), Error> {
        let is_there = self.nodes.contains_key(target);
        if !is_there {
            self.copies.join(source, target)?;
        }
        let mut copied = self.clone();
        copied.copy_now(source, target, kind)?;
        if !is_there && self.copies.is_slow {
            let copy = Copy {
                source: source.to_owned(),
                kind: kind.clone(),
                failed: None,
            };
            self.copies.under_way.insert(target.to_owned(), copy);
            return Err(under_way(target));
        }
        *self = copied;
        Ok(())
    }

    /// Ends the copies that are under way.
    pub(crate) fn finish_copies(&mut self, outcome: &Result<(), Error>) {
        if let Err(error) = outcome {
            for copy in self.copies.under_way.values_mut() {
                copy.failed = Some(error.clone());
            }
            return;
        }
        for (target, copy) in std::mem::take(&mut self.copies.under_way) {
            if copy.failed.is_none() {
                // As on the host, a copy that fails at its end leaves nothing.
                let _ = self.copy_now(&copy.source, &target, &copy.kind);
            }
        }
    }

    pub(super) fn copy_now(
        &mut self,
        source: &str,
        target: &str,
        kind: &Kind,
    ) -> Result<(), Error> {
        if let Some(there) = self.nodes.get(target) {
            let alike = there.copy_of.as_deref() == Some(source);
            return alike.then_some(()).ok_or_else(|| otherwise(target));
        }
        let size = self.existing(source, Some(kind))?.size_bytes;
        self.parent_exists(target)?;
        self.afford(target, size)?;
        let copies: Vec<(String, Node)> = self
            .nodes
            .iter()
            .filter_map(|(path, node)| {
                let copy = Node {
                    quota: None,
                    copy_of: Some(path.clone()),
                    ..node.clone()
                };
                Some((moved(path, source, target)?, copy))
            })
            .collect();
        self.nodes.extend(copies);
        Ok(())
    }

    pub(super) fn rename(&mut self, source: &str, target: &str) -> Result<(), Error> {
        self.copies.leave(source)?;
        if self.nodes.contains_key(target) {
            return Err(otherwise(target));
        }
        self.existing(source, None)?;
        self.parent_exists(target)?;
        self.nodes = std::mem::take(&mut self.nodes)
            .into_iter()
            .map(|(path, node)| (moved(&path, source, target).unwrap_or(path), node))
            .collect();
        Ok(())
    }

    /// Rejects a promise of more bytes than are left.
    pub(super) fn afford(&self, path: &str, more_bytes: u64) -> Result<(), Error> {
        let available = self.usage().available_bytes;
        if more_bytes > available {
            return Err(Error::resource_exhausted(format!(
                "no space for `{path}`: {more_bytes} more bytes are wanted, {available} are left"
            )));
        }
        Ok(())
    }

    fn parent_exists(&self, path: &str) -> Result<(), Error> {
        match path.rsplit_once('/') {
            Some((parent, _)) if !self.nodes.contains_key(parent) => {
                Err(Error::not_found(format!("`{parent}` does not exist")))
            }
            _ => Ok(()),
        }
    }
}

impl Copies {
    /// The state of a copy that an earlier call began.
    fn join(&mut self, source: &str, target: &str) -> Result<(), Error> {
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

    /// Rejects removing or renaming an entry that a copy creates or reads.
    fn leave(&self, path: &str) -> Result<(), Error> {
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

/// Rejects a path that is not relative, `/`-separated and without `.` and `..`.
pub(super) fn check_path(path: &str) -> Result<(), Error> {
    let is_safe = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
    if path.split('/').next() == Some(RESERVED_NAME) {
        return Err(Error::invalid_argument(format!(
            "`{RESERVED_NAME}` is the host's own folder"
        )));
    }
    if path.len() <= PATH_BYTES && path.split('/').all(is_safe) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "`{}` is no path of a pool: relative, separated by `/`, without `.` and `..`",
        path.escape_debug()
    )))
}

fn is_within(path: &str, root: &str) -> bool {
    rest_of(path, root).is_some()
}

/// The new path of an entry below `source` when `source` is renamed to `target`.
fn moved(path: &str, source: &str, target: &str) -> Option<String> {
    rest_of(path, source).map(|rest| format!("{target}{rest}"))
}

/// What follows the path of a directory in the path of an entry that is it or is in it.
fn rest_of<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(root)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

fn otherwise(path: &str) -> Error {
    Error::already_exists(format!("`{path}` exists and is something else"))
}

fn under_way(target: &str) -> Error {
    Error::aborted(format!("a copy to `{target}` is under way: retry"))
}
