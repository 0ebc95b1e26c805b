//! Elections with a real API server, of which a driver is taken out while those beside it stay.

use crate::controllers::plane::Plane;
use std::time::Duration;
use tokio::time::timeout;
use wasmount_core::names::DriverName;
use wasmount_kubernetes::{Election, Leadership};

/// Long before a lease expires that is not released, which takes 15 s.
const SOON: Duration = Duration::from_secs(8);

/// Longer than a holder goes on without a renewal, which is 10 s.
const A_TERM: Duration = Duration::from_secs(13);

fn driver(name: &str) -> DriverName {
    DriverName::parse(name).unwrap()
}

async fn election(plane: &Plane, host: &str, drivers: &[&DriverName]) -> Election {
    let client = plane.client().await.unwrap();
    let drivers = drivers.iter().copied();
    Election::new(client, &plane.namespace, host, drivers)
}

async fn won(election: Election) -> Leadership {
    // Late: another has a lease.
    let won = timeout(SOON, election.win(|_, _| {})).await;
    won.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawn_driver_frees_its_real_api_server_lease() {
    let plane = Plane::shared().await;
    let (goes, stays) = (driver("goes.example"), driver("stays.example"));
    let first = election(&plane, "first", &[&goes, &stays]).await;
    let withdrawn = first.withdrawal(&goes).unwrap();
    let last = first.withdrawal(&stays).unwrap();
    assert!(first.withdrawal(&driver("other.example")).is_none());
    let mut first = won(first).await;
    timeout(SOON, withdrawn.withdraw()).await.unwrap();
    // The same host stands anew, under another name in the lease.
    let second = won(election(&plane, "first", &[&goes]).await).await;
    assert!(timeout(A_TERM, first.lost()).await.is_err());
    assert!(first.term().lasts(), "its lease is renewed no more");
    assert!(second.term().lasts());
    // Nothing is left to be lost.
    timeout(SOON, last.withdraw()).await.unwrap();
    assert!(timeout(SOON, first.lost()).await.unwrap().is_none());
    won(election(&plane, "third", &[&stays]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_driver_is_withdrawn_at_a_real_api_server() {
    let plane = Plane::shared().await;
    let (held, free) = (driver("a-held.example"), driver("free.example"));
    let mut holder = won(election(&plane, "holder", &[&held]).await).await;
    let waiting = election(&plane, "waiting", &[&held, &free]).await;
    let withdrawn = waiting.withdrawal(&held).unwrap();
    let (tell, told) = tokio::sync::oneshot::channel();
    let mut tell = Some(tell);
    let winning = tokio::spawn(waiting.win(move |lease, _| {
        let lease = lease.to_owned();
        tell.take().unwrap().send(lease).unwrap();
    }));
    let waits_for = timeout(SOON, told).await.unwrap().unwrap();
    assert_eq!(waits_for, "wasmount-a-held.example");
    timeout(SOON, withdrawn.withdraw()).await.unwrap();
    let mut rest = timeout(SOON, winning).await.unwrap().unwrap().unwrap();
    // What another holds is not given back for it.
    assert!(timeout(A_TERM, holder.lost()).await.is_err());
    assert!(timeout(Duration::ZERO, rest.lost()).await.is_err());

    // Before anything was asked for, nothing is waited for.
    let never = election(&plane, "never", &[&free]).await;
    let withdrawal = never.withdrawal(&free).unwrap();
    timeout(Duration::ZERO, withdrawal.withdraw())
        .await
        .unwrap();
    assert!(won(never).await.lost().await.is_none());
}
