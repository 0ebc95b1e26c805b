//! A host under mixed load beside hostile plugins: memory, handles, threads and loop devices stay what they are. An hour with `--thorough`.

use crate::bench::{Bench, begin, counts, text, wait_until};
use crate::swaps::footprint::Footprint;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::sleep;
use wasmount_control::Client;
use wasmount_control::messages::{Plugin, Swap};
use wasmount_csi::wire::csi::v1::CreateVolumeRequest;
use wasmount_tests::builds;
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::{below, left_behind};
use wasmount_tests::loop_devices;
use wasmount_tests::orchestrator::{Orchestrator, VOLUME_BYTES, code};
use wasmount_tests::requests;
use wasmount_tests::rounds::rounds;
use xtask::workspace::Workspace;

/// The driver whose plugin is swapped in each window.
const SWAPPED: &str = "swapped.example.com";
/// The drivers of plugins/local-images and plugins/hostpath.
const IMAGES: &str = "local-images.wasmount.io";
const HOSTPATH: &str = "hostpath.wasmount.io";
/// Drivers of the hostile plugin.
const HOSTILE: [&str; 2] = ["hostile-one", "hostile-other"];
/// What the hostile plugin does in CreateVolume, in turn: all that takes memory, time, handles or state of the host.
const MISDEEDS: [&str; 14] = [
    "allocate",
    "hold-memory",
    "spin",
    "sleep",
    "recurse",
    "trap",
    "exit",
    "huge-answer",
    "long-error",
    "big-host-call",
    "flood",
    "leak-handles",
    "million-keys",
    "remove-keys",
];
/// Limits of the hostile plugin, short enough for many misdeeds in a window.
const LIMITS: &str =
    "{ time: 2s, cpu: 200ms, memory: 48Mi, handles: 100, stateBytes: 256Ki, concurrency: 4 }";
/// Windows of a thorough run, after each of which the host is measured. One minute each.
const WINDOWS: usize = 60;
/// Seconds of a window of a thorough run.
const WINDOW_SECONDS: usize = 60;
/// Parts of the run that are compared, by the least of each: it is without the misdeeds under way. What pools and allocators keep after a peak does not
/// grow in each, a leak does.
const PARTS: usize = 3;
/// Growth of the least from part to part that is a leak, in KiB: in an hour, less than 1 KiB for each volume.
const LEAKED_KIB: usize = 8 << 10;
/// The same of regions, descriptors, threads, and others of which there are few.
const LEAKED_REGIONS: usize = 200;
const LEAKED_FEW: usize = 16;

/// What the host holds at the end of a window.
struct Held {
    host: Footprint,
    threads: usize,
    loop_devices: usize,
    mounts: usize,
    /// Bytes of the store.
    store: u64,
}

impl Held {
    fn by(host: &Host, pools: &Path) -> Self {
        let threads = fs::read_dir(format!("/proc/{}/task", host.id())).unwrap();
        let files = below(&host.data()).unwrap();
        let stores = files
            .iter()
            .filter(|path| path.extension().is_some_and(|it| it == "redb"));
        Self {
            host: Footprint::of(host),
            threads: threads.count(),
            loop_devices: loop_devices::backed_below(pools).unwrap().len(),
            mounts: host.mounts().unwrap().len(),
            store: stores.map(|path| fs::metadata(path).unwrap().len()).sum(),
        }
    }

    /// Each figure that must not grow, with the growth that is a leak.
    fn figures(&self) -> [(&'static str, usize, usize); 6] {
        [
            ("resident KiB", self.host.resident, LEAKED_KIB),
            ("regions", self.host.regions, LEAKED_REGIONS),
            ("descriptors", self.host.descriptors, LEAKED_FEW),
            ("threads", self.threads, LEAKED_FEW),
            ("loop devices", self.loop_devices, LEAKED_FEW),
            ("mounts", self.mounts, LEAKED_FEW),
        ]
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, figure, _) in self.figures() {
            write!(f, "{name} {figure}, ")?;
        }
        let Footprint {
            version_files,
            compiled_files,
            ..
        } = self.host;
        write!(
            f,
            "files of versions {version_files}, compiled {compiled_files}, "
        )?;
        write!(f, "store {} KiB", self.store >> 10)
    }
}

/// Hostile calls under way, of all drivers of the plugin.
struct Hostile {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
    /// How often CreateVolume was answered.
    answers: Arc<AtomicUsize>,
}

impl Hostile {
    async fn begin(sockets: &[&Path], kubelet: &Path) -> Self {
        let mut hostile = Self {
            tasks: JoinSet::new(),
            stop: Arc::default(),
            answers: Arc::default(),
        };
        for socket in sockets {
            let orchestrator = Orchestrator::connect(socket, kubelet).await.unwrap();
            let (stop, answers) = (hostile.stop.clone(), hostile.answers.clone());
            hostile.tasks.spawn(async move {
                for misdeed in MISDEEDS.iter().cycle() {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let request = CreateVolumeRequest {
                        parameters: BTreeMap::from([(
                            "behaviour".to_owned(),
                            (*misdeed).to_owned(),
                        )]),
                        ..requests::create("behave", VOLUME_BYTES)
                    };
                    // Any answer is right, as long as there is one.
                    let _ = code(&orchestrator.create(request).await);
                    answers.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        hostile
    }

    /// How many misdeeds were answered.
    async fn end(mut self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        self.answers.load(Ordering::SeqCst)
    }
}

fn hostile_document(folder: &Path, driver: &str) -> std::path::PathBuf {
    let component = Workspace::locate().unwrap().component("misbehave");
    let path = documents::of_component(folder, driver, &component).unwrap();
    let text = fs::read_to_string(&path).unwrap() + &format!("  limits: {LIMITS}\n");
    fs::write(&path, text).unwrap();
    path
}

fn socket_of<'h>(host: &'h Host, driver: &str) -> &'h Path {
    let mut sockets = host.sockets().iter();
    sockets
        .find(|socket| socket.components().any(|it| it.as_os_str() == driver))
        .unwrap()
}

/// What grew from part to part by as much as a leak.
fn grew_in_each_part(held: &[Held]) -> Vec<&'static str> {
    let least = |which: usize| {
        let parts = held.chunks(held.len().div_ceil(PARTS));
        parts.map(move |part| part.iter().map(|it| it.figures()[which].1).min().unwrap())
    };
    let first = held[0].figures();
    let all = first.iter().enumerate();
    let grew = all.filter(|(which, (_, _, leaked))| {
        let least: Vec<_> = least(*which).collect();
        least
            .array_windows()
            .all(|[before, after]| *after >= before + leaked)
    });
    grew.map(|(_, (name, _, _))| *name).collect()
}

#[expect(
    clippy::print_stdout,
    reason = "it is printed when the test runs with --nocapture"
)]
fn tell(line: impl fmt::Display) {
    println!("{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_mixed_load_beside_hostile_plugins_leaks_nothing() {
    begin();
    let folder = TempDir::new().unwrap();
    let (swapped, component) = documents::directory_of_its_own(folder.path(), SWAPPED).unwrap();
    let workspace = Workspace::locate().unwrap();
    let mut backends = vec![
        swapped,
        workspace.backend_document("local-images"),
        workspace.backend_document("hostpath"),
    ];
    backends.extend(HOSTILE.map(|driver| hostile_document(folder.path(), driver)));
    let host = Host::start(HostOptions {
        backends,
        more: ["--log", "warn"].map(Into::into).into(),
        ..HostOptions::default()
    })
    .unwrap();
    let kubelet = host.kubelet();
    let pools = host.mount_data().join("pools");
    for socket in host.sockets() {
        Orchestrator::connect(socket, &kubelet).await.unwrap();
    }
    let builds = ["one", "two"].map(|mark| builds::build_of("directory", mark).unwrap());

    // Kubelet's own: no run may remove what another one uses.
    for directory in ["pods", "plugins/kubernetes.io/csi"] {
        fs::create_dir_all(kubelet.join(directory)).unwrap();
    }
    let loads = [(SWAPPED, "2"), (IMAGES, "1"), (HOSTPATH, "1")];
    let loads = loads.map(|(driver, lanes)| {
        let arguments = ["-z", "24h", "-c", lanes, "--kubelet-dir", text(&kubelet)];
        Bench::start(socket_of(&host, driver), &arguments)
    });
    let hostile = HOSTILE.map(|driver| socket_of(&host, driver));
    let hostile = Hostile::begin(&hostile, &kubelet).await;
    let client = Client::new(host.data().join("admin.sock"));
    let window = Duration::from_secs(u64::try_from(rounds(WINDOW_SECONDS)).unwrap());
    let mut held = Vec::new();
    for number in 0..rounds(WINDOWS) {
        sleep(window).await;
        builds::put(&builds[number % builds.len()], &component).unwrap();
        let plugin = Some(Plugin::File(text(&component).to_owned()));
        let swap = Swap {
            plugin,
            ..Swap::default()
        };
        client.swap(SWAPPED, &swap).await.unwrap();
        held.push(Held::by(&host, &pools));
        tell(format_args!("{number}: {}", held[number]));
    }
    tell(format_args!("misdeeds: {}", hostile.end().await));
    for load in loads {
        load.interrupt();
        let (_, report) = load.end();
        let target = &report["targets"][0];
        tell(format_args!(
            "{}: {} volumes",
            target["driver"], target["repetitions"]
        ));
        assert_eq!(target["failed"], 0, "{report:#}");
        assert_eq!(target["left"], Value::Array(Vec::new()));
        assert!(counts(&report).iter().all(|(_, answered, _)| *answered > 0));
    }
    wait_until("nothing is mounted", || host.mounts().unwrap().is_empty());
    let rest = Held::by(&host, &pools);
    tell(format_args!("without load: {rest}"));
    for pool in fs::read_dir(&pools).unwrap() {
        let pool = pool.unwrap().path();
        // The hostile plugin keeps what it makes.
        if !HOSTILE.iter().any(|driver| pool.ends_with(driver)) {
            let left = left_behind(&host, &pool).unwrap();
            assert!(left.is_empty(), "{left:#?}");
        }
    }
    assert_eq!((rest.loop_devices, rest.mounts), (0, 0));
    assert_eq!(grew_in_each_part(&held), [""; 0]);
}
