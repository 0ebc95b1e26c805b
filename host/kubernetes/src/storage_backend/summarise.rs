//! The work of the elected host that summarises reports: it watches them, writes the status, and adds and removes the finalizer.
//!
//! Every host is a candidate. Without an elected host everything else continues: hosts serve and report.

mod round;

use super::report::ReportObject;
use super::watch::reason;
use super::{RateLimit, StorageBackends, reports};
use crate::election::Election;
use crate::error::KubernetesError;
use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use round::Round;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Name of the lease; those of drivers begin otherwise (`wasmount-`).
const LEASE: &str = "wasmount.storagebackends";
/// Hexadecimal digits of a selector's hash in the name of a lease.
const HASH_DIGITS: usize = 8;
/// Reports of one page of the first listing: some 500 bytes each.
const LIST_PAGE: u32 = 500;
/// Between two checks for silent hosts, when nothing else happens.
const LOOK: Duration = Duration::from_secs(60);
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

/// A report, and since when it is unchanged, by our own clock.
pub(super) struct Known {
    pub(super) report: ReportObject,
    pub(super) since: Instant,
}

/// Reports by the names of their objects.
pub(super) type Reports = BTreeMap<String, Known>;

/// Is a candidate, and works while elected; never returns.
pub async fn summarise(who: Summarising, backends: &StorageBackends) {
    loop {
        if let Err(error) = elected(&who, backends).await {
            let reason = error.in_words();
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
    let patience = rate_limit.clone();
    let election = Election::of_lease(
        who.client.clone(),
        &who.namespace,
        &who.host,
        lease(who.selector.as_deref()),
        // Of thousands of hosts one is elected, and all others read the lease.
        move || patience.pause(),
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
    let mut heard = Heard::default();
    let mut round = Round::new(who.client.clone());
    let mut due = Instant::now() + LOOK;
    let mut lost = false;
    loop {
        // Changes that arrive together are written together.
        let soon = Instant::now() + rate_limit.pause();
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => {
                    lost = false;
                    heard.take(event);
                    due = due.min(soon);
                }
                Some(Err(error)) => if !std::mem::replace(&mut lost, true) {
                    let reason = reason(&error);
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
                if heard.listed {
                    let there = objects.borrow_and_update().clone();
                    round.run(&there, &heard.reports).await;
                }
                due = Instant::now() + LOOK;
            }
        }
    }
}

/// All reports, as they arrive.
#[derive(Default)]
struct Heard {
    reports: Reports,
    listed: bool,
    /// The reports of a listing under way.
    listing: Option<Reports>,
}

impl Heard {
    fn take(&mut self, event: Event<ReportObject>) {
        let name = |report: &ReportObject| report.metadata.name.clone().unwrap_or_default();
        match event {
            Event::Init => self.listing = Some(Reports::new()),
            Event::InitApply(report) => {
                let name = name(&report);
                let known = self.known(&name, report);
                if let Some(listing) = &mut self.listing {
                    listing.insert(name, known);
                }
            }
            Event::InitDone => {
                self.reports = self.listing.take().unwrap_or_default();
                self.listed = true;
            }
            Event::Apply(report) => {
                let name = name(&report);
                let known = self.known(&name, report);
                self.reports.insert(name, known);
            }
            Event::Delete(report) => drop(self.reports.remove(&name(&report))),
        }
    }

    /// A report that is listed again unchanged keeps its time.
    fn known(&self, name: &str, report: ReportObject) -> Known {
        let same = self.reports.get(name).filter(|before| {
            before.report.metadata.resource_version == report.metadata.resource_version
        });
        Known {
            since: same.map_or_else(Instant::now, |before| before.since),
            report,
        }
    }
}

/// The name of the lease for the hosts of a selector.
pub(crate) fn lease(selector: Option<&str>) -> String {
    let Some(selector) = selector else {
        return LEASE.to_owned();
    };
    let mut hash = String::new();
    for byte in Sha256::digest(selector) {
        // Writing to a String cannot fail.
        let _ = write!(hash, "{byte:02x}");
    }
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
