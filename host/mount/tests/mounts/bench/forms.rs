//! The two forms of the mounter: in the calling process, and behind a socket.

use super::{DEVICE_PREFIX, TMPFS_BYTES, driver};
use crate::start;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use wasmount_core::device_fact::DeviceFact;
use wasmount_core::document::{DeviceGrant, FilesystemGrant, Grants, PoolGrant, PoolStorage};
use wasmount_core::mounter::Mounter;
use wasmount_mount::{LocalMounter, MounterConfig, PathRoot};
use wasmount_mounter::{ServerOptions, SocketMounter, serve};
use wasmount_socket::BoundSocket;

/// A mounter behind a socket.
pub(super) struct Server(Option<Runtime>);

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Where the mounter runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// In the calling process.
    Inside,
    /// Behind a socket, but in the same process; `tests/tests/host/mounter` has two processes.
    OverSocket,
}

fn local(directory: &Path, roots: &[PathBuf], pool_name: &str) -> LocalMounter {
    let pool = PoolGrant {
        storage: PoolStorage::Directory(directory.join("pool")),
        full_copies: true,
        mount_options: Vec::new(),
    };
    let tmpfs = FilesystemGrant {
        fs_type: "tmpfs".to_owned(),
        sources: Vec::new(),
        mount_options: Vec::new(),
        max_bytes: Some(TMPFS_BYTES),
    };
    let overlay = FilesystemGrant {
        fs_type: "overlay".to_owned(),
        sources: vec!["layers".to_owned()],
        mount_options: ["lowerdir", "upperdir", "workdir"]
            .map(str::to_owned)
            .to_vec(),
        max_bytes: None,
    };
    let devices = DeviceGrant {
        facts: BTreeMap::from([(DeviceFact::ById, format!("{DEVICE_PREFIX}*"))]),
        rescan: false,
        mount_options: Vec::new(),
    };
    let grants = Grants {
        pools: BTreeMap::from([(pool_name.to_owned(), pool)]),
        filesystems: vec![tmpfs, overlay],
        devices: vec![devices],
        ..Grants::default()
    };
    start::mounter(MounterConfig {
        roots: roots.iter().cloned().map(PathRoot::Any).collect(),
        own: Vec::new(),
        run_dir: directory.join("run"),
        state_dir: directory.join("state"),
        grants: BTreeMap::from([(driver(), grants)]),
        threads_per_driver: 16,
        node_root: None,
    })
}

/// The server's threads are started on the thread of the test and share its namespace.
fn serve_at(socket: &Path, mounter: LocalMounter) -> Server {
    let runtime = Runtime::new().unwrap();
    let options = ServerOptions {
        client_uid: rustix::process::geteuid().as_raw(),
        connections: 64,
        grace: Duration::ZERO,
        steps_of: |_| Vec::new(),
    };
    let bound = BoundSocket::bind_for(socket, options.client_uid).unwrap();
    runtime.spawn(serve(
        bound,
        Arc::new(mounter),
        options,
        CancellationToken::new(),
    ));
    Server(Some(runtime))
}

impl Form {
    pub(super) fn start(
        self,
        directory: &Path,
        roots: &[PathBuf],
        pool_name: &str,
    ) -> (Arc<dyn Mounter>, Option<Server>) {
        let local = local(directory, roots, pool_name);
        match self {
            Form::Inside => (Arc::new(local), None),
            Form::OverSocket => {
                let socket = directory.join("mounter.sock");
                let _ = fs::remove_file(&socket);
                let server = serve_at(&socket, local);
                (Arc::new(SocketMounter::new(&socket)), Some(server))
            }
        }
    }
}
