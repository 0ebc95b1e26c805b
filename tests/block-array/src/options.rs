//! How an array behaves.

use crate::secret::Secret;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The user that may log in, unless an administrator names another.
pub const USER: &str = "storage-operator";

/// Its password, which is no secret unless an administrator chooses another: a test searches for it where it must not be.
pub const PASSWORD: &str = "open-sesame-4711";

/// What every token begins with: a test searches for it where it must not be.
pub const TOKEN_PREFIX: &str = "array-token-";

/// Capacity of an array unless someone says otherwise, in bytes: enough for every test of csi-sanity at once.
pub const TOTAL_BYTES: u64 = 1 << 40;

/// The most volumes of an array unless someone says otherwise: a state of some megabytes.
pub const MOST_VOLUMES: usize = 10_000;

/// How an array behaves.
#[derive(Debug, Clone)]
pub struct ArrayOptions {
    /// Capacity in bytes.
    pub total_bytes: u64,
    /// The most volumes.
    pub most_volumes: usize,
    /// The time until a new volume or snapshot is ready, beside the time that its copy takes.
    pub job: Duration,
    /// Hosts that are known from the beginning.
    pub hosts: Vec<String>,
    /// The user that may log in.
    pub user: String,
    /// Its password.
    pub password: Secret,
    /// Where volumes and the state are kept; in memory if there is none, and then volumes have no contents.
    pub directory: Option<PathBuf>,
    /// How hosts reach the contents of volumes; needs a directory.
    pub protocol: Protocol,
}

/// A way to the contents of volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protocol {
    /// None: volumes can be attached, and nobody can read or write them.
    None,
    /// iSCSI, at these portals.
    Iscsi(Vec<SocketAddr>),
    /// NVMe over TCP, at these portals.
    NvmeTcp(Vec<SocketAddr>),
}

impl Default for ArrayOptions {
    /// In memory; jobs are done at once; the node of the tests' hosts is known.
    fn default() -> Self {
        Self {
            total_bytes: TOTAL_BYTES,
            most_volumes: MOST_VOLUMES,
            job: Duration::ZERO,
            hosts: vec!["test-node".to_owned()],
            user: USER.to_owned(),
            password: PASSWORD.into(),
            directory: None,
            protocol: Protocol::None,
        }
    }
}
