//! A host that serves plugins/hostpath over a pool as a test wants it, with settings and on a file system of its own; or plugins/array, for an array on
//! the network.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use wasmount_csi::wire::csi::v1::CreateVolumeRequest;
use wasmount_tests::array::{Array, ArrayOptions};
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::kinds::Kind;
use wasmount_tests::leaks::{left_behind, left_without_pool};
use wasmount_tests::loop_disk::LoopDisk;
use wasmount_tests::namespace;
use wasmount_tests::orchestrator::{Orchestrator, VOLUME_BYTES, Volume};
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;
use xtask::clients::Clients;

/// Of a pool's disk, in bytes: more than all volumes of a test are promised. The file behind it is sparse.
const DISK_BYTES: u64 = 16 << 30;

/// Serves until it is dropped. The fields are dropped in this order: the host leaves the pool before the disk goes.
pub(crate) struct Driver {
    pub(crate) host: Host,
    pub(crate) orchestrator: Orchestrator,
    pub(crate) disk: Option<LoopDisk>,
    /// The array of plugins/array.
    array: Option<Array>,
    pool: Option<PathBuf>,
    _folder: TempDir,
}

impl Driver {
    /// Over a pool among the temporary files.
    pub(crate) async fn serving() -> Self {
        Self::with(None, &[], &[]).await
    }

    /// Over a pool on a disk with this file system.
    pub(crate) async fn over(file_system: &str) -> Self {
        Self::with(Some(file_system), &[], &[]).await
    }

    /// With settings of the plugin, and further arguments of the host.
    pub(crate) async fn with(
        file_system: Option<&str>,
        settings: &[(&str, &str)],
        more: &[&str],
    ) -> Self {
        needs_root();
        namespace::enter();
        let folder = tempfile::tempdir().unwrap();
        let mut pool = folder.path().canonicalize().unwrap().join("pool");
        std::fs::create_dir(&pool).unwrap();
        let disk = file_system.map(|it| LoopDisk::mount_as(it, &pool, DISK_BYTES).unwrap());
        if disk.is_some() {
            // The top of an ext4 has a folder of its own.
            pool = pool.join("volumes");
            std::fs::create_dir(&pool).unwrap();
        }
        let document = documents::hostpath_with(folder.path(), &pool, settings, &[]).unwrap();
        let host = Host::start(HostOptions {
            backends: vec![document],
            more: more.iter().map(OsString::from).collect(),
            ..HostOptions::default()
        });
        let host = host.unwrap();
        let orchestrator = host.orchestrator().await.unwrap();
        Self {
            host,
            orchestrator,
            disk,
            array: None,
            pool: Some(pool),
            _folder: folder,
        }
    }

    /// With plugins/array, for an array without a data path.
    pub(crate) async fn of_array(options: ArrayOptions) -> Self {
        needs_root();
        namespace::enter();
        let folder = tempfile::tempdir().unwrap();
        let array = Array::start(options).await.unwrap();
        let document = documents::array_at(folder.path(), array.address()).unwrap();
        let host = Host::start(HostOptions {
            backends: vec![document],
            ..HostOptions::default()
        });
        let host = host.unwrap();
        Self {
            orchestrator: host.orchestrator().await.unwrap(),
            host,
            disk: None,
            array: Some(array),
            pool: None,
            _folder: folder,
        }
    }

    /// CreateVolume for a mounted volume: with hostpath a directory.
    pub(crate) fn create(&self, name: &str) -> CreateVolumeRequest {
        match self.array {
            Some(_) => requests::create(name, VOLUME_BYTES),
            None => Kind::Directory.create(name),
        }
    }

    /// Creates such a volume, and its directories.
    pub(crate) async fn created(&self, name: &str) -> Volume {
        let created = self.orchestrator.create(self.create(name)).await;
        self.orchestrator.place(name, created.unwrap().0).unwrap()
    }

    pub(crate) fn clients(&self) -> Clients {
        self.orchestrator.clients()
    }

    /// The array of [`Driver::of_array`].
    pub(crate) fn array(&self) -> &Array {
        self.array.as_ref().unwrap()
    }

    /// Kills the host and starts it over the same directories.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.host.kill_9().unwrap();
        self.host.restart().unwrap();
        self.orchestrator = self.host.orchestrator().await.unwrap();
    }

    pub(crate) fn assert_nothing_left(&self) {
        let left = match &self.pool {
            Some(pool) => left_behind(&self.host, pool),
            None => left_without_pool(&self.host),
        };
        let left = left.unwrap();
        assert!(left.is_empty(), "{left:#?}");
        if let Some(array) = &self.array {
            let counts = array.counts();
            let left = (counts.volumes, counts.snapshots, counts.attachments);
            assert_eq!(left, (vec![], vec![], vec![]));
        }
    }
}

/// The line of the mount table for what is mounted there.
pub(crate) fn mounted_at(path: &Path) -> String {
    let table = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let at = format!(" {} ", path.display());
    let line = table.lines().rfind(|line| line.contains(&at));
    line.unwrap_or_else(|| panic!("nothing is mounted at {}", path.display()))
        .to_owned()
}

/// The options of a mount and those of its file system, as the kernel names them (proc_pid_mountinfo(5), fields 6 and 11).
pub(crate) fn options_at(path: &Path) -> Vec<String> {
    let line = mounted_at(path);
    let fields: Vec<_> = line.split(' ').collect();
    let of_mount = fields.get(5).copied().unwrap_or_default();
    let of_file_system = fields.last().copied().unwrap_or_default();
    [of_mount, of_file_system]
        .iter()
        .flat_map(|it| it.split(','))
        .map(str::to_owned)
        .collect()
}
