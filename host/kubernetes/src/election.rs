//! Which of several hosts works for a driver: the holder of one lease a driver. Apart because claims exclude calls within one process only, and
//! the sidecars elect their leaders one by one, each perhaps in another pod.
//!
//! Losing is noticed before another can win: a holder that could not renew for [`lease::RENEW_DEADLINE`] has lost, whatever the API server
//! thinks. It does not know what the winner does.

mod lease;

use crate::error::KubernetesError;
use crate::request::answered_within;
use crate::unique;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use lease::{Observed, RENEW_DEADLINE, RETRY, Verdict};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use wasmount_core::names::DriverName;

/// Begins the name of every lease of ours; those of the sidecars begin otherwise.
const LEASE_PREFIX: &str = "wasmount-";

/// A host that wants to work for some drivers.
pub struct Election {
    candidate: Candidate,
    leases: Vec<String>,
}

/// A host that may. Every lease is renewed until it is lost or given back.
pub struct Leadership {
    candidate: Candidate,
    leases: Vec<String>,
    renewals: JoinSet<KubernetesError>,
    term: Term,
}

/// How long a host may, by its own clock, whoever else has been told what meanwhile.
#[derive(Clone)]
pub struct Term {
    /// Of each lease.
    until: Vec<watch::Receiver<Instant>>,
}

#[derive(Clone)]
struct Candidate {
    leases: Api<Lease>,
    me: String,
    /// Between two looks at a lease that another holds.
    patience: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl Election {
    /// `host` is how this host is called in the leases, to which something is added that makes it the only one of that name.
    pub fn new<'a>(
        client: Client,
        namespace: &str,
        host: &str,
        drivers: impl IntoIterator<Item = &'a DriverName>,
    ) -> Result<Self, KubernetesError> {
        // Objects are named in lower case, as CSIDriver is.
        let lease = |driver: &DriverName| format!("{LEASE_PREFIX}{driver}").to_ascii_lowercase();
        let mut leases: Vec<String> = drivers.into_iter().map(lease).collect();
        // All hosts ask in the same order, so that no two wait for one another.
        leases.sort_unstable();
        Ok(Self {
            candidate: Candidate::new(client, namespace, host, || RETRY)?,
            leases,
        })
    }

    /// For work that is not a driver's, under a lease of this name. Who loses looks again after `patience`, which may change: where thousands
    /// wait, they must not ask as often as the one who renews.
    pub(crate) fn of_lease(
        client: Client,
        namespace: &str,
        host: &str,
        lease: String,
        patience: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Result<Self, KubernetesError> {
        let patience = move || patience().max(RETRY);
        Ok(Self {
            candidate: Candidate::new(client, namespace, host, patience)?,
            leases: vec![lease],
        })
    }

    /// Returns once every driver is ours; until then `waiting` is told, once each, who has one. What was won is held meanwhile.
    pub async fn win(
        self,
        mut waiting: impl FnMut(&str, &str),
    ) -> Result<Leadership, KubernetesError> {
        let Self { candidate, leases } = self;
        let mut renewals = JoinSet::new();
        let mut term = Term { until: Vec::new() };
        for lease in &leases {
            let mut held = |by: &str| waiting(lease, by);
            let since = tokio::select! {
                since = candidate.take(lease, &mut held) => since,
                lost = ended(&mut renewals) => return Err(lost),
            };
            let (renewed, until) = watch::channel(since + RENEW_DEADLINE);
            term.until.push(until);
            renewals.spawn(candidate.clone().renew(lease.clone(), renewed));
        }
        Ok(Leadership {
            candidate,
            leases,
            renewals,
            term,
        })
    }
}

impl Term {
    /// Whether it is not over: no lease is older than a holder may let it become.
    pub fn lasts(&self) -> bool {
        let now = Instant::now();
        self.until.iter().all(|until| now < *until.borrow())
    }
}

impl Leadership {
    /// How long it lasts, for whoever must not wait to be told.
    pub fn term(&self) -> Term {
        self.term.clone()
    }

    /// Returns when a lease is lost, and why.
    pub async fn lost(&mut self) -> KubernetesError {
        ended(&mut self.renewals).await
    }

    /// Gives all back, so that another need not wait. To be called once nothing is done any more.
    pub async fn release(mut self) {
        self.renewals.shutdown().await;
        for lease in &self.leases {
            if let Err(error) = self.candidate.release(lease).await {
                tracing::warn!(lease, %error, "the lease is not given back: another host waits until it has run out");
            }
        }
    }
}

impl Candidate {
    fn new(
        client: Client,
        namespace: &str,
        host: &str,
        patience: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Result<Self, KubernetesError> {
        Ok(Self {
            leases: Api::namespaced(client, namespace),
            me: format!("{host}_{}", unique::word()?),
            patience: Arc::new(patience),
        })
    }

    /// Returns when the lease is ours, with the moment from which on it is.
    async fn take(&self, name: &str, waiting: &mut impl FnMut(&str)) -> Instant {
        let mut observed = None;
        let mut told = None;
        loop {
            let start = Instant::now();
            match self.attempt(name, &mut observed).await {
                Ok(Verdict::Free) => return start,
                Ok(Verdict::Held { by }) => {
                    if told.as_ref() != Some(&by) {
                        waiting(&by);
                        told = Some(by);
                    }
                }
                Err(error) => tracing::warn!(lease = name, %error, "trying again"),
            }
            sleep((self.patience)()).await;
        }
    }

    /// Renews until it cannot, and says until when it has.
    async fn renew(self, name: String, until: watch::Sender<Instant>) -> KubernetesError {
        let lost = |reason: String| KubernetesError::LeaseLost {
            name: name.clone(),
            reason,
        };
        let mut last = "no attempt ended".to_owned();
        loop {
            let attempt = async {
                sleep(RETRY).await;
                (Instant::now(), self.attempt(&name, &mut None).await)
            };
            let deadline = *until.borrow();
            match timeout_at(deadline, attempt).await {
                Ok((start, Ok(Verdict::Free))) => {
                    until.send_replace(start + RENEW_DEADLINE);
                }
                Ok((_, Ok(Verdict::Held { by }))) => return lost(format!("{by} has it")),
                Ok((_, Err(error))) => {
                    tracing::warn!(lease = name, %error, "not renewed: trying again");
                    last = error.to_string();
                }
                Err(_) => {
                    let seconds = RENEW_DEADLINE.as_secs();
                    return lost(format!("it was not renewed for {seconds} s: {last}"));
                }
            }
        }
    }

    /// Looks at a lease, and takes it or renews it if that may be.
    async fn attempt(
        &self,
        name: &str,
        observed: &mut Option<Observed>,
    ) -> Result<Verdict, KubernetesError> {
        let there = ask("read", name, self.leases.get_opt(name)).await?;
        if let Some(lease) = &there
            && let Verdict::Held { by } = lease::look(lease, &self.me, Instant::now(), observed)
        {
            return Ok(Verdict::Held { by });
        }
        let exists = there.is_some();
        let taken = lease::taken(name, there, &self.me, Timestamp::now());
        let parameters = PostParams::default();
        // Refused if another was faster; the next look says who.
        if exists {
            ask(
                "write",
                name,
                self.leases.replace(name, &parameters, &taken),
            )
            .await?;
        } else {
            ask("create", name, self.leases.create(&parameters, &taken)).await?;
        }
        Ok(Verdict::Free)
    }

    async fn release(&self, name: &str) -> Result<(), KubernetesError> {
        let lease = ask("read", name, self.leases.get(name)).await?;
        if let Some(released) = lease::released(lease, &self.me, Timestamp::now()) {
            let parameters = PostParams::default();
            let request = self.leases.replace(name, &parameters, &released);
            ask("give back", name, request).await.map(drop)?;
        }
        Ok(())
    }
}

/// The end of the first renewal that ends; for ever if there is none.
async fn ended(renewals: &mut JoinSet<KubernetesError>) -> KubernetesError {
    match renewals.join_next().await {
        Some(Ok(lost)) => lost,
        Some(Err(error)) => KubernetesError::LeaseLost {
            name: LEASE_PREFIX.to_owned(),
            reason: error.to_string(),
        },
        None => std::future::pending().await,
    }
}

/// One request. It may take as long as it is until the next one.
async fn ask<T>(
    verb: &str,
    name: &str,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, KubernetesError> {
    answered_within(RETRY, format!("{verb} Lease {name}"), request).await
}
