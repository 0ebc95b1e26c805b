//! Who has to mend what made a call fail, and how a refused argument of a plugin is compared with the request.
//!
//! A request reaches a plan through the plugin: it copies a server, a path or an option from a StorageClass. So a refused word is compared
//! with what the request says. In doubt it is the request's: a rollback that does not come can be ordered by hand, one that a tenant
//! provokes takes a good version from everybody.

use crate::attributes::{Attributes, is_added_by_kubernetes};
use crate::secrets::Secrets;
use crate::volume::{AccessType, VolumeCapability};
use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroizing;

/// How many times larger what a plugin makes of a request may be than the request: base64 and JSON escapes do not reach 4.
const GROWTH: usize = 4;

/// Who has to mend it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Owner {
    /// The code of the plugin.
    Plugin,
    /// The request: what a pod, a claim, a class or a PersistentVolume says.
    Request,
    /// A secret of the request.
    Secret,
    /// What lies in a volume or a pool.
    Content,
    /// The storage: disks, arrays, networks, the state store, or work on them that is not done yet.
    Storage,
    /// This host and its node.
    Host,
    /// The documents: grants, limits, which version serves.
    Administrator,
}

/// Why an argument of a plugin was refused, as far as that tells whose fault it is. Crosses the process boundary with the error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blame {
    /// This one's, whatever the request says.
    Of(Owner),
    /// A word is wrong: the request's if it says it, too.
    Word(RefusedWord),
    /// More than so many bytes: the request's if it brings nearly as many.
    Size(usize),
}

/// A word of a plugin that was refused. Without a value in `Debug`: it may be a mount flag, or hold a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedWord(Zeroizing<String>);

/// What the author of a request wrote, wherever it stood.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RequestWords(Vec<String>);

/// All that a request says: what a refused word is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Its words.
    pub words: &'a RequestWords,
    /// Its secrets.
    pub secrets: &'a Secrets,
}

impl Blame {
    /// This word is wrong.
    pub fn word(word: impl Into<String>) -> Self {
        Self::Word(RefusedWord(Zeroizing::new(word.into())))
    }

    /// Whose fault it is, if this was asked.
    pub fn owner(&self, asked: Asked<'_>) -> Owner {
        match self {
            Blame::Of(owner) => *owner,
            Blame::Word(RefusedWord(word)) if asked.words.say(word) => Owner::Request,
            Blame::Word(RefusedWord(word)) if holds(asked.secrets, word) => Owner::Secret,
            Blame::Word(_) => Owner::Plugin,
            Blame::Size(limit) if asked.bytes().saturating_mul(GROWTH) >= *limit => Owner::Request,
            Blame::Size(_) => Owner::Plugin,
        }
    }
}

impl RequestWords {
    /// With a word, such as the name of what is to be made or the id of a volume.
    pub fn with(mut self, word: &str) -> Self {
        self.0.push(word.to_owned());
        self
    }

    /// With keys and values of parameters or of a context.
    pub fn with_map(mut self, map: &Attributes) -> Self {
        for (key, value) in map.iter() {
            if !is_added_by_kubernetes(key) {
                self.0.push(key.to_owned());
            }
            self.0.push(value.to_owned());
        }
        self
    }

    /// With how a volume is wanted.
    pub fn with_capabilities<'c>(
        mut self,
        capabilities: impl IntoIterator<Item = &'c VolumeCapability>,
    ) -> Self {
        for capability in capabilities {
            if let AccessType::Mount(access) = &capability.access_type {
                self.0.extend(access.fs_type.clone());
                self.0.extend(access.volume_mount_group.clone());
                self.0.extend(access.mount_flags.iter().cloned());
            }
        }
        self
    }

    /// Whether a word is made of them, or a part of one.
    fn say(&self, word: &str) -> bool {
        self.0.iter().any(|said| overlaps(said, word))
    }
}

impl Asked<'_> {
    fn bytes(&self) -> usize {
        let words = self.words.0.iter().map(String::len);
        let secrets = self.secrets.values().map(str::len);
        words.chain(secrets).sum()
    }
}

/// Whether one holds the other. An empty word is held by an empty one only.
fn overlaps(said: &str, word: &str) -> bool {
    match (said.is_empty(), word.is_empty()) {
        (false, false) => word.contains(said) || said.contains(word),
        (said, word) => said && word,
    }
}

/// Whether a word has to do with a secret, or with a line or quoted part of one, as the redaction looks for them.
fn holds(secrets: &Secrets, word: &str) -> bool {
    let parts = |value: &'_ str| {
        let mut parts = value.split(['\n', '\r', '"']).map(str::trim);
        overlaps(value, word) || parts.any(|part| !part.is_empty() && overlaps(part, word))
    };
    secrets.values().any(parts) || secrets.names().any(|name| overlaps(name, word))
}

impl fmt::Debug for RefusedWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a word of {} bytes", self.0.len())
    }
}

impl fmt::Debug for RequestWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} words", self.0.len())
    }
}
