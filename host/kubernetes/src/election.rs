//! Leader election between several hosts of a driver, by one lease for each driver.
//!
//! A holder notices its loss before another host can win: a holder that could not renew for [`lease::RENEW_DEADLINE`] has lost, even if the API
//! server still names it.

mod lease;

use crate::error::KubernetesError;
use crate::request::answered_within;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use lease::{Observed, RENEW_DEADLINE, RETRY};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use wasmount_core::names::DriverName;

/// Prefix of the names of our leases; those of the sidecars begin otherwise.
const LEASE_PREFIX: &str = "wasmount-";

/// A host that is a candidate for some drivers.
pub struct Election {
    candidate: Candidate,
    driver_leases: Vec<DriverLease>,
}

/// A host that was elected. Every lease is renewed until it is lost, withdrawn or released.
pub struct Leadership {
    candidate: Candidate,
    leases: Vec<String>,
    /// Each ends with why its lease is lost; none: it was withdrawn.
    renewals: JoinSet<Option<KubernetesError>>,
    term: Term,
}

/// How long a host is elected, by its own clock, independent of any notification.
#[derive(Clone)]
pub struct Term {
    /// The end of each lease; none: it was withdrawn.
    until: Vec<watch::Receiver<Option<Instant>>>,
}

/// A lease that is requested or held until it is withdrawn.
#[derive(Default)]
struct DriverLease {
    lease: String,
    withdrawn: CancellationToken,
    /// This host may hold the lease. Code that waits for that to end also continues when this is dropped.
    taken: watch::Sender<bool>,
}

/// Withdraws one driver from an election, before or after it is won.
#[derive(Clone)]
pub struct Withdrawal {
    withdrawn: CancellationToken,
    taken: watch::Receiver<bool>,
}

#[derive(Clone)]
struct Candidate {
    leases: Api<Lease>,
    me: String,
    /// The pause between two reads of a lease that another host holds.
    retry_pause: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl Election {
    /// `host` is this host's name in the leases; a suffix makes it unique.
    pub fn new<'a>(
        client: Client,
        namespace: &str,
        host: &str,
        drivers: impl IntoIterator<Item = &'a DriverName>,
    ) -> Self {
        let mut leases: Vec<String> = drivers.into_iter().map(lease_of).collect();
        // All hosts take leases in the same order, so that no two wait for each other.
        leases.sort_unstable();
        Self::of_leases(client, namespace, host, leases, || RETRY)
    }

    /// Under leases of these names. A host that loses reads a lease again after `retry_pause`, which may change: where thousands wait, they must send
    /// fewer requests than the holder.
    pub(crate) fn of_leases(
        client: Client,
        namespace: &str,
        host: &str,
        leases: Vec<String>,
        retry_pause: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        let leases = leases.into_iter().map(|lease| DriverLease {
            lease,
            ..DriverLease::default()
        });
        Self {
            driver_leases: leases.collect(),
            candidate: Candidate {
                leases: Api::namespaced(client, namespace),
                me: format!("{host}_{}", Uuid::new_v4()),
                retry_pause: Arc::new(move || retry_pause().max(RETRY)),
            },
        }
    }

    /// The withdrawal of one of the drivers; none: this host is not a candidate for it.
    pub fn withdrawal(&self, driver: &DriverName) -> Option<Withdrawal> {
        let lease = lease_of(driver);
        let found = self.driver_leases.iter().find(|it| it.lease == lease)?;
        Some(Withdrawal {
            withdrawn: found.withdrawn.clone(),
            taken: found.taken.subscribe(),
        })
    }

    /// Returns once this host holds the lease of every driver that was not withdrawn; until then `waiting` is called with each current holder, once
    /// each. Leases that were won are renewed meanwhile.
    pub async fn win(
        self,
        mut waiting: impl FnMut(&str, &str),
    ) -> Result<Leadership, KubernetesError> {
        let mut won = Leadership {
            candidate: self.candidate,
            leases: Vec::new(),
            renewals: JoinSet::new(),
            term: Term { until: Vec::new() },
        };
        for driver_lease in self.driver_leases {
            let mut held = |by: &str| waiting(&driver_lease.lease, by);
            let taken = tokio::select! {
                taken = won.candidate.take(&driver_lease, &mut held) => taken,
                Some(lost) = ended(&mut won.renewals) => return Err(lost),
            };
            let Some(since) = taken else {
                continue;
            };
            let (renewed, until) = watch::channel(Some(since + RENEW_DEADLINE));
            won.term.until.push(until);
            won.leases.push(driver_lease.lease.clone());
            let renewal = won.candidate.clone().renew(driver_lease, renewed);
            won.renewals.spawn(renewal);
        }
        Ok(won)
    }
}

impl Term {
    /// Whether this host is still elected: every lease that was not withdrawn was renewed recently enough.
    pub fn lasts(&self) -> bool {
        let now = Instant::now();
        let lasts = |until: &watch::Receiver<Option<Instant>>| {
            until.borrow().is_none_or(|until| now < until)
        };
        self.until.iter().all(lasts)
    }
}

impl Leadership {
    /// The term, for code that must not depend on a notification.
    pub fn term(&self) -> Term {
        self.term.clone()
    }

    /// Returns when a lease is lost, with the reason; none: all were withdrawn.
    pub async fn lost(&mut self) -> Option<KubernetesError> {
        ended(&mut self.renewals).await
    }

    /// Releases all leases, so that another host need not wait. Call it when no more work is done.
    pub async fn release(mut self) {
        self.renewals.shutdown().await;
        for lease in &self.leases {
            self.candidate.give_back(lease).await;
        }
    }
}

impl Candidate {
    /// Returns when this host holds the lease, with the moment from which it does; none: it was withdrawn before.
    async fn take(
        &self,
        driver_lease: &DriverLease,
        waiting: &mut impl FnMut(&str),
    ) -> Option<Instant> {
        let mut observed = None;
        let mut last_holder = None;
        let name = &driver_lease.lease;
        // From now on a withdrawal waits until the lease is dropped. Before the check: a withdrawal in between waits, or is seen here.
        driver_lease.taken.send_replace(true);
        if driver_lease.withdrawn.is_cancelled() {
            return None;
        }
        loop {
            let start = Instant::now();
            match self.attempt(name, &mut observed).await {
                Ok(None) => return Some(start),
                Ok(Some(by)) if last_holder.as_ref() == Some(&by) => {}
                Ok(Some(by)) => {
                    waiting(&by);
                    last_holder = Some(by);
                }
                Err(error) => {
                    tracing::warn!(lease = name, %error, "the lease could not be acquired: retrying")
                }
            }
            // No request is cancelled: the API server may carry it out all the same.
            tokio::select! {
                () = sleep((self.retry_pause)()) => {}
                () = driver_lease.withdrawn.cancelled() => {
                    // A failed attempt may have been carried out.
                    self.give_back(name).await;
                    return None;
                }
            }
        }
    }

    /// Renews until it cannot, and publishes how long the lease lasts. None: it was withdrawn, and is released.
    async fn renew(
        self,
        driver_lease: DriverLease,
        until: watch::Sender<Option<Instant>>,
    ) -> Option<KubernetesError> {
        let mut deadline = until.borrow().unwrap_or_else(Instant::now);
        let name = &driver_lease.lease;
        let lost = |reason: String| {
            Some(KubernetesError::LeaseLost {
                name: name.clone(),
                reason,
            })
        };
        let mut last = "no attempt ended".to_owned();
        loop {
            let attempt = async {
                tokio::select! {
                    () = sleep(RETRY) => {}
                    () = driver_lease.withdrawn.cancelled() => return None,
                }
                Some((Instant::now(), self.attempt(name, &mut None).await))
            };
            match timeout_at(deadline, attempt).await {
                Ok(None) => break,
                Ok(Some((start, Ok(None)))) => {
                    deadline = start + RENEW_DEADLINE;
                    until.send_replace(Some(deadline));
                }
                Ok(Some((_, Ok(Some(by))))) => return lost(format!("{by} has it")),
                Ok(Some((_, Err(error)))) => {
                    tracing::warn!(lease = name, %error, "lease renewal failed: retrying");
                    last = error.to_string();
                }
                Err(_) => {
                    let seconds = RENEW_DEADLINE.as_secs();
                    return lost(format!("it was not renewed for {seconds} s: {last}"));
                }
            }
        }
        until.send_replace(None);
        self.give_back(name).await;
        None
    }

    /// Reads a lease, and takes or renews it if the rules allow that; otherwise returns its holder.
    async fn attempt(
        &self,
        name: &str,
        observed: &mut Option<Observed>,
    ) -> Result<Option<String>, KubernetesError> {
        let there = send("read", name, self.leases.get_opt(name)).await?;
        let other = there
            .as_ref()
            .and_then(|lease| lease::other_holder(lease, &self.me, Instant::now(), observed));
        if other.is_some() {
            return Ok(other);
        }
        let exists = there.is_some();
        let taken = lease::taken(name, there, &self.me, Timestamp::now());
        let parameters = PostParams::default();
        // Rejected if another host was faster; the next read shows the holder.
        if exists {
            let replaced = self.leases.replace(name, &parameters, &taken);
            send("write", name, replaced).await?;
        } else {
            send("create", name, self.leases.create(&parameters, &taken)).await?;
        }
        Ok(None)
    }

    /// Releases a lease, so that another host need not wait; a lease of another holder stays unchanged.
    async fn give_back(&self, lease: &str) {
        if let Err(error) = self.release(lease).await {
            tracing::warn!(lease, %error, "lease not released: another host waits until it expires");
        }
    }

    async fn release(&self, name: &str) -> Result<(), KubernetesError> {
        let lease = send("read", name, self.leases.get_opt(name)).await?;
        let released = lease.and_then(|lease| lease::released(lease, &self.me, Timestamp::now()));
        if let Some(released) = released {
            let parameters = PostParams::default();
            let request = self.leases.replace(name, &parameters, &released);
            send("give back", name, request).await.map(drop)?;
        }
        Ok(())
    }
}

impl Withdrawal {
    /// Withdraws the lease. Returns once it was released, or that attempt has ended; at once if it was never requested.
    pub async fn withdraw(mut self) {
        self.withdrawn.cancel();
        // Fails once the `DriverLease` is dropped, which also ends the lease.
        let _ = self.taken.wait_for(|taken| !taken).await;
    }

    /// Whether the lease is withdrawn.
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn.is_cancelled()
    }

    /// Returns when it is.
    pub async fn withdrawn(&self) {
        self.withdrawn.cancelled().await;
    }
}

/// Object names are lower case, as for CSIDriver.
pub(crate) fn lease_of(driver: &DriverName) -> String {
    format!("{LEASE_PREFIX}{driver}").to_ascii_lowercase()
}

/// The first loss of a lease; none: no lease is left.
async fn ended(renewals: &mut JoinSet<Option<KubernetesError>>) -> Option<KubernetesError> {
    while let Some(ended) = renewals.join_next().await {
        match ended {
            Ok(None) => {}
            Ok(Some(lost)) => return Some(lost),
            Err(error) => {
                return Some(KubernetesError::LeaseLost {
                    name: LEASE_PREFIX.to_owned(),
                    reason: error.to_string(),
                });
            }
        }
    }
    None
}

/// One request. Its time limit is the interval until the next one.
async fn send<T>(
    verb: &str,
    name: &str,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, KubernetesError> {
    answered_within(RETRY, format!("{verb} Lease {name}"), request).await
}
