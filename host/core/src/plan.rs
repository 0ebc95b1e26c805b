//! The plan that `node-stage` and `node-publish` record: the description of a volume, as data.
//!
//! It contains no secret value: secret options name a secret, and the contents of `files` appear neither in `Debug` nor in the journal.

mod alternatives;
pub mod attached;
pub mod encryption;
pub mod rbd;

pub use alternatives::{ALTERNATIVES, Alternatives};
pub use attached::{Iscsi, Nvme};
pub use encryption::Luks;
pub use rbd::Rbd;

use crate::attributes::MAP_BYTES;
use crate::names::{InvalidField, check_length, check_no_nul};
use crate::secrets::{SecretOptions, Secrets};
use attached::SecretScope;
use rbd::Cephx;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Most bytes of all strings of a plan without the contents of files: the journal stores them, and the kernel accepts one page of mount options.
pub const PLAN_BYTES: usize = 32 << 10;
/// Most strings of a plan in lists.
pub const PLAN_STRINGS: usize = 256;
/// Most bytes of all contents of `files`: the limit of a Kubernetes Secret.
pub const FILE_BYTES: usize = 1 << 20;

/// One source and its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedPlan")]
pub struct Plan {
    /// The source of the volume.
    pub source: Source,
    /// Used if the request names no file system.
    pub default_fs_type: Option<String>,
    /// In addition to those of the request.
    pub mount_options: Vec<String>,
    /// Kept in the journal, passed to `node-hooks`.
    pub notes: BTreeMap<String, String>,
    /// The block device of the source is encrypted.
    pub luks: Option<Luks>,
}

/// The source of a volume.
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
    /// A block device of the node that matches all facts.
    Device {
        /// Such as `serial` = `..`.
        facts: Vec<(String, String)>,
        /// How long to wait for it, in milliseconds.
        wait_ms: u32,
    },
    /// A block device of the node that matches all facts of one alternative.
    AnyDevice {
        /// All of them lead to the same device, or to none.
        alternatives: Alternatives,
        /// Whether SCSI hosts are asked for new disks while it is missing.
        rescan: bool,
        /// How long to wait for it, in milliseconds.
        wait_ms: u32,
    },
    /// A disk behind iSCSI targets.
    Iscsi(Iscsi),
    /// A namespace of an NVMe subsystem over TCP.
    Nvme(Nvme),
    /// A file system that the kernel mounts by name.
    Filesystem {
        /// Such as `nfs4`.
        fs_type: String,
        /// In the form that the kernel expects.
        source: String,
        /// Plain options.
        options: Vec<String>,
        /// Option name to the name of a request secret.
        secret_options: Vec<(String, String)>,
        /// Option name to the name of a secret of the backend's document.
        #[serde(default)]
        backend_secret_options: Vec<(String, String)>,
        /// Option name to a sealed text, which the host opens.
        #[serde(default)]
        sealed_options: Vec<(String, String)>,
    },
    /// An empty file system in memory.
    Tmpfs {
        /// Absent: the kernel's default.
        size_bytes: Option<u64>,
    },
    /// Small files on a file system in memory.
    Files {
        /// Replaced as a whole.
        files: Vec<PlanFile>,
    },
    /// An image of a Ceph cluster.
    Rbd(Rbd),
}

/// A plan received from another process.
#[derive(Deserialize)]
struct UncheckedPlan {
    source: Source,
    default_fs_type: Option<String>,
    mount_options: Vec<String>,
    notes: BTreeMap<String, String>,
    luks: Option<Luks>,
}

/// A secret that a plan names: the option that it is, whose it is, and its name.
type Named<'s> = (&'s str, SecretScope, &'s str);

impl TryFrom<UncheckedPlan> for Plan {
    type Error = InvalidField;

    /// Enforces the rules of recording: a client of the mounter must not fill its journal.
    fn try_from(plan: UncheckedPlan) -> Result<Self, InvalidField> {
        let UncheckedPlan {
            source,
            default_fs_type,
            mount_options,
            notes,
            luks,
        } = plan;
        let notes_strings = notes.iter().flat_map(|(key, value)| [key, value]);
        let mut strings = source.strings();
        strings.extend(default_fs_type.as_deref());
        strings.extend(luks.as_ref().map(|luks| luks.key.as_str()));
        strings.extend(
            mount_options
                .iter()
                .chain(notes_strings)
                .map(String::as_str),
        );
        let bytes = strings.iter().map(|string| string.len());
        check_length("plan", bytes.sum(), PLAN_BYTES)?;
        check_length("files of a plan", source.file_bytes(), FILE_BYTES)?;
        let notes_bytes = notes.iter().map(|(key, value)| key.len() + value.len());
        check_length("notes of a plan", notes_bytes.sum(), MAP_BYTES)?;
        if strings.len() > PLAN_STRINGS {
            return Err(InvalidField::rule("plan", "has more than 256 strings"));
        }
        let mut strings = strings.into_iter();
        strings.try_for_each(|string| check_no_nul("plan", string))?;
        if luks.is_some() && !source.is_block_device() {
            let reason = "encrypts a volume that is not a block device";
            return Err(InvalidField::rule("plan", reason));
        }
        Ok(Self {
            source,
            default_fs_type,
            mount_options,
            notes,
            luks,
        })
    }
}

impl Plan {
    /// The values of its secret options that have names. A name without a secret is left out: the recording of such a plan was rejected.
    pub fn secret_options(&self, of_request: &Secrets, of_backend: &Secrets) -> SecretOptions {
        let mut named = self.source.named_secrets();
        named.extend(self.luks.as_ref().map(Luks::named_secret));
        let value = |(option, scope, name): Named<'_>| {
            let secrets = match scope {
                SecretScope::Request => of_request,
                SecretScope::Backend => of_backend,
            };
            Some((option.to_owned(), secrets.get(name)?.to_owned()))
        };
        named.into_iter().filter_map(value).collect()
    }
}

impl Source {
    /// Whether the volume is a block device, which can be encrypted.
    pub fn is_block_device(&self) -> bool {
        match self {
            Source::Image { .. }
            | Source::Device { .. }
            | Source::AnyDevice { .. }
            | Source::Iscsi(_)
            | Source::Nvme(_)
            | Source::Rbd(_) => true,
            Source::Directory { .. }
            | Source::Filesystem { .. }
            | Source::Tmpfs { .. }
            | Source::Files { .. } => false,
        }
    }

    fn named_secrets(&self) -> Vec<Named<'_>> {
        match self {
            Source::Iscsi(iscsi) => iscsi.named_secrets().collect(),
            Source::Nvme(nvme) => nvme.named_secrets().collect(),
            Source::Rbd(rbd) => rbd.cephx.iter().flat_map(Cephx::named_secrets).collect(),
            Source::Filesystem {
                secret_options,
                backend_secret_options,
                ..
            } => {
                let of_request = named(secret_options, SecretScope::Request);
                let of_backend = named(backend_secret_options, SecretScope::Backend);
                of_request.chain(of_backend).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Option names and their sealed texts.
    pub fn sealed_options(&self) -> &[(String, String)] {
        match self {
            Source::Filesystem { sealed_options, .. } => sealed_options,
            _ => &[],
        }
    }

    /// The step's name in the contract.
    pub fn step(&self) -> &'static str {
        match self {
            Source::Directory { .. } => "directory",
            Source::Image { .. } => "image",
            Source::Device { .. } => "device",
            Source::AnyDevice { .. } => "any-device",
            Source::Iscsi(_) => "iscsi",
            Source::Nvme(_) => "nvme",
            Source::Rbd(_) => "rbd",
            Source::Filesystem { .. } => "filesystem",
            Source::Tmpfs { .. } => "tmpfs",
            Source::Files { .. } => "files",
        }
    }

    /// All strings except the contents of files, which may be secrets and are not journaled.
    pub fn strings(&self) -> Vec<&str> {
        fn pairs(pairs: &[(String, String)]) -> impl Iterator<Item = &str> {
            pairs
                .iter()
                .flat_map(|(key, value)| [key.as_str(), value.as_str()])
        }
        match self {
            Source::Directory { pool, path } | Source::Image { pool, path } => vec![pool, path],
            Source::Device { facts, wait_ms: _ } => pairs(facts).collect(),
            Source::AnyDevice { alternatives, .. } => {
                let each = alternatives.each().iter();
                each.flat_map(|facts| pairs(facts)).collect()
            }
            Source::Iscsi(iscsi) => iscsi.strings(),
            Source::Nvme(nvme) => nvme.strings(),
            Source::Rbd(rbd) => rbd.strings(),
            Source::Filesystem {
                fs_type,
                source,
                options,
                secret_options,
                backend_secret_options,
                sealed_options,
            } => [fs_type, source]
                .into_iter()
                .chain(options)
                .map(String::as_str)
                .chain(pairs(secret_options))
                .chain(pairs(backend_secret_options))
                .chain(pairs(sealed_options))
                .collect(),
            Source::Tmpfs { size_bytes: _ } => Vec::new(),
            Source::Files { files } => files.iter().map(|file| file.path.as_str()).collect(),
        }
    }

    /// Bytes of all contents of files.
    pub fn file_bytes(&self) -> usize {
        match self {
            Source::Files { files } => files.iter().map(|file| file.content.len()).sum(),
            _ => 0,
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

fn named(options: &[(String, String)], scope: SecretScope) -> impl Iterator<Item = Named<'_>> {
    options
        .iter()
        .map(move |(option, name)| (option.as_str(), scope, name.as_str()))
}

#[cfg(test)]
mod tests;
