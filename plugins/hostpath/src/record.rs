//! What the driver remembers of a volume or a snapshot: one line of text, since a store is read by people too. Apart because what an older
//! version of the driver wrote must stay readable: the line begins with its schema.
//!
//! It does not know where the content lies: in the pool, under the same id.
use std::time::{SystemTime, UNIX_EPOCH};
use wasmount_guest::*;

/// Begins the ids of volumes.
pub(crate) const VOLUME: &str = "volume";
/// Begins the ids of snapshots.
pub(crate) const SNAPSHOT: &str = "snapshot";
/// The first word of a line. Another meaning of the words after it is another number, and one more way to read a line.
const SCHEMA: &str = "1";
/// Stands for no source.
const EMPTY: &str = "-";

/// What a volume or a snapshot is in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Image,
    NodeGrownImage,
    Directory,
}

/// A volume or a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    pub(crate) size_bytes: u64,
    pub(crate) created_at: Timestamp,
    /// The id of what it began as a copy of.
    pub(crate) source: Option<String>,
}

/// The record of an id that must be one of ours.
pub(crate) fn existing(prefix: &str, id: &str) -> Result<state::Record<Record>, Error> {
    id::must_be_from_name(prefix, id)?;
    state::require(id)
}

impl Kind {
    const ALL: [Self; 3] = [Self::Image, Self::NodeGrownImage, Self::Directory];

    /// As a parameter, and in a record.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::NodeGrownImage => "node-grown-image",
            Self::Directory => "directory",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

impl Record {
    /// Of something that is made now.
    pub(crate) fn new(kind: Kind, size_bytes: u64, source: Option<String>) -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let created_at = Timestamp::try_from(since.as_nanos()).unwrap_or(Timestamp::MAX);
        Self {
            kind,
            size_bytes,
            created_at,
            source,
        }
    }

    /// Refuses another kind with `invalid-argument`.
    pub(crate) fn must_be(&self, kind: Kind) -> Result<(), Error> {
        if self.kind == kind {
            return Ok(());
        }
        let kind = self.kind.word();
        Err(Error::invalid_argument(format!(
            "it is of kind `{kind}`: use a StorageClass of that kind"
        )))
    }

    /// As CSI shows a volume.
    pub(crate) fn into_volume(self, id: String) -> Volume {
        let content_source = self
            .source
            .map(|source| match id::is_from_name(SNAPSHOT, &source) {
                true => ContentSource::Snapshot(source),
                false => ContentSource::Volume(source),
            });
        Volume {
            content_source,
            ..Volume::new(id, self.size_bytes)
        }
    }

    /// As CSI shows a snapshot.
    pub(crate) fn into_snapshot(self, id: String) -> Snapshot {
        Snapshot {
            id,
            source_volume: self.source.unwrap_or_default(),
            size_bytes: self.size_bytes,
            created_at: self.created_at,
            ready_to_use: true,
            group_snapshot_id: None,
            accessible_topology: Vec::new(),
        }
    }
}

impl state::Value for Record {
    fn to_bytes(&self) -> Vec<u8> {
        let Self {
            kind,
            size_bytes,
            created_at,
            source,
        } = self;
        let kind = kind.word();
        let source = source.as_deref().unwrap_or(EMPTY);
        format!("{SCHEMA} {kind} {size_bytes} {created_at} {source}").into_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let words: Vec<_> = std::str::from_utf8(bytes).ok()?.split(' ').collect();
        let &[SCHEMA, kind, size_bytes, created_at, source] = words.as_slice() else {
            return None;
        };
        Some(Self {
            kind: Kind::parse(kind)?,
            size_bytes: size_bytes.parse().ok()?,
            created_at: created_at.parse().ok()?,
            source: (source != EMPTY).then(|| source.to_owned()),
        })
    }
}
