//! One task for each driver: compares Node and CSINode with NodeGetInfo whenever one of them changes, has them written again, reports to readiness
//! and in events, and removes the startup taint.

use super::drift::{Drift, collisions, drifts, sentence};
use super::driver_state::{DriftPolicy, DriverState, Report};
use super::facts::DriverFacts;
use super::watch::Seen;
use super::writer::Writer;
use crate::events::{About, Events};
use crate::status::{ListingStatus, RegistrationStatus};
use crate::taints;
use kube::Client;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use wasmount_core::driver::NodeInfo;
use wasmount_core::names::DriverName;

/// How long differences may last beside a kubelet. 5 s: it unregisters and registers in rounds of 1 s, and writes Node and CSINode with up to 0.3 s
/// of retries each.
const SETTLING: Duration = Duration::from_secs(5);
/// Between registrations of one driver that do not help, at first and at last: each removes the entry for a moment.
const FIRST_RENEWAL_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_RENEWAL_PAUSE: Duration = Duration::from_secs(300);
/// The same for the host's own writing, which removes no entry and disturbs no other process.
const FIRST_WRITING_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_WRITING_PAUSE: Duration = Duration::from_secs(60);
/// How many of kubelet's periods a limit may be outdated. 2: the driver and kubelet each query it once a period, in turn.
const PERIODS: u32 = 2;
/// Pause before the taint is removed again, when its removal was rejected.
const TAINT_PAUSE: Duration = Duration::from_secs(10);
/// How long registration waits for the API server to return the Node. 5 s: kubelet registers without it as well.
const PREFLIGHT: Duration = Duration::from_secs(5);

/// How a driver is registered again.
#[derive(Clone)]
pub struct Renewal {
    /// Whether kubelet has registered it.
    pub registration: watch::Receiver<RegistrationStatus>,
    /// Removes the registration socket and binds it again.
    pub renew: Arc<dyn Fn() + Send + Sync>,
}

/// What writes the objects.
#[derive(Clone)]
pub enum NodeWriter {
    /// kubelet; none: another process registers the driver, and differences are only reported.
    Kubelet(Option<Renewal>),
    /// The host.
    Own(Arc<Writer>),
}

/// The reconciler of one driver.
pub struct CsiNodeReconciler {
    /// The driver.
    pub driver: DriverName,
    /// Name of Node and CSINode.
    pub node_name: String,
    /// Its answers to NodeGetInfo ([`wasmount_core::driver::Driver::node_info_answers`]).
    pub answers: watch::Receiver<Option<NodeInfo>>,
    /// The objects ([`super::watch()`]).
    pub seen: watch::Receiver<Seen>,
    /// What writes them.
    pub writer: NodeWriter,
    /// `nodeAllocatableUpdatePeriodSeconds`.
    pub update_period: Option<Duration>,
    /// Used to remove the taint.
    pub client: Client,
    /// Used to report to people.
    pub events: Events,
    /// Used to report to readiness.
    pub report: Arc<dyn Fn(ListingStatus) + Send + Sync>,
}

impl CsiNodeReconciler {
    /// Never ends.
    pub async fn run(mut self) {
        let mut state = DriverState::new(self.policy());
        let mut published = None;
        let mut next_taint = Instant::now();
        loop {
            let now = Instant::now();
            let seen = self.seen.borrow_and_update().clone();
            let mut wake = None;
            match self.compare(&seen) {
                Err(reason) => state.not_listed(reason),
                Ok((facts, found)) => {
                    let step = state.step(now, &found, self.is_registered());
                    wake = step.wake;
                    // Readiness first: it is up to date when the event is seen.
                    self.publish_status(&mut published, &state);
                    if step.mend {
                        self.mend(&facts, &mut state).await;
                    }
                    if let Some(report) = step.report {
                        self.write_event(report, &state).await;
                    }
                }
            }
            self.publish_status(&mut published, &state);
            if state.status().listed && next_taint <= now && !self.untaint(&seen).await {
                next_taint = now + TAINT_PAUSE;
            }
            let taint = (next_taint > now).then_some(next_taint);
            self.changed(wake.into_iter().chain(taint).min()).await;
        }
    }

    fn policy(&self) -> DriftPolicy {
        let periods = self.update_period.map(|period| period * PERIODS);
        match &self.writer {
            NodeWriter::Kubelet(_) => DriftPolicy {
                settling: SETTLING,
                counting: periods.unwrap_or(SETTLING),
                first_pause: FIRST_RENEWAL_PAUSE,
                longest_pause: LONGEST_RENEWAL_PAUSE,
            },
            NodeWriter::Own(_) => DriftPolicy {
                settling: Duration::ZERO,
                counting: Duration::ZERO,
                first_pause: FIRST_WRITING_PAUSE,
                longest_pause: LONGEST_WRITING_PAUSE,
            },
        }
    }

    /// The differences between the objects and what the driver reports; or why they are not known.
    fn compare(&mut self, seen: &Seen) -> Result<(DriverFacts, Vec<Drift>), String> {
        let Some(info) = self.answers.borrow_and_update().clone() else {
            return Err("the driver has not answered NodeGetInfo yet".to_owned());
        };
        let facts = DriverFacts::new(&self.driver, info);
        let (node, csi_node) = (seen.node.as_ref()?, seen.csi_node.as_ref()?);
        let found = drifts(&facts, node.as_deref(), csi_node.as_deref());
        Ok((facts, found))
    }

    /// Whether the writer knows the driver. kubelet may not yet, or not now; another process that registers the driver cannot be queried.
    fn is_registered(&mut self) -> bool {
        match &mut self.writer {
            NodeWriter::Own(_) => true,
            NodeWriter::Kubelet(None) => false,
            NodeWriter::Kubelet(Some(renewal)) => {
                renewal.registration.borrow_and_update().registered
            }
        }
    }

    fn publish_status(&self, published: &mut Option<ListingStatus>, state: &DriverState) {
        let status = state.status();
        if published.as_ref() != Some(status) {
            if status.listed {
                tracing::info!(driver = %self.driver, "CSINode and Node match the driver");
            }
            (self.report)(status.clone());
            *published = Some(status.clone());
        }
    }

    async fn warn(&self, reason: &str, action: &str, text: &str) {
        let note = format!("CSI driver {}: {text}", self.driver);
        let about = About::node(&self.node_name);
        self.events.warn(&about, reason, action, note).await;
    }

    async fn inform(&self, reason: &str, action: &str, text: &str) {
        let note = format!("CSI driver {}{text}", self.driver);
        let about = About::node(&self.node_name);
        self.events.inform(&about, reason, action, note).await;
    }

    async fn write_event(&self, report: Report, state: &DriverState) {
        let driver = &self.driver;
        match report {
            // The host's own first write is not an event of that kind.
            Report::Drifted(reason)
                if matches!(self.writer, NodeWriter::Own(_)) && state.status().drifts == 0 =>
            {
                tracing::info!(%driver, reason, "not in CSINode yet");
            }
            Report::Drifted(reason) => {
                tracing::warn!(%driver, reason, "CSINode and Node differ from the driver");
                self.warn("CSINodeDrift", "Compare", &reason).await;
            }
            Report::Listed => {
                let text = ": CSINode and Node match the driver";
                self.inform("CSINodeListed", "Compare", text).await;
            }
        }
    }

    async fn mend(&self, facts: &DriverFacts, state: &mut DriverState) {
        match &self.writer {
            NodeWriter::Kubelet(Some(renewal)) => {
                tracing::info!(driver = %self.driver, "re-registering to make kubelet update CSINode");
                (renewal.renew)();
            }
            NodeWriter::Kubelet(None) => {}
            NodeWriter::Own(writer) => {
                if let Err(error) = writer.install(facts).await {
                    let reason = error.describe();
                    tracing::warn!(driver = %self.driver, reason, "CSINode was not written");
                    // An API server that is overloaded must not be asked to store events about it.
                    if !error.is_unavailable() {
                        self.warn("CSINodeNotWritten", "Write", &reason).await;
                    }
                    state.not_listed(reason);
                }
            }
        }
    }

    /// Removes the taint. False when the removal is to be tried again later: of changes in between, the watch notifies.
    async fn untaint(&self, seen: &Seen) -> bool {
        let Ok(Some(node)) = &seen.node else {
            return true;
        };
        let driver = &self.driver;
        let Some(patch) = taints::removal(node, driver.as_str()) else {
            return true;
        };
        let taint = taints::key(driver.as_str());
        match taints::remove(&self.client, &self.node_name, patch).await {
            Ok(()) => {
                tracing::info!(%driver, taint, "startup taint removed");
                let text = format!(" is listed: removed the taint {taint}");
                self.inform("StartupTaintRemoved", "Untaint", &text).await;
                true
            }
            Err(error) if error.is_stale_write() => true,
            Err(error) => {
                tracing::warn!(%driver, taint, reason = error.describe(), "startup taint not removed");
                false
            }
        }
    }

    /// Returns when something may have changed. A sender that was dropped is ignored.
    async fn changed(&mut self, wake: Option<Instant>) {
        let registration = async {
            match &mut self.writer {
                NodeWriter::Kubelet(Some(renewal)) => next(&mut renewal.registration).await,
                _ => pending().await,
            }
        };
        tokio::select! {
            () = next(&mut self.answers) => {}
            () = next(&mut self.seen) => {}
            () = registration => {}
            () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
        }
    }
}

/// Returns when no known difference prevents the registration with kubelet. A topology label with another value does: kubelet would reject the driver
/// and remove its entry. That is reported once, and this waits until it is resolved. Without an answer of the API server it returns soon.
pub async fn clear_to_register(
    driver: DriverName,
    mut answers: watch::Receiver<Option<NodeInfo>>,
    node_name: String,
    mut seen: watch::Receiver<Seen>,
    events: Events,
) {
    // Its topology does not change after the first answer.
    let Ok(Some(info)) = answers.wait_for(Option::is_some).await.as_deref().cloned() else {
        return;
    };
    let facts = DriverFacts::new(&driver, info);
    let known = seen.wait_for(|seen| seen.node.is_ok());
    let _ = timeout(PREFLIGHT, known).await;
    let mut last = String::new();
    loop {
        let found = match &seen.borrow_and_update().node {
            Ok(Some(node)) => sentence(&collisions(&facts, node)),
            _ => String::new(),
        };
        if found.is_empty() {
            return;
        }
        if found != last {
            tracing::warn!(%driver, reason = found, "not registered with kubelet");
            let note = format!("CSI driver {driver} is not registered: {found}");
            let about = About::node(&node_name);
            events
                .warn(&about, "CSITopologyCollision", "Register", note)
                .await;
            last = found;
        }
        next(&mut seen).await;
    }
}

async fn next<T>(of: &mut watch::Receiver<T>) {
    if of.changed().await.is_err() {
        pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
