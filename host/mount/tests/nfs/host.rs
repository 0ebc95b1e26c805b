//! A host with a pool on the server, a pool in a directory, and volumes on the server.

use crate::server::LOOPBACK;
use crate::start;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use wasmount_core::document::{FilesystemGrant, Grants, PoolGrant, PoolMount, PoolStorage};
use wasmount_core::mounter::{MountError, Mounter, StageVolume, UnstageVolume, VolumeKey};
use wasmount_core::names::{DriverName, NodePath, VolumeId};
use wasmount_core::plan::{Plan, Source};
use wasmount_core::pool::{PoolCall, PoolReply};
use wasmount_core::secrets::SecretOptions;
use wasmount_core::volume::{AccessMode, AccessType, MountAccess, VolumeCapability};
use wasmount_mount::{LocalMounter, MounterConfig, PathRoot};

/// The pool on the server.
pub(crate) const NAS: &str = "nas";
/// The pool in a directory.
pub(crate) const LOCAL: &str = "local";
/// Requests end a few seconds after the kernel gave up to connect.
pub(crate) const QUICK: [&str; 2] = ["timeo=10", "retrans=1"];
/// Longer than any request of a pool with [`QUICK`] options waits for a server.
pub(crate) const BOUND: Duration = Duration::from_secs(90);

pub(crate) struct Host {
    folder: TempDir,
    pub(crate) mounter: Option<LocalMounter>,
    grants: Grants,
}

impl Host {
    /// A host whose pool on the server is a path of it, with mount options.
    pub(crate) fn new(path: &str, options: &[&str]) -> Self {
        Self::at(LOOPBACK, path, options)
    }

    /// The same, with the server's address.
    pub(crate) fn at(server: &str, path: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["local", "kubelet", "run", "state"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let pool = |storage| PoolGrant {
            storage,
            full_copies: true,
            mount_options: Vec::new(),
        };
        let mount = PoolMount {
            fs_type: "nfs4".to_owned(),
            source: format!("{server}:/{path}"),
            options: options.iter().map(|&option| option.to_owned()).collect(),
        };
        let local = PoolStorage::Directory(folder.path().join("local"));
        let filesystem = FilesystemGrant {
            fs_type: "nfs4".to_owned(),
            sources: vec![format!("{server}:/{path}/*")],
            mount_options: Vec::new(),
            max_bytes: None,
        };
        let grants = Grants {
            pools: BTreeMap::from([
                (NAS.to_owned(), pool(PoolStorage::Mount(mount))),
                (LOCAL.to_owned(), pool(local)),
            ]),
            filesystems: vec![filesystem],
            ..Grants::default()
        };
        let mut host = Self {
            folder,
            mounter: None,
            grants,
        };
        host.start();
        host
    }

    pub(crate) fn stop(&mut self) {
        self.mounter = None;
    }

    pub(crate) fn start(&mut self) {
        let path = |name: &str| self.folder.path().join(name);
        let mounter = start::mounter(MounterConfig {
            roots: vec![PathRoot::Any(path("kubelet"))],
            own: Vec::new(),
            run_dir: path("run"),
            state_dir: path("state"),
            grants: BTreeMap::from([(driver(), self.grants.clone())]),
            threads_per_driver: 4,
            node_root: None,
        });
        self.mounter = Some(mounter);
    }

    /// The host without the grants.
    pub(crate) fn withdraw(&self) {
        let mounter = self.mounter.as_ref().unwrap();
        mounter.set_grants(&driver(), None).unwrap();
    }

    pub(crate) async fn call(&self, call: PoolCall) -> Result<PoolReply, MountError> {
        self.mounter.as_ref().unwrap().pool(driver(), call).await
    }

    /// The directory of mount points.
    pub(crate) fn mount_points(&self) -> PathBuf {
        self.folder.path().join("run/pools")
    }

    /// Lines of the mount table for the pool: id, mount point, options, source.
    pub(crate) fn mounts(&self) -> Vec<[String; 4]> {
        mounts_below(&self.mount_points())
    }

    pub(crate) fn staging(&self, volume: &str) -> PathBuf {
        self.folder.path().join("kubelet").join(volume)
    }

    pub(crate) async fn stage(&self, volume: &str, source: &str) -> Result<(), MountError> {
        fs::create_dir_all(self.staging(volume)).unwrap();
        let request = StageVolume {
            key: key(volume),
            staging_path: node_path(&self.staging(volume)),
            capability: VolumeCapability {
                access_type: AccessType::Mount(MountAccess::default()),
                access_mode: AccessMode::MultiNodeMultiWriter,
            },
            plan: Plan {
                source: Source::Filesystem {
                    fs_type: "nfs4".to_owned(),
                    source: source.to_owned(),
                    options: Vec::new(),
                    secret_options: Vec::new(),
                    backend_secret_options: Vec::new(),
                    sealed_options: Vec::new(),
                },
                default_fs_type: None,
                mount_options: Vec::new(),
                notes: BTreeMap::new(),
                luks: None,
            },
            secret_options: SecretOptions::default(),
        };
        self.mounter.as_ref().unwrap().stage(request).await
    }

    pub(crate) async fn unstage(&self, volume: &str) -> Result<(), MountError> {
        let request = UnstageVolume {
            key: key(volume),
            staging_path: node_path(&self.staging(volume)),
        };
        self.mounter.as_ref().unwrap().unstage(request).await
    }
}

pub(crate) fn mounts_below(directory: &Path) -> Vec<[String; 4]> {
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let lines = table
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let below = lines.filter(|words| Path::new(words[4]).starts_with(directory));
    let shown = below.map(|words| {
        let hyphen = words.iter().position(|word| *word == "-").unwrap();
        [words[0], words[4], words[5], words[hyphen + 2]].map(str::to_owned)
    });
    shown.collect()
}

pub(crate) fn create(pool: &str, path: &str) -> PoolCall {
    let (pool, path) = (pool.to_owned(), path.to_owned());
    PoolCall::CreateDirectory { pool, path }
}

pub(crate) fn remove(pool: &str, path: &str) -> PoolCall {
    let (pool, path) = (pool.to_owned(), path.to_owned());
    PoolCall::RemoveDirectory { pool, path }
}

pub(crate) fn copy(source: &str, target: &str) -> PoolCall {
    PoolCall::CloneDirectory {
        pool: NAS.to_owned(),
        source: source.to_owned(),
        target: target.to_owned(),
    }
}

pub(crate) fn rename(source: &str, target: &str) -> PoolCall {
    PoolCall::Rename {
        pool: NAS.to_owned(),
        source: source.to_owned(),
        target: target.to_owned(),
    }
}

fn driver() -> DriverName {
    DriverName::parse("nfs.test").unwrap()
}

fn key(volume: &str) -> VolumeKey {
    VolumeKey {
        driver: driver(),
        volume: VolumeId::parse("volume_id", volume).unwrap(),
    }
}

fn node_path(path: &Path) -> NodePath {
    NodePath::parse("path", path.to_str().unwrap()).unwrap()
}
