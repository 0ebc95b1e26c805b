//! A host beside a kubelet's directory: started, stopped and asked as a test wishes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};
use wasmount_tests::documents;
use wasmount_tests::health::Health;
use wasmount_tests::namespace;
use wasmount_tests::root::needs_root;
use xtask::place::Place;
use xtask::served::{ServeOptions, Served};
use xtask::workspace::Workspace;

/// Short, so that kubelet's longest directories fit in front of a socket.
const PREFIX: &str = "wm-kubelet-";

/// Until a line must be in the log.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) const READY: &str = "a.b: ok\n";

/// Where hosts run that share all. What is first goes first.
pub(crate) struct Scene {
    place: Place,
    kubelet: PathBuf,
    backends: Vec<PathBuf>,
}

/// One of them.
pub(crate) struct Host {
    served: Served,
    pub(crate) health: Health,
    log: PathBuf,
}

impl Scene {
    /// One driver, `a.b`.
    pub(crate) fn new() -> Self {
        Self::of(&["a.b"], "kubelet")
    }

    /// kubelet's root lies at this path of the scene's.
    pub(crate) fn of(drivers: &[&str], kubelet: &str) -> Self {
        needs_root();
        // All mounts are shared there, as kubelet's directory must be.
        namespace::enter();
        let place = Place::create(PREFIX).unwrap();
        let kubelet = place.root().join(kubelet);
        fs::create_dir_all(kubelet.join("plugins")).unwrap();
        let of_its_own = |name| documents::directory_of_its_own(place.root(), name);
        let backends = drivers
            .iter()
            .map(|driver| of_its_own(driver).unwrap().0)
            .collect();
        Self {
            place,
            kubelet,
            backends,
        }
    }

    pub(crate) fn kubelet(&self) -> &Path {
        &self.kubelet
    }

    pub(crate) fn endpoint(&self, driver: &str) -> PathBuf {
        self.kubelet.join("plugins").join(driver).join("csi.sock")
    }

    /// Starts a host, and does not wait for it.
    pub(crate) fn host(&self, name: &str, more: &[&str]) -> Host {
        let health = Health::at_a_free_port().unwrap();
        let log = self.place.root().join(format!("{name}.log"));
        let served = Served::start(&ServeOptions {
            program: Workspace::locate().unwrap().host_program(),
            wrapper: Vec::new(),
            backends: self.backends.clone(),
            data: self.place.data(),
            run: self.place.run(),
            sockets: self.kubelet.join("plugins"),
            kubelet: self.kubelet.clone(),
            node_id: "test-node".to_owned(),
            role: "node".to_owned(),
            health: health.address(),
            more: more.iter().map(OsString::from).collect(),
            log: log.clone(),
        });
        Host {
            served: served.unwrap(),
            health,
            log,
        }
    }
}

impl Host {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits for a line with this in it; the line.
    pub(crate) fn says(&self, part: &str) -> String {
        let start = Instant::now();
        loop {
            let log = self.log();
            if let Some(line) = log.lines().find(|line| line.contains(part)) {
                return line.to_owned();
            }
            assert!(start.elapsed() < PATIENCE, "not said: {part}\n{log}");
            thread::sleep(LOOK);
        }
    }

    pub(crate) fn serves(&mut self) {
        self.served.sockets().unwrap();
    }

    pub(crate) fn is_ready(&self) {
        self.health.becomes("/readyz", "200", READY).unwrap();
    }

    pub(crate) fn is_not_ready(&self, reason: &str) {
        let body = format!("a.b: {reason}\n");
        self.health.becomes("/readyz", "503", &body).unwrap();
        let alive = self.health.get("/healthz").unwrap();
        assert_eq!(alive, ("200".to_owned(), READY.to_owned()));
    }

    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.served.process.terminate().unwrap()
    }

    pub(crate) fn kill_9(&mut self) {
        self.served.process.kill_9().unwrap();
    }
}
