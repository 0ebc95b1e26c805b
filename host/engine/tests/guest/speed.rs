//! Prints what a fresh call costs, for a person: `cargo test -p wasmount-engine --test guest speed -- --nocapture`. Nothing is asserted
//! about time; the project's benchmark does that side by side.

use crate::harness::{Fixture, create_volume, directory};
use std::time::{Duration, Instant};
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::Backend;
use wasmount_core::document::Limits;
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;

const CALLS: usize = 2000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn speed_of_fresh_calls() {
    let fixture = Fixture::of(directory().await, Limits::default(), Secrets::default()).await;
    let mut probes = Vec::new();
    let mut creations = Vec::new();
    for _ in 0..CALLS {
        let call = fixture.call(Rpc::Probe);
        let began = Instant::now();
        assert!(fixture.backend.probe(&call).await.unwrap());
        probes.push(began.elapsed());

        let call = fixture.call(Rpc::CreateVolume);
        let mut args = create_volume("");
        args.parameters = Attributes::default();
        let began = Instant::now();
        fixture.backend.create_volume(&call, args).await.unwrap();
        creations.push(began.elapsed());
    }
    print("probe", probes);
    print(
        "create-volume (get, create-directory, set-quota, create, sync in memory)",
        creations,
    );
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[times.len() * percent / 100];
    println!("{what}: p50 {:?}, p99 {:?}", at(50), at(99));
}
