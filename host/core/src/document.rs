//! The `StorageBackend` document after parsing: the administrator's description of one backend. The same document is a local YAML file or a
//! StorageBackend object of Kubernetes.
//!
//! This module knows neither YAML nor files: [`raw`] is the shape on disk and `check` validates it. The binary parses text, since it can report a
//! line number.

pub mod amounts;
mod attach;
mod check;
mod csi_driver;
mod key_path;
pub mod network;
mod plugin_source;
pub mod raw;
mod rollout;
mod version_policy;

pub use attach::{AttachGrant, AttachProtocol, Portals};
pub use csi_driver::{CsiDriver, FsGroupPolicy, TokenRequest, VolumeLifecycleMode};
pub use key_path::{InvalidDocument, KeyPath};
pub use plugin_source::{
    DIGEST_PREFIX, InvalidReference, PluginPlace, PluginSource, PublicKey, REFERENCE_SCHEME,
    Reference, RegistryPlace, Signers, is_digest, without_credentials,
};
pub use rollout::{Rollout, RolloutStep, StepHosts};
pub use version_policy::VersionPolicy;

use crate::attributes::Attributes;
use crate::capabilities::Hidden;
use crate::device_fact::DeviceFact;
use crate::names::DriverName;
use crate::node_fact::NodeFact;
use network::{NetworkGrant, Use};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One backend, checked. It is only constructed from a [`raw::Document`], so its users need not check it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StorageBackend {
    /// `metadata.name`: the administrator's name for it.
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
    /// Its limits.
    pub limits: Limits,
    /// How many versions are kept, and when a version is rolled back.
    pub versions: VersionPolicy,
    /// The steps by which a change reaches the hosts. Of an object only, and no part of a version: whoever serves a document takes it out first.
    #[serde(skip)]
    pub rollout: Option<Rollout>,
    /// Capabilities that are neither advertised nor served.
    pub hidden: Hidden,
    /// The settings of the CSIDriver object that the exports do not determine.
    pub csi_driver: CsiDriver,
}

/// How much of WASI can be imported. Neither value gives a plugin files or a network: the first does not offer them, the second denies each call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wasi {
    /// Clocks, random numbers, standard output and all else that needs no denial.
    #[default]
    Minimal,
    /// All of the world `wasi:cli/imports`, for language runtimes that import files and sockets even if they do not use them.
    Full,
}

/// The source of a backend's secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecretSource {
    /// A file; its content without a final line break. Absolute, or relative to the document.
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
    /// File systems that the kernel mounts by name; `tmpfs` also for the plan step of that name.
    pub filesystems: Vec<FilesystemGrant>,
    /// Block devices of the node.
    pub devices: Vec<DeviceGrant>,
    /// Targets whose disks the mounter may attach for the plugin. Absent in grants that earlier hosts stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attach: Vec<AttachGrant>,
    /// Storage systems that the plugin may send requests to, by the names that it gives them. Absent in grants that earlier hosts stored.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub network: BTreeMap<String, NetworkGrant>,
    /// Facts of the node that the node service may read. Absent in grants that earlier hosts stored.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub node_facts: BTreeSet<NodeFact>,
    /// Facts of every node that the controller service may read. Absent in grants that earlier hosts stored.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub nodes: BTreeSet<NodeFact>,
    /// The secrets for sealing. Absent in grants that earlier hosts stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealing: Option<SealingGrant>,
    /// Requests may set the SELinux label of a whole mount (`csiDriver.seLinuxMount`).
    pub selinux_mount: bool,
}

/// A directory or an export whose trees and images a plugin may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolGrant {
    /// Where they are. Stored as `path` or `mount`, as hosts before the second one wrote it.
    #[serde(flatten)]
    pub storage: PoolStorage,
    /// Clones may copy all data if the file system cannot share blocks.
    pub full_copies: bool,
    /// Mount options beyond the harmless ones, such as `suid` or `dev`.
    pub mount_options: Vec<String>,
}

/// Where the content of a pool is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolStorage {
    /// A directory of the node. Absolute, or relative to the data directory until [`Grants::resolved`].
    #[serde(rename = "path")]
    Directory(PathBuf),
    /// A file system that the host mounts itself before the pool is used.
    #[serde(rename = "mount")]
    Mount(PoolMount),
}

/// The file system of a pool that the host mounts itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolMount {
    /// Such as `nfs4`; one of [`PoolMount::TYPES`].
    pub fs_type: String,
    /// Such as `nas.example.com:/export`. Not a pattern.
    pub source: String,
    /// Mount options of the administrator.
    pub options: Vec<String>,
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

/// Block devices that a plugin may use: those that match all these facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceGrant {
    /// Fact, such as `serial`, and the pattern of its value: exact, or with a `*` at the end. Never empty.
    pub facts: BTreeMap<DeviceFact, String>,
    /// Whether a plan may have SCSI hosts look for new disks.
    #[serde(default)]
    pub rescan: bool,
    /// Mount options beyond the harmless ones.
    pub mount_options: Vec<String>,
}

/// The secrets from which the keys of sealed texts are derived, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealingGrant {
    /// For sealing and for opening.
    pub secret: String,
    /// For opening alone.
    pub previous_secrets: Vec<String>,
}

/// The limits of a plugin. The defaults are above what a small backend needs.
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
    /// Bytes that all records of the backend may take in the store, as [`crate::state::record_bytes`] counts. 256 MiB: 100,000 volumes with 2 KiB of
    /// records each; a store is not meant for bulk data, and the whole node shares the disk.
    pub state_bytes: u64,
    /// Accepts ids above 128 bytes from the plugin.
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
    /// The grants that a mounter applies. Those of the network and of sealing belong to each version by itself.
    pub fn of_mounter(&self) -> Self {
        Self {
            network: BTreeMap::new(),
            sealing: None,
            ..self.clone()
        }
    }

    /// Facts of the node that one of the services may read.
    pub fn facts(&self) -> BTreeSet<NodeFact> {
        &self.node_facts | &self.nodes
    }

    /// The names of the secrets that the host uses for the plugin, and hides from it.
    pub fn held_secrets(&self) -> BTreeSet<String> {
        let grants = self.network.values();
        let of_network = grants.flat_map(|grant| grant.secret_names());
        let of_sealing = self.sealing.iter().flat_map(SealingGrant::secret_names);
        of_network.chain(of_sealing).map(str::to_owned).collect()
    }

    /// Those of them that only identify the host, by every field that names them.
    pub fn identifiers(&self) -> BTreeSet<String> {
        let (mut secrets, mut identifiers) = (BTreeSet::new(), BTreeSet::new());
        for used in self.network.values().flat_map(NetworkGrant::uses) {
            match used {
                Use::Secret(name) => secrets.insert(name.to_owned()),
                Use::Identifier(name) => identifiers.insert(name.to_owned()),
            };
        }
        &identifiers - &secrets
    }

    /// Makes relative pool paths absolute, below `base`.
    pub fn resolved(mut self, base: &Path) -> Self {
        for pool in self.pools.values_mut() {
            if let PoolStorage::Directory(path) = &mut pool.storage
                && path.is_relative()
            {
                *path = base.join(&path);
            }
        }
        self
    }
}

impl SealingGrant {
    /// Most secrets for opening alone. 8: a rotation each year outlasts most volumes, and each is tried on a text that was changed.
    pub const PREVIOUS_SECRETS: usize = 8;

    /// All of them, that for sealing first.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        let previous = self.previous_secrets.iter().map(String::as_str);
        [self.secret.as_str()].into_iter().chain(previous)
    }
}

impl PoolGrant {
    /// The directory of the node, unless the host mounts the pool.
    pub fn directory(&self) -> Option<&Path> {
        match &self.storage {
            PoolStorage::Directory(path) => Some(path),
            PoolStorage::Mount(_) => None,
        }
    }

    /// What the host mounts for the pool.
    pub fn mount(&self) -> Option<&PoolMount> {
        match &self.storage {
            PoolStorage::Directory(_) => None,
            PoolStorage::Mount(mount) => Some(mount),
        }
    }
}

impl PoolMount {
    /// Types that can be mounted for a pool. A pool needs directories, owners and locks as a local file system has them.
    pub const TYPES: [&str; 1] = ["nfs4"];
}
