//! Plugins are compiled in a process of their own that may do almost nothing: what crashes, hangs or bloats a compiler costs one refusal, and
//! backends that serve continue to serve.

mod expensive;
mod leftovers;

use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wasmount_tests::child::{COMPILER, Child};
use wasmount_tests::directory_life::{self, Build};
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::root::needs_root;
use xtask::workspace::Workspace;

/// How long anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);
/// The driver that lives: first in the order of names.
const LIVING: &str = "a-living";
/// Processor time of a compiler that has begun to compile, in hundredths of a second.
const AT_WORK: u64 = 5;
/// Enough modules for twice the memory of a compiler: 4 GiB.
const MODULES: u32 = 256;
/// How deep components lie in one another, of one that is refused.
const NESTING: u32 = 10_000;
/// Enough for minutes of a compiler, and for far more than the tests last.
const LOOPS: u32 = 2000;
const VARIABLES: u32 = 10_000;

/// A host with a driver whose component costs much.
struct Scene {
    host: Host,
    _documents: TempDir,
}

impl Scene {
    /// With a driver that lives beside it.
    fn with_neighbour(component: &[u8]) -> Self {
        Self::with(|folder| {
            let (living, _) = documents::directory_of_its_own(folder, LIVING).unwrap();
            vec![living, expensive(folder, component)]
        })
    }

    /// Alone, with a component of which the compiler does not come to an end by itself.
    fn that_hangs() -> Self {
        let component = expensive::hanging(LOOPS, VARIABLES);
        Self::with(|folder| vec![expensive(folder, &component)])
    }

    fn with(backends: impl FnOnce(&Path) -> Vec<PathBuf>) -> Self {
        needs_root();
        let folder = tempfile::tempdir().unwrap();
        let options = HostOptions {
            backends: backends(folder.path()),
            ..HostOptions::default()
        };
        Self {
            host: Host::start(options).unwrap(),
            _documents: folder,
        }
    }

    fn compilers(&self) -> Vec<Child> {
        Child::all_of(self.host.id(), COMPILER).unwrap()
    }

    /// The process that compiles, at work: it is confined by then.
    fn compiler(&self) -> Child {
        let started = Instant::now();
        loop {
            if let Some(child) = self
                .compilers()
                .into_iter()
                .find(|it| it.cpu_ticks() > AT_WORK)
            {
                return child;
            }
            assert!(started.elapsed() < PATIENCE, "{}", self.host.log());
            thread::sleep(LOOK);
        }
    }

    fn wait_for(&self, words: &str) {
        let started = Instant::now();
        while !self.host.log().contains(words) {
            let log = self.host.log();
            assert!(started.elapsed() < PATIENCE, "no {words:?} in:\n{log}");
            thread::sleep(LOOK);
        }
    }

    async fn serves(&self) {
        let orchestrator = self.host.orchestrator().await.unwrap();
        assert_eq!(orchestrator.driver_name().await.unwrap(), LIVING);
        directory_life::live(&self.host, &orchestrator, Build::Now)
            .await
            .unwrap();
    }
}

fn expensive(folder: &Path, component: &[u8]) -> PathBuf {
    let file = folder.join("expensive.wasm");
    fs::write(&file, component).unwrap();
    documents::of_component(folder, "expensive", &file).unwrap()
}

#[tokio::test]
async fn privileged_a_component_that_bloats_the_compiler_is_rejected() {
    let scene = Scene::with_neighbour(&expensive::bloating(MODULES));
    scene.serves().await;
    scene.wait_for(
        "the component does not compile: it takes more than 2048 MiB of memory; split its largest functions, or build it smaller",
    );
    scene.serves().await;
}

#[tokio::test]
async fn privileged_a_deeply_nested_component_is_rejected() {
    let scene = Scene::with_neighbour(&expensive::deep(NESTING));
    scene.serves().await;
    scene.wait_for(
        "the component does not compile: it has components or modules more than 64 deep in one another",
    );
    scene.serves().await;
    assert!(scene.compilers().is_empty());
}

#[tokio::test]
async fn privileged_a_driver_serves_while_a_compiler_hangs() {
    let scene = Scene::with_neighbour(&expensive::hanging(LOOPS, VARIABLES));
    scene.serves().await;
    let compiler = scene.compiler();
    scene.serves().await;
    assert!(compiler.is_alive(), "{}", scene.host.log());
}

#[test]
fn privileged_a_compiler_runs_as_nobody_with_limits() {
    let scene = Scene::that_hangs();
    let compiler = scene.compiler();
    let status = compiler.status().unwrap();
    for (key, value) in [
        ("Uid", "65534 65534 65534 65534"),
        ("Gid", "65534 65534 65534 65534"),
        ("Groups", ""),
        ("NoNewPrivs", "1"),
        // A filter of system calls (proc(5)).
        ("Seccomp", "2"),
        ("CapEff", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
        ("CapInh", "0000000000000000"),
    ] {
        assert_eq!(status[key], value, "{key}");
    }
    let limits = compiler.limits().unwrap();
    for (name, soft) in [
        ("Max data size", "2147483648"),
        ("Max address space", "4294967296"),
        ("Max cpu time", "120"),
        ("Max open files", "3"),
        ("Max core file size", "0"),
        ("Max file size", "0"),
    ] {
        assert_eq!(limits[name], soft, "{name}");
    }
    let descriptors = compiler.descriptors().unwrap();
    let numbers: Vec<_> = descriptors.keys().map(String::as_str).collect();
    assert_eq!(numbers, ["0", "1", "2"]);
    assert!(
        descriptors.values().all(|to| to.starts_with("pipe:")),
        "{descriptors:?}"
    );
    let variables = [
        "MALLOC_ARENA_MAX",
        "RAYON_NUM_THREADS",
        "TOKIO_WORKER_THREADS",
    ];
    assert_eq!(compiler.variables().unwrap(), variables);
    assert_eq!(compiler.nice(), Some(3));
}

#[test]
fn privileged_a_killed_compiler_costs_one_rejection() {
    let scene = Scene::that_hangs();
    let first = scene.compiler();
    first.kill(Signal::KILL).unwrap();
    scene.wait_for("the component was not compiled: the process was killed from outside");
    let second = scene.compiler();
    assert_ne!(first.id(), second.id());
}

#[test]
fn privileged_a_component_that_crashes_the_compiler_is_rejected() {
    let scene = Scene::that_hangs();
    let first = scene.compiler();
    first.kill(Signal::ABORT).unwrap();
    let words = "the component does not compile: the process crashed (signal: 6 (SIGABRT)";
    scene.wait_for(words);
    // It is not tried again by itself; a request is answered from memory.
    let mut swap = Command::new(Workspace::locate().unwrap().host_program());
    swap.args(["swap", "expensive", "--data-dir"]);
    let asked = swap.arg(scene.host.data()).output().unwrap();
    let said = String::from_utf8_lossy(&asked.stderr);
    assert_eq!(asked.status.code(), Some(1), "{said}");
    assert!(said.contains(words), "{said}");
    assert!(scene.compilers().is_empty());
}

#[test]
fn privileged_a_component_that_uses_all_cpu_is_rejected() {
    let scene = Scene::that_hangs();
    // The signal that the kernel sends when it is used up; the limits above show that it is set.
    scene.compiler().kill(Signal::XCPU).unwrap();
    scene.wait_for("the component does not compile: it takes more than 120 s of CPU time; split");
}

#[test]
fn privileged_a_compiler_goes_with_its_host() {
    let mut scene = Scene::that_hangs();
    let compiler = scene.compiler();
    scene.host.kill_9().unwrap();
    let started = Instant::now();
    while compiler.is_alive() {
        assert!(started.elapsed() < PATIENCE, "{:#?}", compiler.status());
        thread::sleep(LOOK);
    }
}
