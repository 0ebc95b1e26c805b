//! Prints what a swap costs, for a person: `cargo test -p wasmount-versions --test keeper speed -- --nocapture`. Nothing is asserted about time.

use crate::bench::*;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};
use wasmount_core::document::Grants;
use wasmount_core::rpc::Rpc;
use wasmount_versions::SwapRequest;

const SWAPS: usize = 300;

/// Of each swap: from the command to its answer, with two durable writes of the history, and beside it what such a write alone takes here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn speed_of_swaps_between_two_compiled_builds() {
    let bench = Bench::serving().await;
    let builds = [build("misbehave", 1), build("misbehave", 2)];
    let (mut swaps, mut syncs) = (Vec::new(), Vec::new());
    for round in 0..SWAPS + builds.len() {
        put(&builds[(round + 1) % builds.len()], &bench.plugin());
        let began = Instant::now();
        let outcome = bench.keeper.swap(SwapRequest::default()).await.unwrap();
        let took = began.elapsed();
        assert!(outcome.changed);
        // The first of each compiles.
        if round >= builds.len() {
            swaps.push(took);
        }
        syncs.push(synced(&bench));
    }
    print("swap, from the command to its answer", swaps);
    print("one fdatasync of 4 KiB", syncs);
    // What a call sees of it is one load of a pointer.
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
    println!("{what}: p50 {:?}, p99 {:?}", at(50), at(99));
}
