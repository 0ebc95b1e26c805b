//! The table of claims as pure data: which keys are held, and whether a set of claims can be granted.
//!
//! It knows no call, no lock and no time. A set is granted as a whole or not at all; no caller ever waits.

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
    /// A node, as a host of the storage system.
    Node(NodeId),
    /// A snapshot.
    Snapshot(SnapshotId),
    /// A group of snapshots.
    Group(GroupSnapshotId),
    /// A name that a client requested.
    Name(Kind, RequestedName),
    /// A target path.
    Target(NodePath),
}

/// The kind of object that a name belongs to: each kind has its own namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Of CreateVolume.
    Volume,
    /// Of CreateSnapshot.
    Snapshot,
    /// Of CreateVolumeGroupSnapshot.
    Group,
}

/// The mode of a claim, in order of strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Concurrent with other shared claims.
    Shared,
    /// Excludes all other claims.
    Exclusive,
}

/// One key, and how it is claimed.
pub(crate) type Claim = (ClaimKey, Mode);

/// A granted set, to be released once.
#[derive(Debug)]
#[must_use = "a token that is dropped keeps its claims for ever"]
pub(crate) struct Token(BTreeMap<ClaimKey, Mode>);

/// All held claims.
#[derive(Debug, Default)]
pub(crate) struct Table(BTreeMap<ClaimKey, Holders>);

/// The holders of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holders {
    /// This many shared claims, at least one.
    Sharing(usize),
    /// One exclusive claim.
    Alone,
}

impl Table {
    /// Grants all claims or none. If the set names a key twice, the stronger claim counts. The error is a key that another call holds.
    pub(crate) fn acquire(
        &mut self,
        set: impl IntoIterator<Item = Claim>,
    ) -> Result<Token, ClaimKey> {
        let mut requested = BTreeMap::new();
        for (key, mode) in set {
            let strongest = requested.entry(key).or_insert(mode);
            *strongest = mode.max(*strongest);
        }
        for (key, mode) in &requested {
            match (self.0.get(key), mode) {
                (None, _) | (Some(Holders::Sharing(_)), Mode::Shared) => {}
                (Some(_), _) => return Err(key.clone()),
            }
        }
        for (key, mode) in &requested {
            let holders = match (self.0.get(key), mode) {
                (Some(Holders::Sharing(count)), Mode::Shared) => Holders::Sharing(count + 1),
                (_, Mode::Shared) => Holders::Sharing(1),
                (_, Mode::Exclusive) => Holders::Alone,
            };
            self.0.insert(key.clone(), holders);
        }
        Ok(Token(requested))
    }

    /// Releases a set.
    pub(crate) fn release(&mut self, token: &Token) {
        for key in token.0.keys() {
            match self.0.get_mut(key) {
                Some(Holders::Sharing(count)) if *count > 1 => *count -= 1,
                _ => {
                    self.0.remove(key);
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
            ClaimKey::Node(node) => write!(f, "node {node}"),
            ClaimKey::Snapshot(id) => write!(f, "snapshot {id}"),
            ClaimKey::Group(id) => write!(f, "group snapshot {id}"),
            ClaimKey::Name(Kind::Volume, name) => write!(f, "the volume named {name}"),
            ClaimKey::Name(Kind::Snapshot, name) => write!(f, "the snapshot named {name}"),
            ClaimKey::Name(Kind::Group, name) => write!(f, "the group snapshot named {name}"),
            ClaimKey::Target(path) => write!(f, "target path {path}"),
        }
    }
}
