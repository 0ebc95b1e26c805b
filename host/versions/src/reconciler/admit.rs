//! One attempt to prepare a version: fetch it, compare it with the running one, admit it, then quiesce calls. Only its component is written, so an
//! attempt can be dropped at any moment.

use super::Migrates;
use super::records::plan;
use super::state::{Admission, Attempt, Goal, NotReady, Ready, RecordsStep, Serving};
use crate::admission::{AdmissionReport, Proof, prove_loaded, run_admission};
use crate::desired::Fetched;
use crate::history::{CandidateKey, Entry, Known, settings_digest};
use crate::refusal::Refusal;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use wasmount_core::backend::Backend;
use wasmount_core::capabilities::Capabilities;
use wasmount_core::driver::{QuiesceGuard, RunningCall};
use wasmount_core::secrets::Secrets;
use wasmount_engine::{BackendParts, LoadedComponent, Sealing, WasmBackend};

/// How long calls may take to end before other grants are applied. 5 s: most calls end within it, and calls that arrive meanwhile can wait so long.
const BEFORE_GRANTS: Duration = Duration::from_secs(5);
/// Calls that a rejection names. 5: the longest ones show what hangs.
const NAMED: usize = 5;

/// A component that was found.
struct Found {
    known: Known,
    /// None: it is already on disk.
    wasm: Option<Arc<Vec<u8>>>,
    compiled: Option<LoadedComponent>,
}

impl Attempt {
    pub(super) async fn admit(self) -> Result<Admission, NotReady> {
        let began = Instant::now();
        let found = self.component().await?;
        let secrets = self.parts.sources.secrets(&self.desired).await?;
        let candidate = CandidateKey {
            digest: found.known.digest.clone(),
            settings_digest: settings_digest(&self.desired.document),
            secrets: self.disk.mark(&secrets).await,
        };
        let serving = self.serving.as_ref().map(|it| &it.candidate);
        if self.goal.is_new() && serving == Some(&candidate) {
            return Ok(Admission::Serves(found.known));
        }
        let is_converging = matches!(self.goal, Goal::Converge);
        let was_refused = self.refused.as_ref() == Some(&candidate);
        if is_converging && (was_refused || self.history.has_failed(&candidate)) {
            return Ok(Admission::RefusedBefore);
        }
        let records_of = match self.goal.is_new() {
            true => self.records_owner().await?,
            false => None,
        };
        let origin = found.known.origin.to_string();
        let ready = self.ready(found, secrets, candidate.clone(), records_of, began);
        match Box::pin(ready).await {
            Ok(ready) => Ok(Admission::Ready(Box::new(ready))),
            Err(refusal) => Err(NotReady {
                refusal,
                candidate: Some(candidate),
                origin: Some(origin),
            }),
        }
    }

    /// Admission, the plan for the records, the component on disk, and quiesced calls.
    async fn ready(
        &self,
        found: Found,
        secrets: Secrets,
        candidate: CandidateKey,
        records_of: Option<String>,
        began: Instant,
    ) -> Result<Ready, Refusal> {
        let (known, wasm) = (found.known, found.wasm);
        let document = &self.desired.document;
        let may_lack_services = match self.goal {
            Goal::Converge | Goal::Share { .. } => false,
            Goal::Swap {
                allow_service_change,
                ..
            } => allow_service_change,
            Goal::Restore | Goal::RestoreShare | Goal::RollBack(_) => true,
        };
        let offered = self.history.kept_services(self.parts.driver.profile());
        let kept = offered.filter(|_| !may_lack_services);
        let (driver, grants) = (&document.driver_name, &document.grants);
        let network = self.parts.network.open(driver, &grants.network, &secrets);
        let network = network.map_err(|error| Refusal::Grants(error.to_string()))?;
        let sealing = grants.sealing.as_ref();
        let sealing = sealing.map(|grant| Sealing::of(driver, grant, &secrets));
        let sealing = sealing.transpose();
        let sealing = sealing.map_err(|error| Refusal::Grants(error.to_string()))?;
        let proof = Proof {
            wasi: document.plugin.wasi,
            grants,
            parts: BackendParts {
                driver: document.driver_name.clone(),
                limits: document.limits.clone(),
                settings: document.settings.clone(),
                secrets: Arc::new(secrets),
                held_secrets: grants.held_secrets(),
                sealing,
                network,
                granted_facts: grants.node_facts.clone(),
                granted_of_nodes: grants.nodes.clone(),
                node_facts: self.parts.node_facts.clone(),
                node_name: self.parts.node_name.clone(),
                state: Arc::clone(&self.parts.state),
                mounter: Arc::clone(&self.parts.mounter),
            },
            hidden: &document.hidden,
            kept: kept.as_ref(),
            admitted_before: !self.goal.is_new(),
        };
        let mut report = AdmissionReport::default();
        let admitted = match found.compiled {
            Some(component) => prove_loaded(component, proof, &mut report).await?,
            None => {
                let wasm = wasm.as_deref().cloned().unwrap_or_default();
                run_admission(&self.parts.engine, wasm, proof, &mut report).await?
            }
        };
        let forward = self.step_forward(&admitted.backend, records_of).await?;
        if matches!(self.goal, Goal::Share { .. } | Goal::RestoreShare) {
            self.check_share(&admitted.backend, forward.as_ref())
                .await?;
        }
        let proved_at = Instant::now();
        // The document may mean the version that served, and none has replaced it since.
        let served = self.history.current().filter(|_| self.serving.is_none());
        let is_again = match self.goal {
            Goal::Restore => true,
            Goal::Converge => served.is_some_and(|entry| entry.is(&candidate)),
            Goal::Swap { .. } | Goal::Share { .. } | Goal::RestoreShare | Goal::RollBack(_) => {
                false
            }
        };
        let step = match &self.goal {
            _ if is_again => self.step_again(&admitted.backend).await?,
            Goal::RollBack(hold) => self.step_back(&admitted.backend, hold.number).await?,
            _ => forward,
        };
        if let Some(wasm) = &wasm {
            self.disk.keep(&known.digest, Arc::clone(wasm)).await?;
        }
        let quiesced = self.quiesce(step.as_ref()).await?;
        Ok(Ready {
            candidate,
            desired: self.desired.clone(),
            known,
            admitted,
            is_again,
            step,
            quiesced,
            proving: proved_at - began,
            proved_at,
        })
    }

    /// Two versions that serve at once must agree on what clients, mounter and records have once.
    async fn check_share(
        &self,
        backend: &WasmBackend,
        forward: Option<&RecordsStep>,
    ) -> Result<(), Refusal> {
        let refused = |reason: &str| {
            let reason = format!("{reason}; swap without --share");
            Err(Refusal::Share(reason))
        };
        let Some(serving) = &self.serving else {
            return refused("no version serves the other volumes");
        };
        let document = &self.desired.document;
        if document.grants.of_mounter() != serving.grants.of_mounter() {
            return refused(
                "the grants of the new version differ from those of the one that serves, and a driver has one set of them",
            );
        }
        let driver = &self.parts.driver;
        let (role, profile) = (driver.role(), driver.profile());
        let capabilities = Capabilities::derive(backend.offer(), role, profile, &document.hidden);
        if capabilities != driver.capabilities() {
            return refused(
                "the capabilities of the new version differ from those of the one that serves, and sidecars read them once",
            );
        }
        if self.parts.migrates == Migrates::AnotherProcess {
            return Ok(());
        }
        let newer = Some(backend.label().version.clone());
        let back = plan(&serving.backend, newer, self.time()).await;
        if forward.is_some() || !matches!(back, Ok(None)) {
            return refused(
                "the new version and the one that serves cannot use the same records, by their plans of a migration",
            );
        }
        Ok(())
    }

    /// The component of an earlier version is on disk. A tag is resolved once: its component is on disk. If that is missing, the registry is queried.
    async fn component(&self) -> Result<Found, Refusal> {
        let history = &self.history;
        let entry = |number| history.entry(number).map(Entry::known);
        let known = match &self.goal {
            Goal::Converge => history.known(&self.desired.document.plugin),
            Goal::Swap { .. } | Goal::Share { .. } => None,
            Goal::Restore => history.current().map(Entry::known),
            Goal::RestoreShare => history.share().and_then(|share| entry(share.number)),
            Goal::RollBack(hold) => entry(hold.number),
        };
        if let Some(known) = known {
            let kept = self.kept(known).await;
            if kept.is_ok() || !self.goal.is_new() {
                return kept;
            }
        }
        let Fetched {
            component,
            origin,
            signed_by,
        } = self.parts.sources.component(&self.desired).await?;
        let (digest, wasm) = component.into_parts();
        Ok(Found {
            compiled: self.parts.engine.load_compiled(&digest).await,
            known: Known {
                digest,
                origin,
                signed_by,
            },
            wasm: Some(Arc::new(wasm)),
        })
    }

    /// A component on disk. Its bytes are read only if there is no compiled code of it.
    async fn kept(&self, known: Known) -> Result<Found, Refusal> {
        let compiled = self.parts.engine.load_compiled(&known.digest).await;
        let wasm = match compiled {
            Some(_) => None,
            None => Some(Arc::new(self.disk.component_of(&known.digest).await?)),
        };
        Ok(Found {
            known,
            wasm,
            compiled,
        })
    }

    /// Waits until the running version has no calls, if its records or grants change. Calls continue in any case: a cancelled call has done a part of
    /// its work, and only its client knows whether that matters.
    async fn quiesce(&self, step: Option<&RecordsStep>) -> Result<Option<QuiesceGuard>, Refusal> {
        let grants = self.desired.document.grants.of_mounter();
        let regrants = |it: &Serving| it.grants.of_mounter() != grants;
        let regrants = self.serving.as_ref().is_some_and(regrants);
        let grace_period = match step {
            Some(_) => self.drain,
            None if regrants => BEFORE_GRANTS,
            None => return Ok(None),
        };
        let driver = &self.parts.driver;
        let guard = driver.hold();
        if timeout(grace_period, driver.idle()).await.is_ok() {
            return Ok(Some(guard));
        }
        let calls = driver.running_calls();
        if step.is_some() {
            let reason = still_running(&calls, self.drain);
            return Err(Refusal::Migration(reason));
        }
        if !matches!(self.goal, Goal::RollBack(_)) {
            let reason = would_lose(&calls);
            return Err(Refusal::Grants(reason));
        }
        // A rollback must not wait for a call that hangs.
        tracing::warn!(
            driver = %driver.name(),
            calls = calls.len(),
            "calls continue while the grants change: they may be refused what the old grants allowed"
        );
        Ok(Some(guard))
    }
}

/// The calls that did not end in time.
fn still_running(calls: &[RunningCall], waited: Duration) -> String {
    let mut named: Vec<String> = calls
        .iter()
        .take(NAMED)
        .map(|call| format!("{} for {} s", call.rpc.name(), call.since.as_secs()))
        .collect();
    if calls.len() > NAMED {
        named.push(format!("{} more", calls.len() - NAMED));
    }
    format!(
        "{} {} of the running version did not end within {} s (versions.drain), and none may run meanwhile: {}; repeat the command when they have ended, \
         by limits.time at the latest, or raise versions.drain",
        calls.len(),
        if calls.len() == 1 { "call" } else { "calls" },
        waited.as_secs(),
        named.join(", ")
    )
}

/// The same for grants: each kind of call once and without its duration, since the attempt is repeated and the message is reported once.
fn would_lose(calls: &[RunningCall]) -> String {
    let mut named: Vec<&str> = Vec::new();
    for call in calls {
        let name = call.rpc.name();
        if named.len() < NAMED && !named.contains(&name) {
            named.push(name);
        }
    }
    format!(
        "calls of the running version did not end within {} s, and other grants may take from them what they use: {}; what a document wants is tried \
         again by itself, a swap by hand is to be requested again, when they have ended, by limits.time at the latest",
        BEFORE_GRANTS.as_secs(),
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmount_core::rpc::Rpc;

    #[test]
    fn hanging_calls_are_named_longest_first_and_bounded() {
        let calls = |count: u64| -> Vec<RunningCall> {
            let call = |since| RunningCall {
                rpc: Rpc::CreateVolume,
                since: Duration::from_secs(since),
            };
            (0..count).map(|number| call(90 - number)).collect()
        };
        let describe = still_running(&calls(1), Duration::from_secs(60));
        assert!(
            describe.starts_with("1 call of the running version did not end within 60 s (versions.drain), and none may run meanwhile: CreateVolume for 90 s; "),
            "{describe}"
        );
        let describe = still_running(&calls(8), Duration::from_secs(60));
        assert!(describe.starts_with("8 calls "), "{describe}");
        assert!(
            describe.contains("CreateVolume for 86 s, 3 more; "),
            "{describe}"
        );
    }

    #[test]
    fn calls_that_block_grants_are_named_by_kind() {
        let call = |rpc, since| RunningCall {
            rpc,
            since: Duration::from_secs(since),
        };
        let describe = |since| {
            would_lose(&[
                call(Rpc::CreateVolume, since),
                call(Rpc::CreateVolume, 6),
                call(Rpc::NodeStageVolume, 5),
            ])
        };
        assert_eq!(describe(7), describe(90));
        assert!(
            describe(7).starts_with("calls of the running version did not end within 5 s, and other grants may take from them what they use: CreateVolume, NodeStageVolume; "),
            "{}",
            describe(7)
        );
    }
}
