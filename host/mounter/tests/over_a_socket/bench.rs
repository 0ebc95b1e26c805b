//! A mounter that records its calls, and waits in each for as long as a test chooses; and a server in front of it.

use async_trait::async_trait;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use wasmount_core::health::{Health, HealthStatus};
use wasmount_core::mounter::{
    MountError, Mounter, MounterRequest, MounterResponse, MounterStatus, ProcessUsage, Staged,
    UnstageVolume, Usage, VolumeInUse, VolumeKey, VolumeStats,
};
use wasmount_core::names::{DriverName, NodePath, VolumeId};
use wasmount_core::node_fact::{FactValues, Instance};
use wasmount_core::pool::{Extents, PoolCall, PoolReply};
use wasmount_core::snapshot::Extent;
use wasmount_mounter::{ServerOptions, SocketMounter, serve};
use wasmount_socket::BoundSocket;

/// How long a test waits for an expected event. Generous: other tests share the machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Connections that a server accepts at a time.
pub(crate) const CONNECTIONS: usize = 100;

type Result<T> = std::result::Result<T, MountError>;

/// Calls in the order in which they began; those of a held mounter wait.
pub(crate) struct Recording {
    calls: Mutex<Vec<String>>,
    ended: Mutex<Vec<String>>,
    held: watch::Sender<bool>,
}

impl Recording {
    async fn call(&self, words: String) -> Result<()> {
        self.calls.lock().unwrap().push(words.clone());
        self.held.subscribe().wait_for(|held| !held).await.unwrap();
        self.ended.lock().unwrap().push(words);
        Ok(())
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn ended(&self) -> Vec<String> {
        self.ended.lock().unwrap().clone()
    }

    pub(crate) fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }
}

#[async_trait]
impl Mounter for Recording {
    async fn perform(&self, request: MounterRequest) -> Result<MounterResponse> {
        let words = words(&request);
        self.call(words).await?;
        match request {
            MounterRequest::Stage(_)
            | MounterRequest::Unstage(_)
            | MounterRequest::Publish(_)
            | MounterRequest::Unpublish(_) => Ok(MounterResponse::Done),
            MounterRequest::Staged(_) => Ok(MounterResponse::Staged(Staged::AsWanted)),
            MounterRequest::Notes(_) => {
                let notes = BTreeMap::from([("portal".to_owned(), "a".to_owned())]);
                Ok(MounterResponse::Notes(notes))
            }
            MounterRequest::Stats(_) => Ok(MounterResponse::Stats(STATS)),
            MounterRequest::Health(_) => Ok(MounterResponse::Health(vec![finding()])),
            MounterRequest::Expand(_) => Ok(MounterResponse::Expanded(7)),
            MounterRequest::Unsettled(_) => Ok(MounterResponse::Unsettled(vec![key("v").volume])),
            MounterRequest::VolumesInUse(_) => {
                Ok(MounterResponse::VolumesInUse(vec![VolumeInUse {
                    volume: key("v").volume,
                    staging_path: Some("/s".to_owned()),
                    target_paths: vec!["/t".to_owned()],
                }]))
            }
            MounterRequest::Status => Ok(MounterResponse::Status(status())),
            MounterRequest::ConfigDrive(_) => Ok(MounterResponse::Instance(instance())),
            MounterRequest::NodeFact(..) => Ok(MounterResponse::FactValues(addresses())),
            MounterRequest::Recover(_) => panic!("as a test"),
            MounterRequest::Pool(
                _,
                PoolCall::AllocatedExtents { .. } | PoolCall::ChangedExtents { .. },
            ) => Ok(MounterResponse::Pool(PoolReply::Extents(extents()))),
            MounterRequest::Pool(..) => Err(MountError::no_space("it", "3 of 4")),
        }
    }
}

/// A status with all that there can be.
pub(crate) fn status() -> MounterStatus {
    MounterStatus {
        unshared_roots: vec!["it is private".to_owned()],
        process: Some(ProcessUsage {
            cpu: Duration::from_millis(1),
            resident_bytes: 2,
            virtual_bytes: 3,
            threads: 4,
            open_fds: 5,
            max_fds: Some(6),
            started: Duration::from_secs(7),
        }),
    }
}

/// An instance in a zone.
pub(crate) fn instance() -> Instance {
    Instance::of_meta_data(br#"{"uuid":"a","availability_zone":"b"}"#).unwrap()
}

/// The values of a fact.
pub(crate) fn addresses() -> FactValues {
    let addresses = ["192.0.2.1", "2001:db8::1"].map(str::to_owned);
    FactValues::try_from(addresses.to_vec()).unwrap()
}

fn words(request: &MounterRequest) -> String {
    match request {
        MounterRequest::Staged(query) => format!("staged {query:?}"),
        MounterRequest::Stage(request) => {
            let secrets: Vec<_> = request.secret_options.iter().collect();
            format!("stage {request:?} {secrets:?}")
        }
        MounterRequest::Notes(key) => format!("notes {key:?}"),
        MounterRequest::Unstage(request) => format!("unstage {}", request.key.volume),
        MounterRequest::Publish(request) => format!("publish {request:?}"),
        MounterRequest::Unpublish(request) => format!("unpublish {request:?}"),
        MounterRequest::Stats(request) => format!("stats {request:?}"),
        MounterRequest::Health(query) => format!("health {query:?}"),
        MounterRequest::Expand(request) => format!("expand {request:?}"),
        MounterRequest::Unsettled(driver) => format!("unsettled {driver}"),
        MounterRequest::VolumesInUse(driver) => format!("volumes_in_use {driver}"),
        MounterRequest::Status => "status".to_owned(),
        MounterRequest::ConfigDrive(driver) => format!("config_drive {driver}"),
        MounterRequest::NodeFact(driver, fact) => format!("node_fact {driver} {}", fact.name()),
        MounterRequest::Recover(key) => format!("recover {key:?}"),
        MounterRequest::Pool(driver, call) => format!("pool {driver} {call:?}"),
    }
}

/// More extents than one read of a socket returns.
pub(crate) fn extents() -> Extents {
    let range = |number: u64| Extent {
        offset_bytes: number << 40,
        size_bytes: 4096,
    };
    Extents {
        ranges: (0..10_000).map(range).collect(),
        next_offset: Some(u64::MAX),
    }
}

pub(crate) const STATS: VolumeStats = VolumeStats {
    bytes: Usage {
        total: 3,
        used: Some(1),
        available: Some(2),
    },
    inodes: None,
};

pub(crate) fn finding() -> Health {
    Health {
        status: HealthStatus::Other(7),
        reason: "Odd".to_owned(),
        message: "it is odd".to_owned(),
    }
}

/// A running server.
pub(crate) struct Bench {
    directory: tempfile::TempDir,
    pub(crate) mounter: Arc<Recording>,
    shutdown: CancellationToken,
    server: JoinHandle<std::io::Result<usize>>,
    /// The runtime of a server with its own threads.
    apart: Option<Runtime>,
}

impl Bench {
    /// Starts a server on the thread of the test: it runs only while the test waits.
    pub(crate) fn start() -> Self {
        Self::with(rustix::process::geteuid().as_raw(), None)
    }

    pub(crate) fn of_user(client_uid: u32) -> Self {
        Self::with(client_uid, None)
    }

    /// Starts a server on a thread of its own, so that it can be killed.
    pub(crate) fn apart() -> Self {
        let own = rustix::process::geteuid().as_raw();
        Self::with(own, Some(runtime()))
    }

    fn with(client_uid: u32, apart: Option<Runtime>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mounter = Arc::new(Recording {
            calls: Mutex::default(),
            ended: Mutex::default(),
            held: watch::Sender::new(false),
        });
        let shutdown = CancellationToken::new();
        let socket = directory.path().join("m.sock");
        let server = begin(apart.as_ref(), &socket, &mounter, client_uid, &shutdown);
        Self {
            directory,
            mounter,
            shutdown,
            server,
            apart,
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("m.sock")
    }

    /// A client with its own boot id.
    pub(crate) fn client(&self) -> Arc<SocketMounter> {
        Arc::new(SocketMounter::new(self.socket()))
    }

    /// Acts like SIGKILL: connections are cut, and nothing answers. A runtime that is shut down in the background still listens for a moment.
    pub(crate) async fn kill(&mut self) {
        self.apart.take().unwrap().shutdown_background();
        let ended = timeout(PATIENCE, &mut self.server).await.unwrap();
        assert!(ended.unwrap_err().is_cancelled());
    }

    /// Starts the server again, with a new boot id.
    pub(crate) fn restart(&mut self) {
        self.shutdown = CancellationToken::new();
        let own = rustix::process::geteuid().as_raw();
        let (socket, apart) = (self.socket(), self.apart.insert(runtime()));
        self.server = begin(Some(apart), &socket, &self.mounter, own, &self.shutdown);
    }

    /// Acts like SIGTERM; returns how many requests had not ended.
    pub(crate) async fn stop(&mut self) -> usize {
        self.shutdown.cancel();
        (&mut self.server).await.unwrap().unwrap()
    }
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

fn begin(
    apart: Option<&Runtime>,
    socket: &Path,
    mounter: &Arc<Recording>,
    client_uid: u32,
    shutdown: &CancellationToken,
) -> JoinHandle<std::io::Result<usize>> {
    // The socket file belongs to this user: the server checks a client by its credentials from the kernel, not by the file's owner.
    let own = rustix::process::geteuid().as_raw();
    let bound = BoundSocket::bind_for(socket, own).unwrap();
    let options = ServerOptions {
        client_uid,
        connections: CONNECTIONS,
        grace: Duration::from_millis(200),
        steps_of: |_| Vec::new(),
    };
    let served = serve(bound, mounter.clone(), options, shutdown.clone());
    match apart {
        Some(runtime) => runtime.spawn(served),
        None => tokio::spawn(served),
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // A runtime must not be waited for in an async test.
        if let Some(apart) = self.apart.take() {
            apart.shutdown_background();
        }
    }
}

pub(crate) fn driver() -> DriverName {
    DriverName::parse("a.b").unwrap()
}

pub(crate) fn key(volume: &str) -> VolumeKey {
    VolumeKey {
        driver: driver(),
        volume: VolumeId::parse("volume_id", volume).unwrap(),
    }
}

pub(crate) fn unstage(volume: &str) -> UnstageVolume {
    UnstageVolume {
        key: key(volume),
        staging_path: NodePath::parse("path", format!("/stage/{volume}")).unwrap(),
    }
}

/// Waits until a condition is true.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap();
}
