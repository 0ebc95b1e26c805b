//! The election of the host that summarises reports, and its work while elected: it watches them, and writes the status after changes.
//!
//! Every host is a candidate. Without an elected host everything else continues: hosts serve and report.

use super::report::ReportObject;
use super::status_writer::{CHECK_INTERVAL, StatusWriter};
use super::{RateLimit, StorageBackends, reports};
use crate::election::Election;
use crate::error::{KubernetesError, watch_failure};
use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use sha2::{Digest, Sha256};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Name of the lease; those of drivers begin otherwise (`wasmount-`).
const LEASE: &str = "wasmount.storagebackends";
/// Hexadecimal digits of a selector's hash in the name of a lease.
const HASH_DIGITS: usize = 8;
/// Reports of one page of the first listing: some 500 bytes each.
pub(super) const LIST_PAGE: u32 = 500;
/// A candidate reads the lease of another host as seldom as a request is repeated that failed so often: up to 16 s later, about as long as a lease
/// lasts after its holder has died.
const CANDIDATE_FAILURES: u32 = 4;
/// Pause after a term ends.
const PAUSE: Duration = Duration::from_secs(5);

/// The host that summarises.
#[derive(Clone)]
pub struct Summarising {
    /// The API server.
    pub client: Client,
    /// The host's name, for the lease.
    pub host: String,
    /// The namespace of the lease.
    pub namespace: String,
    /// Which backends these hosts serve: hosts with another selector elect another host.
    pub selector: Option<String>,
}

/// Is a candidate, and works while elected; never returns.
pub async fn summarise(who: Summarising, backends: &StorageBackends) {
    loop {
        if let Err(error) = Box::pin(elected(&who, backends)).await {
            let reason = error.describe();
            tracing::warn!(
                reason,
                "this host does not write the status of StorageBackends"
            );
        }
        sleep(PAUSE).await;
    }
}

async fn elected(who: &Summarising, backends: &StorageBackends) -> Result<(), KubernetesError> {
    let rate_limit = backends.rate_limit();
    let pacing = rate_limit.clone();
    let election = Election::of_leases(
        who.client.clone(),
        &who.namespace,
        &who.host,
        vec![lease(who.selector.as_deref())],
        // Of thousands of hosts one is elected, and all others read the lease, also before they know how many they are.
        move || pacing.backoff(CANDIDATE_FAILURES),
    );
    let mut leadership = election
        .win(|lease, by| {
            tracing::debug!(
                lease,
                by,
                "another host writes the status of StorageBackends"
            )
        })
        .await?;
    tracing::info!("this host writes the status of StorageBackends");
    tokio::select! {
        lost = leadership.lost() => lost.map_or(Ok(()), Err),
        () = work(who, backends, &rate_limit) => Ok(()),
    }
}

/// Works for one term; never returns.
async fn work(who: &Summarising, backends: &StorageBackends, rate_limit: &RateLimit) {
    let api = Api::<ReportObject>::all_with(who.client.clone(), &reports());
    let config = watcher::Config::default().page_size(LIST_PAGE);
    let events = watcher(api, config)
        .modify(|report| report.metadata.managed_fields = None)
        .default_backoff();
    let mut events = std::pin::pin!(events);
    let mut objects = backends.objects();
    let mut writer = StatusWriter::new(who.client.clone(), who.host.clone());
    let mut due = Instant::now() + CHECK_INTERVAL;
    let mut lost = false;
    loop {
        // Changes that arrive together are written together.
        let soon = Instant::now() + rate_limit.pause();
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => {
                    lost = false;
                    writer.take(event);
                    due = due.min(soon);
                }
                Some(Err(error)) => if !std::mem::replace(&mut lost, true) {
                    let reason = watch_failure(&error);
                    tracing::warn!(reason, "status reports of StorageBackends are not watched");
                },
                None => return std::future::pending().await,
            },
            changed = objects.changed() => {
                if changed.is_err() {
                    return std::future::pending().await;
                }
                due = due.min(soon);
            }
            () = sleep_until(due) => {
                // A deletion that was decided from a part of the reports would leave volumes behind.
                let mut wait = CHECK_INTERVAL;
                if writer.listed {
                    let there = objects.borrow_and_update().clone();
                    wait = writer.round(&there, &backends.held()).await.min(wait);
                }
                due = Instant::now() + wait.max(rate_limit.pause());
            }
        }
    }
}

/// The name of the lease for the hosts of a selector.
pub(crate) fn lease(selector: Option<&str>) -> String {
    let Some(selector) = selector else {
        return LEASE.to_owned();
    };
    let mut hash = hex::encode(Sha256::digest(selector));
    hash.truncate(HASH_DIGITS);
    format!("{LEASE}.{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_another_selector_have_another_lease() {
        assert_eq!(lease(None), LEASE);
        let [one, other] = ["a=b", "a=c"].map(|it| lease(Some(it)));
        assert_ne!(one, other);
        assert!(one.starts_with("wasmount.storagebackends."));
    }
}
