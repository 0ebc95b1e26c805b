//! A host that is granted a target, and what it does with volumes.

use crate::start;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use wasmount_core::document::{AttachGrant, Grants};
use wasmount_core::mounter::{
    ExpandVolume, MountError, Mounter, PublishVolume, StageVolume, UnpublishVolume, UnstageVolume,
    VolumeKey,
};
use wasmount_core::names::{DriverName, NodePath, VolumeId};
use wasmount_core::plan::{Plan, Source};
use wasmount_core::secrets::SecretOptions;
use wasmount_core::volume::{AccessMode, AccessType, MountAccess, VolumeCapability};
use wasmount_mount::{LocalMounter, MounterConfig, PathRoot};

/// A host whose driver is granted a target.
pub(crate) struct Host {
    folder: PathBuf,
    /// Removes it.
    _owned: Option<TempDir>,
    driver: DriverName,
    grant: AttachGrant,
    pub(crate) mounter: LocalMounter,
}

/// A volume of a protocol.
pub(crate) trait Volume {
    fn name(&self) -> &str;
    fn source(&self) -> Source;
    fn secrets(&self) -> SecretOptions;
    fn is_raw(&self) -> bool;
    fn is_read_only(&self) -> bool;

    fn capability(&self) -> VolumeCapability {
        VolumeCapability {
            access_type: match self.is_raw() {
                true => AccessType::Block,
                false => AccessType::Mount(MountAccess::default()),
            },
            access_mode: match self.is_read_only() {
                true => AccessMode::SingleNodeReaderOnly,
                false => AccessMode::SingleNodeWriter,
            },
        }
    }

    fn plan(&self) -> Plan {
        Plan {
            source: self.source(),
            default_fs_type: None,
            mount_options: Vec::new(),
            notes: BTreeMap::new(),
            luks: None,
        }
    }
}

impl Host {
    /// In the root directory of this process, and with what `etc` has in the place of the node's `/etc`.
    pub(crate) fn of(driver: &str, grant: AttachGrant, etc: &[(&str, &str)]) -> Self {
        let owned = tempfile::tempdir().unwrap();
        let mut host = Self::at(owned.path(), driver, grant, etc);
        host._owned = Some(owned);
        host
    }

    /// The same in a directory that outlives it.
    pub(crate) fn at(
        folder: &Path,
        driver: &str,
        grant: AttachGrant,
        etc: &[(&str, &str)],
    ) -> Self {
        for name in ["kubelet", "run", "state"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        for (name, content) in etc {
            let file = folder.join("etc").join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        let driver = DriverName::parse(driver).unwrap();
        Self {
            mounter: mounter(folder, &driver, &grant),
            folder: folder.to_owned(),
            _owned: None,
            driver,
            grant,
        }
    }

    /// The next host, after this one was killed.
    pub(crate) fn restarted(self) -> Self {
        self.after(|_| {})
    }

    /// The next host, without the run directory of this one.
    pub(crate) fn restarted_without_run_directory(self) -> Self {
        self.after(|folder| {
            let run = folder.join("run");
            fs::remove_dir_all(&run).unwrap();
            fs::create_dir(run).unwrap();
        })
    }

    /// The next host, which no document names, once the mounter has recovered what it does by itself.
    pub(crate) async fn restarted_without_document(self) -> Self {
        self.restarted_beside(&[]).await
    }

    /// The same if documents name these drivers.
    pub(crate) async fn restarted_beside(self, documented: &[&str]) -> Self {
        let host = self.after(|_| {});
        let documented = documented.iter().map(|it| DriverName::parse(*it).unwrap());
        let documented: BTreeSet<_> = documented.collect();
        if !documented.contains(&host.driver) {
            host.mounter.set_grants(&host.driver, None).unwrap();
        }
        let recovering = host.mounter.recover_without_document(&documented);
        recovering.await.unwrap();
        host
    }

    fn after(self, happened: impl Fn(&Path)) -> Self {
        let Self {
            folder,
            _owned,
            driver,
            grant,
            mounter: ended,
        } = self;
        drop(ended);
        happened(&folder);
        Self {
            mounter: mounter(&folder, &driver, &grant),
            folder,
            _owned,
            driver,
            grant,
        }
    }

    pub(crate) async fn stage(&self, volume: &impl Volume) -> Result<(), MountError> {
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

    pub(crate) async fn publish(&self, volume: &impl Volume) -> Result<(), MountError> {
        let request = PublishVolume {
            key: self.key(volume),
            staging_path: Some(node_path(&self.staging(volume))),
            target_path: node_path(&self.target(volume)),
            capability: volume.capability(),
            readonly: volume.is_read_only(),
            plan: None,
            secret_options: SecretOptions::default(),
        };
        self.mounter.publish(request).await
    }

    pub(crate) async fn unpublish(&self, volume: &impl Volume) -> Result<(), MountError> {
        let request = UnpublishVolume {
            key: self.key(volume),
            target_path: node_path(&self.target(volume)),
        };
        self.mounter.unpublish(request).await
    }

    pub(crate) async fn unstage(&self, volume: &impl Volume) -> Result<(), MountError> {
        let request = UnstageVolume {
            key: self.key(volume),
            staging_path: node_path(&self.staging(volume)),
        };
        self.mounter.unstage(request).await
    }

    pub(crate) async fn expand(&self, volume: &impl Volume, bytes: u64) -> Result<u64, MountError> {
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
            let key = VolumeKey { driver, volume };
            self.mounter.recover(key).await.unwrap();
        }
    }

    pub(crate) fn staging(&self, volume: &impl Volume) -> PathBuf {
        self.folder.join("kubelet").join(volume.name())
    }

    pub(crate) fn target(&self, volume: &impl Volume) -> PathBuf {
        let name = format!("{}-target", volume.name());
        self.folder.join("kubelet").join(name)
    }

    /// The files of the journal.
    pub(crate) fn journal(&self) -> Vec<PathBuf> {
        files(&self.folder.join("run/journal"))
    }

    /// The records of connections.
    pub(crate) fn connections(&self) -> Vec<PathBuf> {
        files(&self.folder.join("state/nvme"))
    }

    /// Everything that the host keeps, as text.
    pub(crate) fn kept(&self) -> String {
        let all = ["run", "state"].map(|name| files(&self.folder.join(name)));
        let texts = all.iter().flatten().map(|it| fs::read(it).unwrap());
        texts
            .map(|it| String::from_utf8_lossy(&it).into_owned())
            .collect()
    }

    fn key(&self, volume: &impl Volume) -> VolumeKey {
        VolumeKey {
            driver: self.driver.clone(),
            volume: VolumeId::parse("volume_id", volume.name()).unwrap(),
        }
    }
}

fn mounter(folder: &Path, driver: &DriverName, grant: &AttachGrant) -> LocalMounter {
    let grants = Grants {
        attach: vec![grant.clone()],
        ..Grants::default()
    };
    start::mounter(MounterConfig {
        roots: vec![PathRoot::Any(folder.join("kubelet"))],
        own: Vec::new(),
        run_dir: folder.join("run"),
        state_dir: folder.join("state"),
        grants: BTreeMap::from([(driver.clone(), grants)]),
        threads_per_driver: 32,
        node_root: folder.join("etc").exists().then(|| folder.to_owned()),
    })
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

fn node_path(path: &Path) -> NodePath {
    NodePath::parse("path", path.to_str().unwrap()).unwrap()
}
