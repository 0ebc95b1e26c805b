//! A server that stops for a while, at rest and under load.

use crate::host::{BOUND, Host, LOCAL, NAS, QUICK, create, remove};
use crate::server::{Knfsd, SHARE, eventually};
use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use wasmount_core::mounter::MountError;
use wasmount_core::pool::PoolReply;

/// Clients at a time under load.
const CLIENTS: usize = 4;
/// How long the server works before it stops, and after it is back.
const PHASE: Duration = Duration::from_secs(3);
/// How long it is away at least: by default, and in a thorough run, as long as a server that boots.
const AWAY: [Duration; 2] = [Duration::from_secs(6), Duration::from_secs(180)];
/// The variable that `cargo xtask test --thorough` sets.
const THOROUGH: &str = "WASMOUNT_TEST_THOROUGH";

#[tokio::test]
async fn on_other_kernel_a_silent_server_delays_its_own_pool_only() {
    let server = Knfsd::start();
    let host = Host::new(SHARE, &QUICK);
    host.call(create(NAS, "a")).await.unwrap();
    server.pause();
    let begun = Instant::now();
    // More calls than the driver has threads.
    let mut waiting = JoinSet::new();
    let host = Arc::new(host);
    for number in 0..2 * CLIENTS {
        let host = Arc::clone(&host);
        waiting.spawn(async move { host.call(create(NAS, &format!("late-{number}"))).await });
    }
    for number in 0..CLIENTS {
        let path = format!("near-{number}");
        assert_eq!(host.call(create(LOCAL, &path)).await, Ok(PoolReply::Done));
    }
    assert!(
        waiting.try_join_next().is_none(),
        "the other pool waited for the server"
    );
    while let Some(ended) = waiting.join_next().await {
        let ended = ended.unwrap();
        assert!(
            matches!(
                ended,
                Err(MountError::Hung(_) | MountError::OutOfThreads(_))
            ),
            "{ended:?}"
        );
    }
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    server.resume();
    eventually(async || host.call(create(NAS, "again")).await).await;
    assert!(server.share().join("again").is_dir());
}

#[tokio::test]
async fn on_other_kernel_a_host_starts_and_stops_without_its_server() {
    let server = Knfsd::start();
    server.pause();
    let mut host = Host::new(SHARE, &QUICK);
    let refused = host.call(create(NAS, "a")).await;
    assert!(matches!(refused, Err(MountError::Hung(_))), "{refused:?}");
    server.resume();
    eventually(async || host.call(create(NAS, "a")).await).await;
    server.pause();
    let begun = Instant::now();
    host.stop();
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    assert_eq!(host.mounts().len(), 0);
    server.resume();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_a_restarting_server_loses_nothing_answered() {
    let server = Knfsd::start();
    let host = Arc::new(Host::new(SHARE, &QUICK));
    let over = Arc::new(AtomicBool::new(false));
    let refused = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (host, over, refused) = (host.clone(), over.clone(), refused.clone());
        clients.spawn(async move {
            let mut kept = Vec::new();
            for number in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let path = format!("c{client}-{number}");
                match host.call(create(NAS, &path)).await {
                    // Every second one is removed again.
                    Ok(_) if number % 2 == 0 => kept.push(path),
                    Ok(_) => {
                        while host.call(remove(NAS, &path)).await.is_err() {
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    Err(_) => {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            kept
        });
    }
    tokio::time::sleep(PHASE).await;
    server.pause();
    refused.store(0, Ordering::Relaxed);
    tokio::time::sleep(AWAY[usize::from(env::var_os(THOROUGH).is_some())]).await;
    // Until it was missed.
    eventually(async || match refused.load(Ordering::Relaxed) {
        0 => Err("no call was refused"),
        refused => Ok(refused),
    })
    .await;
    server.resume();
    eventually(async || host.call(create(NAS, "back")).await).await;
    tokio::time::sleep(PHASE).await;
    over.store(true, Ordering::Relaxed);
    let mut all = 0;
    while let Some(ended) = clients.join_next().await {
        let kept = ended.unwrap();
        all += kept.len();
        for path in kept {
            assert!(server.share().join(&path).is_dir(), "{path} is lost");
        }
    }
    println!("{all} directories were acknowledged, {refused:?} calls were refused");
    assert!(all > 2 * CLIENTS, "{all}");
}
