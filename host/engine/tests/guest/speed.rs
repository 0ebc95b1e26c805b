//! Prints the cost of a fresh call, for a person: `cargo test -p wasmount-engine --test guest speed -- --ignored --nocapture`. It asserts nothing
//! about time; the project's benchmark compares times.

use crate::harness::{Fixture, create_volume, directory};
use crate::network::Scene;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::Backend;
use wasmount_core::document::Limits;
use wasmount_core::rpc::Rpc;
use wasmount_core::secrets::Secrets;

const CALLS: usize = 2000;
/// Calls beside spinning guests.
const CALLS_BESIDE: usize = 200;
/// Interval between two of these calls.
const PAUSE: Duration = Duration::from_millis(5);
/// Requests in a call: so many that the call itself, without them, is a small part.
const REQUESTS: u32 = 20;
/// Calls with requests, alternating with as many requests of a native client.
const CALLS_WITH_REQUESTS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints times, for a person"]
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

/// The delay is measured from the planned start of a call: a timer that fires late counts as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints times, for a person"]
async fn delay_beside_spinning_guests() {
    for hogs in [0, 2, 8, 24] {
        let limits = Limits {
            cpu: Duration::from_secs(3600),
            concurrency: 48,
            ..Limits::default()
        };
        let spinning = Arc::new(Fixture::with(limits).await);
        let hogs: Vec<_> = (0..hogs)
            .map(|_| {
                let spinning = Arc::clone(&spinning);
                tokio::spawn(async move { spinning.create("spin").await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let quick = Fixture::misbehave().await;
        let calls = tokio::spawn(async move {
            let mut delays = Vec::new();
            for _ in 0..CALLS_BESIDE {
                let due = tokio::time::Instant::now() + PAUSE;
                tokio::time::sleep_until(due).await;
                quick.create("").await.unwrap();
                delays.push(due.elapsed());
            }
            delays
        });
        let delays = calls.await.unwrap();
        assert!(hogs.iter().all(|hog| !hog.is_finished()));
        print(&format!("a call beside {} spinning", hogs.len()), delays);
        for hog in hogs {
            hog.abort();
            let _ = hog.await;
        }
    }
}

/// A native client and a plugin in turn, for the same server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints times, for a person"]
async fn speed_of_a_request_beside_a_native_client() {
    let scene = Scene::new().await;
    // The client wants one, though this server has no TLS; another test may have set it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let native = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}/volumes", scene.array.address);
    let script = vec!["GET /volumes"; REQUESTS as usize].join("; ");
    let (mut of_native, mut of_plugin) = (Vec::new(), Vec::new());
    for _ in 0..CALLS_WITH_REQUESTS {
        let began = Instant::now();
        for _ in 0..REQUESTS {
            let answer = native.get(&url).send().await.unwrap();
            assert_eq!(answer.bytes().await.unwrap(), "done");
        }
        of_native.push(began.elapsed() / REQUESTS);
        let began = Instant::now();
        scene.run("").await.0.unwrap();
        let alone = began.elapsed();
        let began = Instant::now();
        scene.run(&script).await.0.unwrap();
        of_plugin.push(began.elapsed().saturating_sub(alone) / REQUESTS);
    }
    print("GET of a native client", of_native);
    print("GET of a plugin", of_plugin);
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[times.len() * percent / 100];
    println!(
        "{what}: p50 {:?}, p99 {:?}, most {:?}",
        at(50),
        at(99),
        times[times.len() - 1]
    );
}
