//! A rollout as an administrator sees and changes it, through the API server: nothing here needs a host's own socket.

use super::super::report::{BACKEND_UID, HostReport, ReportObject, is_of};
use super::super::{BackendObject, KIND, Phase, REPORT_KIND, backends, reports};
use super::command::{ROLLOUT, RolloutCommand, RolloutRefused};
use super::state::{RolloutStatus, plan, rollout_of};
use crate::access::{ApiAccess, connect};
use crate::error::KubernetesError;
use crate::guarded_patch::GuardedPatch;
use crate::request::answered;
use jiff::Timestamp;
use kube::api::{ListParams, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use wasmount_core::document::Rollout;

/// Our field manager for the annotation: no other writer applies it.
const MANAGER: &str = "wasmount-rollout";
/// Between two looks at whether a command was carried out.
const LOOK: Duration = Duration::from_millis(500);
/// Attempts at a write that others precede.
const WRITES: usize = 5;

/// Access to rollouts.
pub struct RolloutAdmin {
    client: Client,
}

/// A rollout, and its hosts.
#[derive(Debug, Clone)]
pub struct RolloutView {
    /// Its steps.
    pub plan: Rollout,
    /// Its state.
    pub status: RolloutStatus,
    /// What each host reports, by the names of the hosts.
    pub hosts: Vec<HostState>,
}

/// One host of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostState {
    /// The host.
    pub host: String,
    /// Its phase.
    pub phase: Phase,
    /// The version of the plugin that serves there.
    pub version: Option<String>,
    /// Its digest.
    pub digest: Option<String>,
    /// It takes the change.
    pub takes: bool,
    /// Its reason for the phase.
    pub reason: String,
    /// When it reported.
    pub seen: String,
}

/// Why a rollout cannot be shown or changed.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// The API server did not answer, or rejected a request.
    #[error("{}", .0.describe())]
    Api(#[from] KubernetesError),
    /// There is no way to an API server.
    #[error("there is no API server: name a kubeconfig by --kubeconfig")]
    NoServer,
    /// There is no such object.
    #[error("there is no StorageBackend {0}: `kubectl get sb` lists them")]
    NoObject(String),
    /// The object has no steps.
    #[error("StorageBackend {0} has no valid `spec.rollout`: all hosts take a change at once")]
    NoSteps(String),
    /// No elected host has seen it.
    #[error(
        "no host has taken up the rollout of StorageBackend {0}: does one run that may write the status (--storage-backend-status)?"
    )]
    NotTakenUp(String),
    /// The command means nothing in this state.
    #[error("StorageBackend {name}: {reason}")]
    Refused {
        /// The object.
        name: String,
        /// Why.
        reason: RolloutRefused,
    },
    /// Others wrote the object all the time.
    #[error("StorageBackend {0} was changed by others at the same time; repeat the command")]
    Contended(String),
}

impl RolloutAdmin {
    /// Connects; sends no request.
    pub async fn connect(access: &ApiAccess) -> Result<Self, RolloutError> {
        let client = connect(access).await?.ok_or(RolloutError::NoServer)?;
        Ok(Self { client })
    }

    /// The rollout of an object, and its hosts.
    pub async fn view(&self, name: &str) -> Result<RolloutView, RolloutError> {
        let (object, plan, status) = self.read(name).await?;
        let uid = object.uid().unwrap_or_default();
        let of_it = ListParams::default().labels(&format!("{}={uid}", BACKEND_UID));
        let api = Api::<ReportObject>::all_with(self.client.clone(), &reports());
        let what = format!("list {REPORT_KIND} objects of {name}");
        let found = answered(what, api.list(&of_it)).await?;
        let those = found.items.iter().filter(|it| is_of(it, &object));
        let hosts = those.map(|it| {
            let (spec, report) = (&it.spec, &it.spec.report);
            HostState {
                host: spec.host.clone(),
                phase: report.phase,
                version: report.version.clone(),
                digest: report.digest.clone(),
                takes: report.rollout.as_ref().is_some_and(|part| part.takes),
                reason: HostReport::of(spec).reason(),
                seen: spec.seen.clone(),
            }
        });
        let mut hosts: Vec<_> = hosts.collect();
        hosts.sort_by(|one, other| one.host.cmp(&other.host));
        Ok(RolloutView {
            plan,
            status,
            hosts,
        })
    }

    /// Asks the elected host for a change, and returns the state once it is carried out.
    pub async fn command(
        &self,
        name: &str,
        command: RolloutCommand,
        patience: Duration,
    ) -> Result<RolloutStatus, RolloutError> {
        let request = self.request(name, command).await?;
        let begin = Instant::now();
        loop {
            let (_, _, status) = self.read(name).await?;
            if status.command.as_ref() == Some(&request) {
                return Ok(status);
            }
            if begin.elapsed() >= patience {
                return Err(RolloutError::NotTakenUp(name.to_owned()));
            }
            sleep(LOOK).await;
        }
    }

    /// Writes the annotation onto the object that allows the command; returns its value.
    async fn request(&self, name: &str, command: RolloutCommand) -> Result<String, RolloutError> {
        let api = Api::<BackendObject>::all_with(self.client.clone(), &backends());
        for _ in 0..WRITES {
            let (object, _, status) = self.read(name).await?;
            let now = Timestamp::now();
            if let Err(reason) = command.applied(&status, now) {
                let name = name.to_owned();
                return Err(RolloutError::Refused { name, reason });
            }
            let value = command.annotation(now);
            let mut patch = GuardedPatch::of_version(&object.metadata);
            patch.annotate(&object.metadata, ROLLOUT, &value);
            let (patch, parameters) = (patch.into_patch(), PatchParams::apply(MANAGER));
            let patched = api.patch(name, &parameters, &patch);
            match answered(format!("annotate {KIND} {name}"), patched).await {
                Ok(_) => return Ok(value),
                Err(error) if error.is_stale_write() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(RolloutError::Contended(name.to_owned()))
    }

    async fn read(
        &self,
        name: &str,
    ) -> Result<(BackendObject, Rollout, RolloutStatus), RolloutError> {
        let api = Api::<BackendObject>::all_with(self.client.clone(), &backends());
        let found = answered(format!("read {KIND} {name}"), api.get_opt(name)).await?;
        let object = found.ok_or_else(|| RolloutError::NoObject(name.to_owned()))?;
        let plan = plan(&object.spec).ok_or_else(|| RolloutError::NoSteps(name.to_owned()))?;
        let status = rollout_of(object.status.as_ref());
        let status = status.ok_or_else(|| RolloutError::NotTakenUp(name.to_owned()))?;
        Ok((object, plan, status))
    }
}
