//! Prints what a swap costs, on this machine's disk and on a file system in memory:
//! `cargo test --release -p wasmount-versions --test reconciler speed -- --ignored --nocapture --test-threads 1`. Nothing is asserted about time.

use crate::bench::*;
use crate::memory::Memory;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmount_core::attributes::Attributes;
use wasmount_core::capabilities::Hidden;
use wasmount_core::document::{Grants, Limits, Wasi};
use wasmount_core::names::DriverName;
use wasmount_core::rpc::Rpc;
use wasmount_engine::{BackendParts, Engine, EngineOptions, NodeFacts};
use wasmount_versions::{AdmissionReport, Proof, SwapRequest, run_admission};

const SWAPS: usize = 300;
/// Versions for which memory is measured.
const KEPT: u8 = 20;
/// A file system in memory: the cost of a swap without its disk.
const MEMORY: &str = "/dev/shm";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints times, for a person"]
async fn speed_of_swaps_between_two_compiled_builds_on_this_disk() {
    swaps_below("on this disk", &std::env::temp_dir()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints times, for a person"]
async fn speed_of_swaps_between_two_compiled_builds_in_memory() {
    swaps_below("in memory", Path::new(MEMORY)).await;
}

/// Each swap finds another build in its file: it is read, hashed, found compiled, admitted, written to the history and activated.
async fn swaps_below(place: &str, directory: &Path) {
    let bench = Bench::serving_below(directory).await;
    let builds = [build("misbehave", 1), build("misbehave", 2)];
    let (mut whole, mut proving) = (Vec::new(), Vec::new());
    let (mut switching, mut writing, mut without) = (Vec::new(), Vec::new(), Vec::new());
    let mut syncs = Vec::new();
    for round in 0..SWAPS + builds.len() {
        put(&builds[(round + 1) % builds.len()], &bench.plugin());
        let began = Instant::now();
        let outcome = bench.reconciler.swap(SwapRequest::default()).await.unwrap();
        let took = began.elapsed();
        assert!(outcome.changed);
        let synced = synced(&bench);
        // The first swap to each build compiles.
        if round >= builds.len() {
            whole.push(took);
            proving.push(outcome.proving);
            switching.push(outcome.switching);
            writing.push(outcome.writing);
            without.push(took.saturating_sub(outcome.writing));
            syncs.push(synced);
        }
    }
    println!("swaps {place}:");
    print("the whole command, to its answer", whole);
    print("- had and proved, from the cache of compiled code", proving);
    print(
        "- the switch: proved until new calls use it, durable",
        switching,
    );
    print("  - of the switch: the disk", writing);
    print("the whole command without the disk", without);
    print("beside it, one fdatasync of 4 KiB", syncs);
    // The cost for a call is one load of a pointer.
    let (mut reads, backend) = (Vec::new(), &bench.driver);
    for _ in 0..SWAPS {
        let began = Instant::now();
        backend.serves(Rpc::CreateVolume).unwrap();
        reads.push(began.elapsed());
    }
    print("a call's look at the version in use", reads);
    assert_eq!(
        bench.granted.lock().unwrap().last(),
        Some(&Grants::default())
    );
}

fn synced(bench: &Bench) -> Duration {
    let mut file = File::create(bench.folder.path().join("synced")).unwrap();
    file.write_all(&[0; 4096]).unwrap();
    let began = Instant::now();
    file.sync_data().unwrap();
    began.elapsed()
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[times.len() * percent / 100];
    println!("  {what}: p50 {:?}, p99 {:?}", at(50), at(99));
}

/// The memory of each kept version that serves no client: mapped, linked, and called a few times by its admission.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints memory, for a person"]
async fn speed_costs_memory_for_each_version_that_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        EngineOptions::for_backends(Some(folder.path().join("cache")), [&Limits::default()]);
    let memory = Arc::new(Memory::default());
    let all: Vec<_> = (0..=KEPT).map(|mark| build("misbehave", mark)).collect();
    let compiling = Engine::new(options.clone()).unwrap();
    for wasm in &all {
        compiling.load(wasm.clone()).await.unwrap();
    }
    drop(compiling);
    let engine = Engine::new(options).unwrap();
    let mut before = Rss::default();
    for (number, wasm) in all.into_iter().enumerate() {
        let proof = Proof {
            wasi: Wasi::default(),
            grants: &Grants::default(),
            parts: BackendParts {
                driver: DriverName::parse("memory.wasmount.io").unwrap(),
                limits: Limits::default(),
                settings: Attributes::default(),
                secrets: Arc::default(),
                held_secrets: Default::default(),
                sealing: None,
                network: Default::default(),
                granted_facts: Default::default(),
                granted_of_nodes: Default::default(),
                node_facts: NodeFacts::given(Default::default()),
                node_name: None,
                state: memory.clone(),
                mounter: memory.clone(),
            },
            hidden: &Hidden::default(),
            kept: None,
            admitted_before: false,
        };
        run_admission(&engine, wasm, proof, &mut AdmissionReport::default())
            .await
            .map(drop)
            .unwrap();
        // The first one includes the memory that all share.
        if number == 0 {
            before = Rss::now();
        }
    }
    let Rss {
        own,
        mapped,
        shared,
    } = Rss::now();
    let each = |after: u64, before: u64| after.saturating_sub(before) / u64::from(KEPT);
    println!(
        "each version that is kept, in KiB: {} of its own, {} of code mapped from its file, {} shared with instances",
        each(own, before.own),
        each(mapped, before.mapped),
        each(shared, before.shared)
    );
}

/// Memory that this process has resident, in KiB (proc_pid_status(5)).
#[derive(Default)]
struct Rss {
    own: u64,
    mapped: u64,
    shared: u64,
}

impl Rss {
    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.unwrap().trim().trim_end_matches(" kB");
            number.parse().unwrap()
        };
        Self {
            own: of("RssAnon:"),
            mapped: of("RssFile:"),
            shared: of("RssShmem:"),
        }
    }
}
