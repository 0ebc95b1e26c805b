//! The table of claims as pure data: who holds what, and whether a set of claims can be had.
//!
//! It knows no call, no lock and no time. A set is granted as a whole or not at all; nobody ever waits.

use crate::names::{GroupSnapshotId, NodeId, NodePath, RequestedName, SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::fmt;

/// What can be claimed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClaimKey {
    /// A volume, on the controller and on the node alike.
    Volume(VolumeId),
    /// A volume on one node.
    Attachment(VolumeId, NodeId),
    /// A snapshot.
    Snapshot(SnapshotId),
    /// A group of snapshots.
    Group(GroupSnapshotId),
    /// A name that a client asked for.
    Name(Kind, RequestedName),
    /// Where a volume is published.
    Target(NodePath),
}

/// What a name is for: each kind has names of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Of CreateVolume.
    Volume,
    /// Of CreateSnapshot.
    Snapshot,
    /// Of CreateVolumeGroupSnapshot.
    Group,
}

/// How something is claimed. In order of strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Beside others that share.
    Shared,
    /// Alone.
    Exclusive,
}

/// One thing, and how it is claimed.
pub(crate) type Claim = (ClaimKey, Mode);

/// Somebody holds what is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// What is held.
    pub(crate) key: ClaimKey,
}

/// A granted set, to be given back once.
#[derive(Debug)]
#[must_use = "a token that is dropped keeps its claims for ever"]
pub(crate) struct Token(BTreeMap<ClaimKey, Mode>);

/// Everything that is held.
#[derive(Debug, Default)]
pub(crate) struct Table(BTreeMap<ClaimKey, Holders>);

/// Who holds a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holders {
    /// This many, at least one.
    Sharing(usize),
    /// One alone.
    Alone,
}

impl Table {
    /// Grants all claims or none. Of a key that the set names twice, the stronger claim counts.
    pub(crate) fn acquire(
        &mut self,
        set: impl IntoIterator<Item = Claim>,
    ) -> Result<Token, Conflict> {
        let mut wanted = BTreeMap::new();
        for (key, mode) in set {
            let strongest = wanted.entry(key).or_insert(mode);
            *strongest = mode.max(*strongest);
        }
        for (key, mode) in &wanted {
            match (self.0.get(key), mode) {
                (None, _) | (Some(Holders::Sharing(_)), Mode::Shared) => {}
                (Some(_), _) => return Err(Conflict { key: key.clone() }),
            }
        }
        for (key, mode) in &wanted {
            let holders = match (self.0.get(key), mode) {
                (Some(Holders::Sharing(count)), Mode::Shared) => Holders::Sharing(count + 1),
                (_, Mode::Shared) => Holders::Sharing(1),
                (_, Mode::Exclusive) => Holders::Alone,
            };
            self.0.insert(key.clone(), holders);
        }
        Ok(Token(wanted))
    }

    /// Gives a set back.
    pub(crate) fn release(&mut self, token: Token) {
        for key in token.0.into_keys() {
            match self.0.get(&key) {
                Some(Holders::Sharing(count)) if *count > 1 => {
                    let rest = Holders::Sharing(count - 1);
                    self.0.insert(key, rest);
                }
                _ => {
                    self.0.remove(&key);
                }
            }
        }
    }
}

impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimKey::Volume(id) => write!(f, "volume {id}"),
            ClaimKey::Attachment(id, node) => write!(f, "volume {id} on node {node}"),
            ClaimKey::Snapshot(id) => write!(f, "snapshot {id}"),
            ClaimKey::Group(id) => write!(f, "group snapshot {id}"),
            ClaimKey::Name(Kind::Volume, name) => write!(f, "the volume named {name}"),
            ClaimKey::Name(Kind::Snapshot, name) => write!(f, "the snapshot named {name}"),
            ClaimKey::Name(Kind::Group, name) => write!(f, "the group snapshot named {name}"),
            ClaimKey::Target(path) => write!(f, "target path {path}"),
        }
    }
}
