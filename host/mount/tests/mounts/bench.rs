//! The test setup: a mount namespace, a pool, a kubelet directory on a shared mount, and requests as a client would send them.

mod devices;
mod forms;
mod privileged;
mod take_off;

pub(crate) use devices::NodeDevice;
use forms::{Form, Server};
use privileged::share;
pub(crate) use privileged::{privileged, privileged_alone};
pub(crate) use take_off::take_off;

use rustix::mount::{MountFlags, mount};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wasmount_core::mounter::{
    MountError, Mounter, PublishVolume, StageVolume, Staged, StagedQuery, UnpublishVolume,
    UnstageVolume, VolumeKey,
};
use wasmount_core::names::{DriverName, NodePath, VolumeId};
use wasmount_core::plan::{Plan, Source};
use wasmount_core::pool::PoolCall;
use wasmount_core::secrets::SecretOptions;
use wasmount_core::volume::{AccessMode, AccessType, MountAccess, VolumeCapability};

/// The pool of the tests' driver.
const POOL: &str = "main";
pub(crate) const WRITER: AccessMode = AccessMode::SingleNodeWriter;
/// Largest tmpfs that is granted to the tests' driver, in bytes.
pub(crate) const TMPFS_BYTES: u64 = 1 << 20;
/// Prefix of the names in `/dev/disk/by-id` that are granted to the tests' driver.
const DEVICE_PREFIX: &str = "wasmount-test-";

pub(crate) struct Bench {
    directory: PathBuf,
    form: Form,
    pub(crate) mounter: Arc<dyn Mounter>,
    /// The server of the mounter, which ends with it.
    server: Option<Server>,
}

pub(crate) fn driver() -> DriverName {
    DriverName::parse("directory.test").unwrap()
}

pub(crate) fn key(volume: &str) -> VolumeKey {
    VolumeKey {
        driver: driver(),
        volume: VolumeId::parse("volume_id", volume).unwrap(),
    }
}

pub(crate) fn capability(access_mode: AccessMode) -> VolumeCapability {
    VolumeCapability {
        access_type: AccessType::Mount(MountAccess::default()),
        access_mode,
    }
}

pub(crate) fn with_flags(access_mode: AccessMode, flags: &[&str]) -> VolumeCapability {
    VolumeCapability {
        access_type: AccessType::Mount(MountAccess {
            mount_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            ..MountAccess::default()
        }),
        access_mode,
    }
}

pub(crate) fn plan(source: Source) -> Plan {
    Plan {
        source,
        default_fs_type: None,
        mount_options: Vec::new(),
        notes: BTreeMap::from([("portal".to_owned(), "a".to_owned())]),
        luks: None,
    }
}

pub(crate) fn tree(path: &str) -> Plan {
    plan(Source::Directory {
        pool: POOL.to_owned(),
        path: path.to_owned(),
    })
}

pub(crate) fn node_path(path: &Path) -> NodePath {
    NodePath::parse("path", path.to_str().unwrap()).unwrap()
}

impl Bench {
    fn start(directory: PathBuf, form: Form, roots: &[PathBuf], pool_name: &str) -> Self {
        let (mounter, server) = form.start(&directory, roots, pool_name);
        Self {
            directory,
            form,
            mounter,
            server,
        }
    }

    /// The error for a string: one with NUL does not even pass a socket, since no host could have recorded it.
    pub(crate) fn refusal<'e>(&self, word: &str, expected: &'e str) -> &'e str {
        match self.form {
            Form::OverSocket if word.contains('\0') => "Unreachable",
            _ => expected,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn share(&self, name: &str) -> PathBuf {
        share(&self.path(name));
        self.path(name)
    }

    pub(crate) fn staging(&self, volume: &str) -> PathBuf {
        self.path("kubelet").join(format!("stage-{volume}"))
    }

    pub(crate) fn target(&self, name: &str) -> PathBuf {
        self.path("kubelet").join(format!("target-{name}"))
    }

    /// A tree in the pool with a file in it, and the staging directory that the client creates.
    pub(crate) fn volume(&self, volume: &str) -> &Self {
        let tree = self.path("pool").join(volume);
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("name"), volume).unwrap();
        fs::create_dir(self.staging(volume)).unwrap();
        self
    }

    /// The same host after a restart.
    pub(crate) fn restarted(self) -> Self {
        let kubelet = self.path("kubelet");
        self.with_roots(&[kubelet])
    }

    pub(crate) fn with_roots(self, roots: &[PathBuf]) -> Self {
        self.started_again(roots, POOL)
    }

    /// The same host after a restart with a document in which its pool has another name.
    pub(crate) fn with_pool_named(self, name: &str) -> Self {
        let kubelet = self.path("kubelet");
        self.started_again(&[kubelet], name)
    }

    fn started_again(self, roots: &[PathBuf], pool_name: &str) -> Self {
        let Self {
            directory,
            form,
            mounter,
            server,
        } = self;
        drop(mounter);
        // The next host waits for the locks of this one.
        drop(server);
        Self::start(directory, form, roots, pool_name)
    }

    /// The same host after a restart without its journal.
    pub(crate) fn without_journal(self) -> Self {
        fs::remove_dir_all(self.path("run")).unwrap();
        self.restarted()
    }

    pub(crate) fn journal_files(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.path("run/journal")).unwrap();
        files.map(|file| file.unwrap().path()).collect()
    }

    /// Replaces text in the only journal entry.
    pub(crate) fn edit_journal(&self, from: &str, to: &str) {
        let [file] = self.journal_files().try_into().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&file, text.replace(from, to)).unwrap();
    }

    /// Mount points below the kubelet directory and outside, with their options.
    pub(crate) fn mounts(&self) -> Vec<(PathBuf, String)> {
        let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        table
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .map(|words| (PathBuf::from(words[4]), words[5].to_owned()))
            .filter(|(point, _)| {
                point.starts_with(&self.directory)
                    && *point != self.path("kubelet")
                    && *point != self.path("layers")
            })
            .collect()
    }

    pub(crate) fn mounts_at(&self, path: &Path) -> usize {
        self.mounts()
            .iter()
            .filter(|(point, _)| point == path)
            .count()
    }

    /// Mounts a file system of a type that no grant names.
    pub(crate) fn mount_foreign_at(&self, path: &Path) {
        mount("foreign", path, "ramfs", MountFlags::empty(), None).unwrap();
    }

    pub(crate) fn mount_something_at(&self, path: &Path) {
        mount("foreign", path, "tmpfs", MountFlags::empty(), None).unwrap();
    }

    pub(crate) fn stage_request(&self, volume: &str, capability: VolumeCapability) -> StageVolume {
        StageVolume {
            key: key(volume),
            staging_path: node_path(&self.staging(volume)),
            capability,
            plan: tree(volume),
            secret_options: SecretOptions::default(),
        }
    }

    pub(crate) fn publish_request(
        &self,
        volume: &str,
        target: &str,
        capability: VolumeCapability,
        readonly: bool,
    ) -> PublishVolume {
        PublishVolume {
            key: key(volume),
            staging_path: Some(node_path(&self.staging(volume))),
            target_path: node_path(&self.target(target)),
            capability,
            readonly,
            plan: None,
            secret_options: SecretOptions::default(),
        }
    }

    pub(crate) async fn stage(&self, volume: &str) -> Result<(), MountError> {
        self.stage_as(volume, WRITER).await
    }

    pub(crate) async fn stage_as(&self, volume: &str, mode: AccessMode) -> Result<(), MountError> {
        let request = self.stage_request(volume, capability(mode));
        self.mounter.stage(request).await
    }

    pub(crate) async fn staged(&self, volume: &str) -> Result<Staged, MountError> {
        self.mounter
            .staged(StagedQuery {
                key: key(volume),
                staging_path: node_path(&self.staging(volume)),
                capability: capability(WRITER),
            })
            .await
    }

    pub(crate) async fn publish(&self, volume: &str, target: &str) -> Result<(), MountError> {
        self.publish_as(volume, target, WRITER, false).await
    }

    pub(crate) async fn publish_as(
        &self,
        volume: &str,
        target: &str,
        mode: AccessMode,
        readonly: bool,
    ) -> Result<(), MountError> {
        let request = self.publish_request(volume, target, capability(mode), readonly);
        self.mounter.publish(request).await
    }

    pub(crate) async fn unpublish(&self, volume: &str, target: &str) -> Result<(), MountError> {
        self.unpublish_path(volume, &self.target(target)).await
    }

    pub(crate) async fn unpublish_path(
        &self,
        volume: &str,
        target: &Path,
    ) -> Result<(), MountError> {
        self.mounter
            .unpublish(UnpublishVolume {
                key: key(volume),
                target_path: node_path(target),
            })
            .await
    }

    pub(crate) async fn unstage(&self, volume: &str) -> Result<(), MountError> {
        self.mounter
            .unstage(UnstageVolume {
                key: key(volume),
                staging_path: node_path(&self.staging(volume)),
            })
            .await
    }

    /// Stages a volume, and publishes it at a target of the same name.
    pub(crate) async fn in_use(&self, volume: &str) {
        self.volume(volume);
        self.stage(volume).await.unwrap();
        self.publish(volume, volume).await.unwrap();
    }

    /// An image in the pool; the staging directory is not created.
    pub(crate) async fn image(&self, name: &str, size_bytes: u64) -> Plan {
        let (pool, path) = ("main".to_owned(), format!("{name}.img"));
        let call = PoolCall::CreateImage {
            pool: pool.clone(),
            path: path.clone(),
            size_bytes,
        };
        self.mounter.pool(driver(), call).await.unwrap();
        plan(Source::Image { pool, path })
    }

    /// Nothing is mounted, recorded or left over.
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.mounts(), []);
        assert_eq!(self.journal_files(), Vec::<PathBuf>::new());
        let left: Vec<_> = fs::read_dir(self.path("kubelet"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("target-"))
            .collect();
        assert_eq!(left, Vec::<String>::new());
    }
}

/// The variant of the error, on which the client's code depends.
pub(crate) fn variant<T: std::fmt::Debug>(result: Result<T, MountError>) -> &'static str {
    match result.unwrap_err() {
        MountError::OutsideRoots { .. } => "OutsideRoots",
        MountError::NotFound { .. } => "NotFound",
        MountError::NotStaged { .. } => "NotStaged",
        MountError::Precondition { .. } => "Precondition",
        MountError::AlreadyExists { .. } => "OtherwiseThere",
        MountError::InUse { .. } => "InUse",
        MountError::NotGranted { .. } => "NotGranted",
        MountError::Invalid { .. } => "Invalid",
        MountError::OutOfRange { .. } => "OutOfRange",
        MountError::Unusable { .. } => "Unusable",
        MountError::Damaged { .. } => "Damaged",
        MountError::Tool { .. } => "Tool",
        MountError::Unsupported { .. } => "Unsupported",
        MountError::NoSpace { .. } => "NoSpace",
        MountError::OutOfThreads { .. } => "OutOfThreads",
        MountError::OutOfResources { .. } => "OutOfResources",
        MountError::Hung { .. } => "Hung",
        MountError::UnderWay { .. } => "UnderWay",
        MountError::Kernel { .. } => "Kernel",
        MountError::Unreachable { .. } => "Unreachable",
    }
}
