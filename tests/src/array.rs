//! A small storage array with a REST API, as vendors have them: sessions by login, volumes, snapshots, attachments, jobs that take time. It keeps
//! everything in memory, and counts what a test wants to know afterwards.
//!
//! Names of volumes and of snapshots are unique, so a repeated creation is answered 409 and not done twice. Nothing else forgives a caller.

mod routes;
mod store;

pub use store::{Counts, Object};

use axum::serve::ListenerExt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use store::Store;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use wasmount_core::mutex::lock;
use xtask::failure::Failure;

/// The user that may log in.
pub const USER: &str = "storage-operator";

/// Its password: a test searches for it where it must not be.
pub const PASSWORD: &str = "open-sesame-4711";

/// What every token begins with: a test searches for it where it must not be.
pub const TOKEN_PREFIX: &str = "array-token-";

/// Capacity of an array unless a test says otherwise, in bytes: enough for every test of csi-sanity at once.
const TOTAL_BYTES: u64 = 1 << 40;

/// Entries of a page if the caller does not say.
const PAGE_ENTRIES: usize = 100;

/// How an array behaves.
#[derive(Debug, Clone)]
pub struct ArrayOptions {
    /// Capacity in bytes.
    pub total_bytes: u64,
    /// The time until a new volume or snapshot is ready.
    pub job: Duration,
    /// The nodes that volumes can be attached to.
    pub hosts: Vec<String>,
}

/// A running array; it stops when dropped.
#[derive(Debug)]
pub struct Array {
    address: SocketAddr,
    store: Shared,
    connections: Arc<AtomicUsize>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Debug, Clone)]
struct Shared(Arc<Mutex<Store>>);

impl Default for ArrayOptions {
    /// Jobs are done at once; the node of [`crate::host::Host`] is known.
    fn default() -> Self {
        Self {
            total_bytes: TOTAL_BYTES,
            job: Duration::ZERO,
            hosts: vec!["test-node".to_owned()],
        }
    }
}

impl Array {
    /// Starts an array on the loopback interface.
    pub async fn start(options: ArrayOptions) -> Result<Self, Failure> {
        let failed = || Failure::cannot("listen for an array");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(failed())?;
        let address = listener.local_addr().map_err(failed())?;
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        let listener = listener.tap_io(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let store = Shared(Arc::new(Mutex::new(Store::new(options))));
        let router = routes::router(store.clone());
        let serving = tokio::spawn(async move {
            // It ends with the task.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self {
            address,
            store,
            connections,
            _serving: AbortOnDropHandle::new(serving),
        })
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was done to it, and what it holds.
    pub fn counts(&self) -> Counts {
        let connections = self.connections.load(Ordering::Relaxed);
        self.store.lock().counts(connections)
    }

    /// Ends all sessions, as a restart of its management does: the next request of each is answered 401.
    pub fn expire_sessions(&self) {
        self.store.lock().expire_sessions();
    }

    /// Creates a volume behind the driver's back.
    pub fn add_volume(&self, name: &str, bytes: u64) -> Option<String> {
        let volume = self.store.lock().create_volume(name, bytes, None);
        volume.ok().map(|volume| volume.id)
    }

    /// Removes a volume behind the driver's back.
    pub fn remove_volume(&self, id: &str) -> bool {
        let mut store = self.store.lock();
        let _ = store.detach(id, None);
        store.delete_volume(id).is_ok()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Store> {
        lock(&self.0)
    }
}
