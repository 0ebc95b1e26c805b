//! A kubelet as far as registration goes: it watches its directory, calls who appears there, and says how it went.
//!
//! Like kubelet up to 1.35 it does not come back to a driver that it refused until its socket is made anew.

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use wasmount_csi::wire::csi::v1::NodeGetInfoRequest;
use wasmount_csi::wire::csi::v1::node_client::NodeClient;
use wasmount_kubernetes::wire::pluginregistration::registration_client::RegistrationClient;
use wasmount_kubernetes::wire::pluginregistration::{InfoRequest, PluginInfo, RegistrationStatus};

/// Between two looks of the reconciler. kubelet's is 1 s; nothing here depends on it.
const TICK: Duration = Duration::from_millis(50);

/// How long kubelet tries to connect to a registration socket, which listens a moment after it appears.
const DIAL: Duration = Duration::from_secs(10);

/// kubelet's patience with GetInfo.
const GET_INFO: Duration = Duration::from_secs(1);

/// Until something must have happened: a plugin is compiled meanwhile, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How it treats who appears.
#[derive(Debug, Clone)]
pub(crate) enum Mood {
    Takes,
    TakesAfter(Duration),
    Refuses(&'static str),
    HangsBeforeGetInfo,
    HangsBeforeNotify,
}

/// What happened, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    Appeared(String),
    Removed(String),
    Info(PluginInfo),
    Node { driver: String, id: String },
    Told { driver: String, error: String },
    Hangs(String),
    Failed { socket: String, error: String },
}

#[derive(Default)]
struct State {
    moods: VecDeque<Mood>,
    heard: Vec<Heard>,
    /// Sockets that are there, each with the number of its appearance.
    desired: BTreeMap<String, u64>,
    /// Sockets that were called, with the appearance and the driver's name.
    actual: BTreeMap<String, (u64, Option<String>)>,
    /// Sockets that are being called. Kubelet works on one socket once at a time (`goroutinemap` of its operation executor): a call of a socket that was
    /// replaced may reach the new one.
    under_way: BTreeSet<String>,
    /// Drivers that are registered, with their endpoint.
    drivers: BTreeMap<String, String>,
    appearances: u64,
}

/// A running one.
pub(crate) struct Kubelet {
    registry: PathBuf,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap()
}

impl Kubelet {
    /// Makes its directory, and takes everybody.
    pub(crate) fn start(root: &Path) -> Self {
        Self::in_moods(root, [])
    }

    /// The first who appears meets the first mood, and so on; from then on it takes everybody.
    pub(crate) fn in_moods(root: &Path, moods: impl IntoIterator<Item = Mood>) -> Self {
        let registry = root.join("plugins_registry");
        fs::create_dir_all(&registry).unwrap();
        let state = Arc::new(Mutex::new(State {
            moods: moods.into_iter().collect(),
            ..State::default()
        }));
        let task = tokio::spawn(manage(registry.clone(), state.clone()));
        Self {
            registry,
            state,
            task,
        }
    }

    /// The process ends, its directory is emptied, another process starts: it knows no driver.
    pub(crate) async fn restarts_with_an_empty_registry(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
        for entry in fs::read_dir(&self.registry).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        self.starts_again();
    }

    /// Only the process.
    pub(crate) async fn restarts(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
        self.starts_again();
    }

    fn starts_again(&mut self) {
        *lock(&self.state) = State::default();
        self.task = tokio::spawn(manage(self.registry.clone(), self.state.clone()));
    }

    pub(crate) fn socket(&self, driver: &str) -> PathBuf {
        self.registry.join(format!("{driver}@reg.sock"))
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        lock(&self.state).heard.clone()
    }

    /// The endpoint of a driver that it can call.
    pub(crate) fn endpoint(&self, driver: &str) -> Option<String> {
        lock(&self.state).drivers.get(driver).cloned()
    }

    pub(crate) fn knows(&self, driver: &str) -> bool {
        self.endpoint(driver).is_some()
    }

    /// Waits until this many events satisfy a condition.
    pub(crate) async fn hears(&self, times: usize, what: impl Fn(&Heard) -> bool) {
        self.until(|state| state.heard.iter().filter(|it| what(it)).count() >= times)
            .await;
    }

    pub(crate) async fn takes(&self, driver: &str) {
        self.until(|state| state.drivers.contains_key(driver)).await;
    }

    pub(crate) async fn loses(&self, driver: &str) {
        self.until(|state| !state.drivers.contains_key(driver))
            .await;
    }

    async fn until(&self, what: impl Fn(&State) -> bool) {
        let waited = timeout(PATIENCE, async {
            while !what(&lock(&self.state)) {
                sleep(TICK).await;
            }
        });
        assert!(waited.await.is_ok(), "{:#?}", self.heard());
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The plugin manager: watcher and reconciler.
async fn manage(registry: PathBuf, state: Arc<Mutex<State>>) {
    let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
    let changes = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE;
    add_watch(&events, &registry, changes).unwrap();
    for entry in fs::read_dir(&registry).unwrap() {
        appeared(&state, entry.unwrap().file_name().into_string().unwrap());
    }
    let mut operations = JoinSet::new();
    loop {
        watch(&events, &state);
        unregister(&state);
        for (socket, appearance) in to_register(&state) {
            let mood = lock(&state).moods.pop_front().unwrap_or(Mood::Takes);
            // In the end kubelet gives up a call that hangs.
            if !matches!(mood, Mood::HangsBeforeGetInfo | Mood::HangsBeforeNotify) {
                lock(&state).under_way.insert(socket.clone());
            }
            let (path, state) = (registry.join(&socket), state.clone());
            operations.spawn(async move {
                let name = register(&path, mood, &state).await.unwrap_or_else(|error| {
                    lock(&state).heard.push(Heard::Failed {
                        socket: socket.clone(),
                        error,
                    });
                    None
                });
                let mut state = lock(&state);
                state.under_way.remove(&socket);
                state.actual.insert(socket, (appearance, name));
            });
        }
        while operations.try_join_next().is_some() {}
        sleep(TICK).await;
    }
}

/// Names that begin with a dot are not looked at.
fn appeared(state: &Mutex<State>, socket: String) {
    if socket.starts_with('.') {
        return;
    }
    let mut state = lock(state);
    state.appearances += 1;
    let appearance = state.appearances;
    state.desired.insert(socket.clone(), appearance);
    state.heard.push(Heard::Appeared(socket));
}

fn watch(events: &OwnedFd, state: &Mutex<State>) {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = Reader::new(events, &mut buffer);
    while let Ok(event) = reader.next() {
        let socket = event.file_name().unwrap().to_str().unwrap().to_owned();
        if !event.events().contains(ReadFlags::DELETE) {
            appeared(state, socket);
        } else if !socket.starts_with('.') {
            let mut state = lock(state);
            state.desired.remove(&socket);
            state.heard.push(Heard::Removed(socket));
        }
    }
}

/// Whose socket is gone, or another one: forgotten by name, whatever serves there.
fn unregister(state: &Mutex<State>) {
    let mut state = lock(state);
    let State {
        desired,
        actual,
        drivers,
        ..
    } = &mut *state;
    actual.retain(|socket, (appearance, name)| {
        let stays = desired.get(socket) == Some(appearance);
        if !stays && let Some(name) = name {
            drivers.remove(name);
        }
        stays
    });
}

/// Marks them as called.
fn to_register(state: &Mutex<State>) -> Vec<(String, u64)> {
    let mut state = lock(state);
    let State {
        desired,
        actual,
        under_way,
        ..
    } = &mut *state;
    let is_new = |socket: &String| !actual.contains_key(socket) && !under_way.contains(socket);
    let new: Vec<_> = desired
        .iter()
        .filter(|(socket, _)| is_new(socket))
        .map(|(socket, appearance)| (socket.clone(), *appearance))
        .collect();
    for (socket, appearance) in &new {
        actual.insert(socket.clone(), (*appearance, None));
    }
    new
}

/// One registration; the driver's name if it was taken.
async fn register(
    socket: &Path,
    mood: Mood,
    state: &Mutex<State>,
) -> Result<Option<String>, String> {
    if let Mood::HangsBeforeGetInfo = mood {
        let _connection = UnixStream::connect(socket).await.map_err(error_text)?;
        lock(state)
            .heard
            .push(Heard::Hangs(socket.display().to_string()));
        return std::future::pending().await;
    }
    let connected = timeout(DIAL, async {
        loop {
            match dial(socket).await {
                Ok(channel) => return channel,
                Err(_) => sleep(TICK).await,
            }
        }
    });
    let mut client = RegistrationClient::new(connected.await.map_err(error_text)?);
    let info = timeout(GET_INFO, client.get_info(InfoRequest {}))
        .await
        .map_err(error_text)?
        .map_err(error_text)?
        .into_inner();
    let PluginInfo { name, endpoint, .. } = info.clone();
    lock(state).heard.push(Heard::Info(info));
    let answered = match mood {
        Mood::Refuses(words) => Err(words.to_owned()),
        _ if lock(state).drivers.contains_key(&name) => {
            Err("Another driver with the same name is already registered".to_owned())
        }
        _ => node_id(Path::new(&endpoint)).await,
    };
    if let Mood::TakesAfter(pause) = mood {
        sleep(pause).await;
    }
    let error = answered.as_ref().err().cloned().unwrap_or_default();
    if let Ok(id) = answered {
        let mut state = lock(state);
        state.heard.push(Heard::Node {
            driver: name.clone(),
            id,
        });
        state.drivers.insert(name.clone(), endpoint);
    }
    if let Mood::HangsBeforeNotify = mood {
        lock(state).heard.push(Heard::Hangs(name));
        return std::future::pending().await;
    }
    let status = RegistrationStatus {
        plugin_registered: error.is_empty(),
        error: error.clone(),
    };
    client
        .notify_registration_status(status)
        .await
        .map_err(error_text)?;
    let taken = error.is_empty().then(|| name.clone());
    lock(state).heard.push(Heard::Told {
        driver: name,
        error,
    });
    Ok(taken)
}

/// NodeGetInfo at the driver's own socket, over a connection of its own.
pub(crate) async fn node_id(endpoint: &Path) -> Result<String, String> {
    let path = endpoint.to_str().ok_or("the path is no text")?;
    // For CSI sockets kubelet does say otherwise.
    let mut node = NodeClient::new(connect(path, "localhost").await?);
    let info = node.node_get_info(NodeGetInfoRequest {}).await;
    Ok(info.map_err(error_text)?.into_inner().node_id)
}

/// As the real one dials a registration socket: grpc-go names a Unix socket's path, percent-encoded, as HTTP/2's `:authority` unless the client says
/// otherwise (`dial` in pkg/kubelet/pluginmanager/operationexecutor of Kubernetes 1.36).
pub(crate) async fn dial(socket: &Path) -> Result<Channel, String> {
    let path = socket.to_str().ok_or("the path is no text")?;
    connect(path, &path.replace('/', "%2F")).await
}

async fn connect(path: &str, authority: &str) -> Result<Channel, String> {
    let origin = format!("http://{authority}");
    Endpoint::from_shared(format!("unix://{path}"))
        .map_err(error_text)?
        .origin(origin.parse().map_err(error_text)?)
        .connect()
        .await
        .map_err(error_text)
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
