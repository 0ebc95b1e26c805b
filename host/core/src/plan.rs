//! The plan that `node-stage` and `node-publish` record: what a volume is, as data. Apart because the engine records it, the mount room
//! checks and executes it, and the journal keeps it.
//!
//! It holds no secret value: secret options name a secret, `files` contents stay out of `Debug` and of the journal.

use crate::secrets::{SecretOptions, Secrets};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One source, and how it is to be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What the volume is.
    pub source: Source,
    /// Used where the request names no file system.
    pub default_fs_type: Option<String>,
    /// In addition to those of the request.
    pub mount_options: Vec<String>,
    /// Kept in the journal, given to `node-hooks`.
    pub notes: BTreeMap<String, String>,
}

/// What a volume is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// A tree of a pool.
    Directory {
        /// Name of the granted pool.
        pool: String,
        /// Relative to the pool.
        path: String,
    },
    /// An image of a pool.
    Image {
        /// Name of the granted pool.
        pool: String,
        /// Relative to the pool.
        path: String,
    },
    /// A block device of the node that answers all facts.
    Device {
        /// Such as `serial` = `..`.
        facts: Vec<(String, String)>,
        /// How long to wait for it, in milliseconds.
        wait_ms: u32,
    },
    /// A file system that the kernel mounts by name.
    Filesystem {
        /// Such as `nfs4`.
        fs_type: String,
        /// As the kernel takes it.
        source: String,
        /// Plain options.
        options: Vec<String>,
        /// Option name to the name of a request secret.
        secret_options: Vec<(String, String)>,
    },
    /// An empty file system in memory.
    Tmpfs {
        /// Absent: the kernel's default.
        size_bytes: Option<u64>,
    },
    /// Small files on a file system in memory.
    Files {
        /// Swapped in as a whole.
        files: Vec<PlanFile>,
    },
}

impl Plan {
    /// The values of its secret options. A name that the request does not bring is left out: recording such a plan was refused.
    pub fn secret_options(&self, secrets: &Secrets) -> SecretOptions {
        let Source::Filesystem { secret_options, .. } = &self.source else {
            return SecretOptions::default();
        };
        let value = |(option, secret): &(String, String)| {
            Some((option.clone(), secrets.get(secret)?.to_owned()))
        };
        secret_options.iter().filter_map(value).collect()
    }
}

impl Source {
    /// The step's name in the contract.
    pub fn step(&self) -> &'static str {
        match self {
            Source::Directory { .. } => "directory",
            Source::Image { .. } => "image",
            Source::Device { .. } => "device",
            Source::Filesystem { .. } => "filesystem",
            Source::Tmpfs { .. } => "tmpfs",
            Source::Files { .. } => "files",
        }
    }
}

/// A small file of a `files` source.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFile {
    /// Relative to the volume.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// Never formatted, never journaled.
    pub content: Vec<u8>,
}

impl fmt::Debug for PlanFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PlanFile({:?}, {:o}, {} bytes)",
            self.path,
            self.mode,
            self.content.len()
        )
    }
}
