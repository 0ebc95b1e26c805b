//! The `StorageBackend` document after parsing: what an administrator says about one backend. The same document is a local YAML file and, later, a
//! CRD.
//!
//! It knows neither YAML nor files: [`raw`] is the shape on disk, `check` turns it into these words, and parsing text is the binary's, which can
//! point at a line.

pub mod amounts;
mod check;
mod csi_driver;
mod key_path;
mod plugin_source;
pub mod raw;
mod version_policy;

pub use csi_driver::{CsiDriver, FsGroupPolicy, TokenRequest, VolumeLifecycleMode};
pub use key_path::{InvalidDocument, KeyPath};
pub use plugin_source::{
    DIGEST_PREFIX, InvalidReference, PluginPlace, PluginSource, PublicKey, REFERENCE_SCHEME,
    Reference, RegistryPlace, Signers, is_digest, without_credentials,
};
pub use version_policy::VersionPolicy;

use crate::attributes::Attributes;
use crate::capabilities::Hidden;
use crate::device_fact::DeviceFact;
use crate::names::DriverName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One backend, checked. Made only from a [`raw::Document`], so that whoever holds one need not check it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StorageBackend {
    /// `metadata.name`: how an administrator calls it.
    pub name: String,
    /// The CSI driver's name.
    pub driver_name: DriverName,
    /// Where the component comes from.
    pub plugin: PluginSource,
    /// `call.settings` of the plugin.
    pub settings: Attributes,
    /// The backend's secrets, by name: where each is read.
    pub secrets: BTreeMap<String, SecretSource>,
    /// What the plugin may use.
    pub grants: Grants,
    /// How much it may use.
    pub limits: Limits,
    /// How its versions follow one another.
    pub versions: VersionPolicy,
    /// Capabilities that are neither advertised nor served.
    pub hidden: Hidden,
    /// What the Kubernetes object of the driver says beyond what the exports tell.
    pub csi_driver: CsiDriver,
}

/// How much of WASI is there to be imported. With neither word a plugin has files or a network: the first does not offer them, the second
/// denies each call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wasi {
    /// Clocks, random numbers, standard output and what else needs no denial.
    #[default]
    Minimal,
    /// All of the world `wasi:cli/imports`, for language runtimes that import files and sockets whether they use them or not.
    Full,
}

/// Where a secret of the backend's is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecretSource {
    /// A file; its content without a last line break. Absolute, or relative to the document.
    File(PathBuf),
    /// One value of a Kubernetes Secret.
    Object {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Which of its values.
        key: String,
    },
}

/// What a plugin may use. Absent means denied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// Pools by name.
    pub pools: BTreeMap<String, PoolGrant>,
    /// File systems that the kernel mounts by name; `tmpfs` for the step of that name.
    pub filesystems: Vec<FilesystemGrant>,
    /// Block devices of the node.
    pub devices: Vec<DeviceGrant>,
    /// Requests may choose the SELinux label of a whole mount (`csiDriver.seLinuxMount`).
    pub selinux_mount: bool,
}

/// A directory whose trees and images a plugin may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolGrant {
    /// Absolute, or relative to the data directory until [`Grants::resolved`].
    pub path: PathBuf,
    /// Clones may copy all data where the file system cannot share blocks.
    pub full_copies: bool,
    /// Mount options beyond the harmless ones, such as `suid` or `dev`.
    pub mount_options: Vec<String>,
}

/// A type of file system that a plugin may mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesystemGrant {
    /// Such as `nfs4`.
    pub fs_type: String,
    /// Patterns of sources: exact, or with a `*` at the end.
    pub sources: Vec<String>,
    /// Mount options beyond the harmless ones.
    pub mount_options: Vec<String>,
    /// Largest size in bytes, for `tmpfs`.
    pub max_bytes: Option<u64>,
}

/// Block devices that a plugin may use: those of which all these facts hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceGrant {
    /// Fact, such as `serial`, and the pattern of its value: exact, or with a `*` at the end. Never empty.
    pub facts: BTreeMap<DeviceFact, String>,
    /// Mount options beyond the harmless ones.
    pub mount_options: Vec<String>,
}

/// How much a plugin may use. The defaults are what a small backend never notices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Linear memory of one call, in bytes. 64 MiB: the Rust, C and Go guests that were measured need under 20.
    pub memory_bytes: u64,
    /// Wall time of one call. 60 s: above every sidecar's default deadline, so that a retry finds the work done.
    pub time: Duration,
    /// CPU time of one call. 10 s: a hundred times what the slowest guest that was measured takes to start.
    pub cpu: Duration,
    /// Calls at a time. 32: three times the attacher's default of 10 workers.
    pub concurrency: usize,
    /// Bytes that one host call may carry in either direction. 4 MiB: gRPC's own message limit.
    pub host_call_bytes: usize,
    /// Table elements of one instance. 100,000: Spin's figure, with which Python and JavaScript guests were run.
    pub table_elements: usize,
    /// Open handles of one instance. 1,000: a call opens a handful; upstream's default of 100,000 let guests exhaust a host
    /// (GHSA-852m-cvvp-9p4w).
    pub handles: usize,
    /// Bytes that all records of the backend may take in the store, as [`crate::state::record_bytes`] counts. 256 MiB: 100,000 volumes with
    /// 2 KiB of records each; a store is no place for data, and a disk belongs to the whole node.
    pub state_bytes: u64,
    /// Takes ids above 128 bytes from the plugin.
    pub long_ids: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            time: Duration::from_secs(60),
            cpu: Duration::from_secs(10),
            concurrency: 32,
            host_call_bytes: 4 << 20,
            table_elements: 100_000,
            handles: 1000,
            state_bytes: 256 << 20,
            long_ids: false,
        }
    }
}

impl Grants {
    /// Makes relative pool paths absolute, below `base`.
    pub fn resolved(mut self, base: &Path) -> Self {
        for pool in self.pools.values_mut() {
            if pool.path.is_relative() {
                pool.path = base.join(&pool.path);
            }
        }
        self
    }
}

impl TryFrom<raw::Document> for StorageBackend {
    type Error = InvalidDocument;

    /// Checks everything that can be checked without the node: a path's existence cannot, its form can.
    fn try_from(document: raw::Document) -> Result<Self, InvalidDocument> {
        check::document(document)
    }
}
