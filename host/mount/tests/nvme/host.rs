//! A host that is granted the subsystem, and its volumes.

use crate::target::{NQN, Target};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use wasmount_core::document::{AttachGrant, AttachProtocol, Grants, Portals};
use wasmount_core::mounter::{
    ExpandVolume, MountError, Mounter, PublishVolume, StageVolume, UnpublishVolume, UnstageVolume,
    VolumeKey,
};
use wasmount_core::names::{DriverName, NodePath, VolumeId};
use wasmount_core::plan::attached::{Dhchap, SecretScope, option};
use wasmount_core::plan::{Nvme, Plan, Source};
use wasmount_core::secrets::SecretOptions;
use wasmount_core::volume::{AccessMode, AccessType, MountAccess, VolumeCapability};
use wasmount_mount::{LocalMounter, MounterConfig, PathRoot};

/// The NQN and the id of the node.
pub(crate) const HOST_NQN: &str =
    "nqn.2014-08.org.nvmexpress:uuid:99999999-2222-4333-8444-555555555555";
/// How long a volume waits for its namespace.
const WAIT_MS: u32 = 3000;

pub(crate) struct Host {
    folder: TempDir,
    pub(crate) mounter: LocalMounter,
}

/// What a volume is.
#[derive(Clone)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) uuid: String,
    pub(crate) addresses: Vec<String>,
    pub(crate) minimum_paths: u32,
    pub(crate) is_raw: bool,
    pub(crate) is_read_only: bool,
    /// The host's, and the controller's.
    pub(crate) keys: [Option<&'static str>; 2],
}

impl Volume {
    /// A file system on the namespace with this number, at the first address.
    pub(crate) fn of(number: u32) -> Self {
        Self {
            name: format!("v{number}"),
            uuid: uuid(number),
            addresses: vec![Target::address(0)],
            minimum_paths: 1,
            is_raw: false,
            is_read_only: false,
            keys: [None, None],
        }
    }

    fn capability(&self) -> VolumeCapability {
        VolumeCapability {
            access_type: match self.is_raw {
                true => AccessType::Block,
                false => AccessType::Mount(MountAccess::default()),
            },
            access_mode: match self.is_read_only {
                true => AccessMode::SingleNodeReaderOnly,
                false => AccessMode::SingleNodeWriter,
            },
        }
    }

    fn plan(&self) -> Plan {
        let [host, controller] = self.keys;
        let dhchap = host.map(|_| Dhchap {
            scope: SecretScope::Request,
            host_key: "host".to_owned(),
            controller_key: controller.map(|_| "controller".to_owned()),
        });
        Plan {
            source: Source::Nvme(Nvme {
                addresses: self.addresses.clone(),
                subsystem: NQN.to_owned(),
                namespace_id: self.uuid.clone(),
                minimum_paths: self.minimum_paths,
                wait_ms: WAIT_MS,
                dhchap,
            }),
            default_fs_type: None,
            mount_options: Vec::new(),
            notes: BTreeMap::new(),
        }
    }

    fn secrets(&self) -> SecretOptions {
        let names = [option::HOST_KEY, option::CONTROLLER_KEY];
        let pairs = names.into_iter().zip(self.keys);
        let pairs = pairs.filter_map(|(name, key)| Some((name.to_owned(), key?.to_owned())));
        pairs.collect()
    }
}

impl Host {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["kubelet", "run", "state", "etc/nvme"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("etc/nvme/hostnqn"), HOST_NQN).unwrap();
        let mounter = mounter(folder.path());
        Self { folder, mounter }
    }

    /// The next host, after this one was killed.
    pub(crate) fn restarted(self) -> Self {
        let Self {
            folder,
            mounter: ended,
        } = self;
        drop(ended);
        let mounter = mounter(folder.path());
        Self { folder, mounter }
    }

    pub(crate) async fn stage(&self, volume: &Volume) -> Result<(), MountError> {
        fs::create_dir_all(self.staging(volume)).unwrap();
        let request = StageVolume {
            key: key(volume),
            staging_path: node_path(&self.staging(volume)),
            capability: volume.capability(),
            plan: volume.plan(),
            secret_options: volume.secrets(),
        };
        self.mounter.stage(request).await
    }

    pub(crate) async fn publish(&self, volume: &Volume) -> Result<(), MountError> {
        let request = PublishVolume {
            key: key(volume),
            staging_path: Some(node_path(&self.staging(volume))),
            target_path: node_path(&self.target(volume)),
            capability: volume.capability(),
            readonly: volume.is_read_only,
            plan: None,
            secret_options: SecretOptions::default(),
        };
        self.mounter.publish(request).await
    }

    pub(crate) async fn unpublish(&self, volume: &Volume) -> Result<(), MountError> {
        let request = UnpublishVolume {
            key: key(volume),
            target_path: node_path(&self.target(volume)),
        };
        self.mounter.unpublish(request).await
    }

    pub(crate) async fn unstage(&self, volume: &Volume) -> Result<(), MountError> {
        let request = UnstageVolume {
            key: key(volume),
            staging_path: node_path(&self.staging(volume)),
        };
        self.mounter.unstage(request).await
    }

    pub(crate) async fn expand(&self, volume: &Volume, bytes: u64) -> Result<u64, MountError> {
        let request = ExpandVolume {
            key: key(volume),
            volume_path: node_path(&self.staging(volume)),
            required_bytes: Some(bytes),
            limit_bytes: None,
            grows_object: false,
        };
        self.mounter.expand(request).await
    }

    /// What an earlier host left, recovered.
    pub(crate) async fn recover(&self) {
        for volume in self.mounter.unsettled(driver()).await.unwrap() {
            let driver = driver();
            let key = VolumeKey { driver, volume };
            self.mounter.recover(key).await.unwrap();
        }
    }

    pub(crate) fn staging(&self, volume: &Volume) -> PathBuf {
        self.folder.path().join("kubelet").join(&volume.name)
    }

    pub(crate) fn target(&self, volume: &Volume) -> PathBuf {
        let name = format!("{}-target", volume.name);
        self.folder.path().join("kubelet").join(name)
    }

    /// The files of the journal.
    pub(crate) fn journal(&self) -> Vec<PathBuf> {
        files(&self.folder.path().join("run/journal"))
    }

    /// The records of connections.
    pub(crate) fn connections(&self) -> Vec<PathBuf> {
        files(&self.folder.path().join("run/nvme"))
    }

    /// Everything that the host keeps, as text.
    pub(crate) fn kept(&self) -> String {
        let all = ["run", "state"].map(|name| files(&self.folder.path().join(name)));
        let texts = all.iter().flatten().map(|it| fs::read(it).unwrap());
        texts
            .map(|it| String::from_utf8_lossy(&it).into_owned())
            .collect()
    }
}

/// The identity of a namespace.
pub(crate) fn uuid(number: u32) -> String {
    format!("11111111-2222-4333-8444-{number:012}")
}

fn mounter(folder: &Path) -> LocalMounter {
    let attach = AttachGrant {
        protocol: AttachProtocol::NvmeTcp,
        portals: [Target::address(0), Target::address(1)]
            .map(|address| Portals::parse(&address).unwrap())
            .into(),
        targets: vec![NQN.to_owned()],
        mount_options: Vec::new(),
    };
    let grants = Grants {
        attach: vec![attach],
        ..Grants::default()
    };
    LocalMounter::new(MounterConfig {
        roots: vec![PathRoot::Any(folder.join("kubelet"))],
        own: Vec::new(),
        run_dir: folder.join("run"),
        state_dir: folder.join("state"),
        grants: BTreeMap::from([(driver(), grants)]),
        threads_per_driver: 8,
        node_root: Some(folder.to_owned()),
    })
    .unwrap()
}

/// All files below a directory, except those that are locked or being written.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

fn driver() -> DriverName {
    DriverName::parse("nvme.test").unwrap()
}

fn key(volume: &Volume) -> VolumeKey {
    VolumeKey {
        driver: driver(),
        volume: VolumeId::parse("volume_id", volume.name.as_str()).unwrap(),
    }
}

fn node_path(path: &Path) -> NodePath {
    NodePath::parse("path", path.to_str().unwrap()).unwrap()
}
