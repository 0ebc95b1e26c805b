//! A storage array with a REST API, as vendors have them: sessions by login, volumes, snapshots, copies, hosts, attachments, jobs that take time. Tests
//! have it in memory and count what was done; `cargo xtask array` serves real volumes, as sparse files behind the kernel's targets.
//!
//! Names of volumes and of snapshots are unique, so a repeated creation is answered 409 and not done twice. Nothing else forgives a caller.

#![forbid(unsafe_code)]

mod configfs;
mod data_path;
mod faults;
mod files;
mod loops;
mod options;
mod records;
mod refusal;
mod routes;
mod secret;
mod service;
mod store;

pub use options::{
    ArrayOptions, MOST_VOLUMES, PASSWORD, Protocol, TOKEN_PREFIX, TOTAL_BYTES, USER,
};
pub use records::{Connection, Counts, Object, Qos, State, Target};
pub use secret::Secret;

use axum::serve::ListenerExt;
use records::{Chap, Host, Kind, NewVolume};
use refusal::Answer;
use service::{Copy, Service};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use wasmount_core::mutex::lock;
use xtask::failure::Failure;

/// A running array; it stops answering when dropped.
#[derive(Debug)]
pub struct Array {
    address: SocketAddr,
    service: Shared,
    connections: Arc<AtomicUsize>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Debug, Clone)]
struct Shared(Arc<Mutex<Service>>);

impl Array {
    /// Starts an array on the loopback interface.
    pub async fn start(options: ArrayOptions) -> Result<Self, Failure> {
        Self::listen((Ipv4Addr::LOCALHOST, 0).into(), options).await
    }

    /// Starts an array at an address.
    pub async fn listen(address: SocketAddr, options: ArrayOptions) -> Result<Self, Failure> {
        let failed = || Failure::cannot(format!("listen at {address}"));
        let listener = TcpListener::bind(address).await.map_err(failed())?;
        let address = listener.local_addr().map_err(failed())?;
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        let listener = listener.tap_io(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let (service, copies) = Service::start(options)?;
        let service = Shared(Arc::new(Mutex::new(service)));
        for copy in copies {
            service.begin(copy);
        }
        let router = routes::router(service.clone());
        let serving = tokio::spawn(async move {
            // It ends with the task.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self {
            address,
            service,
            connections,
            _serving: AbortOnDropHandle::new(serving),
        })
    }

    /// Stops, and removes the target. Volumes and records stay in the directory.
    pub fn stop(self) -> Result<(), Failure> {
        self.service.lock().stop()
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was done to it, and what it holds.
    pub fn counts(&self) -> Counts {
        let connections = self.connections.load(Ordering::Relaxed);
        self.service.lock().store.counts(connections)
    }

    /// Ends all sessions, as a restart of its management does: the next request of each is answered 401.
    pub fn expire_sessions(&self) {
        self.service.lock().store.expire_sessions();
    }

    /// Breaks all sessions of a portal and refuses new ones, or ends that. False: there is no such portal.
    pub fn set_portal(&self, index: usize, is_up: bool) -> bool {
        self.service.lock().set_portal(index, is_up).is_ok()
    }

    /// Asks a host for a user and a password by CHAP from now on. False: its kernel or its protocol has none.
    pub fn require_chap(&self, host: &str, user: &str, password: &str) -> bool {
        let asked = Host {
            chap: Some(Chap {
                user: user.to_owned(),
                password: password.into(),
            }),
            ..Host::default()
        };
        self.service.lock().put_host(host, asked).is_ok()
    }

    /// Asks a host for a key by DH-HMAC-CHAP from now on. False: it is no host.
    pub fn require_dhchap(&self, host: &str, key: &str) -> bool {
        let asked = Host {
            dhchap_key: Some(key.into()),
            ..Host::default()
        };
        self.service.lock().put_host(host, asked).is_ok()
    }

    /// Creates a volume behind the driver's back.
    pub fn add_volume(&self, name: &str, bytes: u64) -> Option<String> {
        let new = NewVolume {
            name: name.to_owned(),
            bytes,
            ..NewVolume::default()
        };
        let volume = self.service.lock().create_volume(new);
        volume.ok().map(|(volume, _)| volume.id)
    }

    /// Removes a volume behind the driver's back.
    pub fn remove_volume(&self, id: &str) -> bool {
        let mut service = self.service.lock();
        let _ = service.detach(id, None);
        service.delete(Kind::Volume, id).is_ok()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Service> {
        lock(&self.0)
    }

    /// Does something that may wait for a disk or for the kernel. It is done even if the client disconnects.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Service) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let service = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&mut service.lock()));
        done.await
            .map_err(Failure::cannot("end a request of the array"))?
    }

    /// Makes a copy without the lock. Its thread ends with the process: the next start makes the copy again.
    fn begin(&self, copy: Copy) {
        let service = self.clone();
        thread::spawn(move || {
            let state = copy.make();
            let ended = service.lock().end_copy(&copy.id, state);
            if let Err(failure) = ended {
                xtask::say::failure(&failure);
            }
        });
    }
}
