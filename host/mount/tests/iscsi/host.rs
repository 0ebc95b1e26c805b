//! A host that is granted the target, and its volumes.

use crate::target::{PORTAL, TARGET, path, wwid};
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
use wasmount_core::plan::attached::{Chap, IscsiPath, SecretScope, option};
use wasmount_core::plan::{Iscsi, Plan, Source};
use wasmount_core::secrets::SecretOptions;
use wasmount_core::volume::{AccessMode, AccessType, MountAccess, VolumeCapability};
use wasmount_mount::{LocalMounter, MounterConfig, PathRoot};

/// How long a volume waits for its disk.
const WAIT_MS: u32 = 5000;

pub(crate) struct Host {
    folder: TempDir,
    driver: DriverName,
    pub(crate) mounter: LocalMounter,
}

/// What a volume is.
#[derive(Clone)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) paths: Vec<IscsiPath>,
    pub(crate) wwid: String,
    pub(crate) is_raw: bool,
    pub(crate) is_read_only: bool,
    pub(crate) chap: Option<[&'static str; 2]>,
    pub(crate) mutual_chap: Option<[&'static str; 2]>,
}

impl Volume {
    /// A file system on the disk with this number, at this logical unit.
    pub(crate) fn of(lun: u16, number: u32) -> Self {
        Self {
            name: format!("v{number}"),
            paths: vec![path(PORTAL, lun)],
            wwid: wwid(number),
            is_raw: false,
            is_read_only: false,
            chap: None,
            mutual_chap: None,
        }
    }

    fn capability(&self) -> VolumeCapability {
        let mode = match self.is_read_only {
            true => AccessMode::SingleNodeReaderOnly,
            false => AccessMode::SingleNodeWriter,
        };
        VolumeCapability {
            access_type: match self.is_raw {
                true => AccessType::Block,
                false => AccessType::Mount(MountAccess::default()),
            },
            access_mode: mode,
        }
    }

    fn plan(&self) -> Plan {
        let chap = |user: &str, password: &str| Chap {
            scope: SecretScope::Request,
            user: user.to_owned(),
            password: password.to_owned(),
        };
        Plan {
            source: Source::Iscsi(Iscsi {
                paths: self.paths.clone(),
                wwid: self.wwid.clone(),
                minimum_paths: 1,
                wait_ms: WAIT_MS,
                chap: self.chap.map(|_| chap("user", "password")),
                mutual_chap: self.mutual_chap.map(|_| chap("user-in", "password-in")),
            }),
            default_fs_type: None,
            mount_options: Vec::new(),
            notes: BTreeMap::new(),
        }
    }

    fn secrets(&self) -> SecretOptions {
        let pairs = |names: [&'static str; 2], values: Option<[&'static str; 2]>| {
            let values = values.into_iter().flatten();
            names.into_iter().zip(values)
        };
        let chap = pairs([option::CHAP_USER, option::CHAP_PASSWORD], self.chap);
        let mutual = pairs(
            [option::MUTUAL_CHAP_USER, option::MUTUAL_CHAP_PASSWORD],
            self.mutual_chap,
        );
        let all = chap.chain(mutual);
        all.map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::of("iscsi.test")
    }

    /// The host of a driver.
    pub(crate) fn of(driver: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["kubelet", "run", "state"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let driver = DriverName::parse(driver).unwrap();
        let mounter = mounter(folder.path(), &driver);
        Self {
            folder,
            driver,
            mounter,
        }
    }

    /// The next host, after this one was killed.
    pub(crate) fn restarted(self) -> Self {
        let Self {
            folder,
            driver,
            mounter: ended,
        } = self;
        drop(ended);
        let mounter = mounter(folder.path(), &driver);
        Self {
            folder,
            driver,
            mounter,
        }
    }

    pub(crate) async fn stage(&self, volume: &Volume) -> Result<(), MountError> {
        fs::create_dir_all(self.staging(volume)).unwrap();
        let request = StageVolume {
            key: self.key(volume),
            staging_path: node_path(&self.staging(volume)),
            capability: volume.capability(),
            plan: volume.plan(),
            secret_options: volume.secrets(),
        };
        self.mounter.stage(request).await
    }

    pub(crate) async fn publish(&self, volume: &Volume) -> Result<(), MountError> {
        let request = PublishVolume {
            key: self.key(volume),
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
            key: self.key(volume),
            target_path: node_path(&self.target(volume)),
        };
        self.mounter.unpublish(request).await
    }

    pub(crate) async fn unstage(&self, volume: &Volume) -> Result<(), MountError> {
        let request = UnstageVolume {
            key: self.key(volume),
            staging_path: node_path(&self.staging(volume)),
        };
        self.mounter.unstage(request).await
    }

    pub(crate) async fn expand(&self, volume: &Volume, bytes: u64) -> Result<u64, MountError> {
        let request = ExpandVolume {
            key: self.key(volume),
            volume_path: node_path(&self.staging(volume)),
            required_bytes: Some(bytes),
            limit_bytes: None,
            grows_object: false,
        };
        self.mounter.expand(request).await
    }

    /// What an earlier host left, recovered.
    pub(crate) async fn recover(&self) {
        let volumes = self.mounter.unsettled(self.driver.clone()).await.unwrap();
        for volume in volumes {
            let driver = self.driver.clone();
            self.mounter
                .recover(VolumeKey { driver, volume })
                .await
                .unwrap();
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
        let files = fs::read_dir(self.folder.path().join("run/journal")).unwrap();
        let files = files.map(|entry| entry.unwrap().path());
        files
            .filter(|path| path.extension().is_some_and(|it| it == "json"))
            .collect()
    }

    /// Everything that the host keeps, as text.
    pub(crate) fn kept(&self) -> String {
        let mut folders = vec![
            self.folder.path().join("run"),
            self.folder.path().join("state"),
        ];
        let mut text = String::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => text.push_str(&String::from_utf8_lossy(&fs::read(path).unwrap())),
                }
            }
        }
        text
    }

    fn key(&self, volume: &Volume) -> VolumeKey {
        VolumeKey {
            driver: self.driver.clone(),
            volume: VolumeId::parse("volume_id", volume.name.as_str()).unwrap(),
        }
    }
}

fn mounter(folder: &Path, driver: &DriverName) -> LocalMounter {
    let attach = AttachGrant {
        protocol: AttachProtocol::Iscsi,
        portals: ["127.0.0.1:3260", "192.0.2.0/24:3260"]
            .map(|portals| Portals::parse(portals).unwrap())
            .into(),
        targets: vec![TARGET.to_owned()],
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
        grants: BTreeMap::from([(driver.clone(), grants)]),
        threads_per_driver: 32,
        node_root: None,
    })
    .unwrap()
}

fn node_path(path: &Path) -> NodePath {
    NodePath::parse("path", path.to_str().unwrap()).unwrap()
}
