//! Admission: the checks that a component passes before it serves, the cheapest first. It changes nothing.
//!
//! The bytes are read before, see [`crate::Sources`], which also does the first three steps.

use crate::imports::{check_imports, check_line, imports_pool, ungranted_facts, ungranted_imports};
use crate::plugin_file;
use crate::refusal::Refusal;
use crate::services::{Kept, removed};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmount_core::backend::BackendError;
use wasmount_core::call::Call;
use wasmount_core::capabilities::{Hidden, check_features};
use wasmount_core::document::{Grants, Wasi};
use wasmount_core::named;
use wasmount_core::rpc::Rpc;
use wasmount_core::services::{Feature, ServiceSet};
use wasmount_core::text::nearest;
use wasmount_engine::{
    BackendParts, Candidate, Engine, LoadedComponent, Names, PluginInfo, WasmBackend,
};
use wasmount_network::Endpoints;

/// A feature with this prefix is experimental: accepted and never acted on.
const EXPERIMENTAL: &str = "x-";
/// The request id in log lines of calls that no client made.
const REQUEST_ID: &str = "admission";
const NOT_READY: &str = "the plugin reports that it is not ready yet";

named! {
    /// A step, in the order of admission, with its name for people and machines.
    pub enum Step, as_str {
        /// It was fetched, and is not too large.
        Size = "size",
        /// Its digest is the expected one.
        Digest = "digest",
        /// It has the required signatures.
        Signature = "signature",
        /// It is a component.
        Component = "component",
        /// It uses this host's line of the contract.
        ApiLine = "api line",
        /// It imports nothing that the host lacks.
        Imports = "imports",
        /// It compiles.
        Compile = "compile",
        /// It links, starts, and reports its identity.
        TrialLoad = "trial load",
        /// It offers what the running version offers.
        Services = "services",
        /// It accepts its settings.
        Settings = "settings",
        /// It answers whether it is ready.
        Probe = "probe",
    }
}

/// A step that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenStep {
    /// Which.
    pub step: Step,
    /// A remark, or why the step rejected it.
    pub outcome: Result<String, String>,
    /// Time since the previous step, or since the report began.
    pub took: Duration,
}

/// All steps that were taken; the last one may be a rejection.
#[derive(Debug, Clone)]
pub struct AdmissionReport {
    steps: Vec<TakenStep>,
    /// When the last step was taken.
    since: Instant,
}

impl Default for AdmissionReport {
    /// A report that begins now.
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            since: Instant::now(),
        }
    }
}

impl AdmissionReport {
    /// The steps.
    pub fn steps(&self) -> &[TakenStep] {
        &self.steps
    }

    /// Records the result of a step.
    pub fn take<T, E: std::fmt::Display>(
        &mut self,
        step: Step,
        attempted: Result<T, E>,
        describe: impl FnOnce(&T) -> String,
    ) -> Result<T, E> {
        let outcome = match &attempted {
            Ok(value) => Ok(describe(value)),
            Err(error) => Err(error.to_string()),
        };
        let now = Instant::now();
        self.steps.push(TakenStep {
            step,
            outcome,
            took: now - std::mem::replace(&mut self.since, now),
        });
        attempted
    }
}

/// What a component is checked against.
pub struct Proof<'a> {
    /// The WASI imports that it may have.
    pub wasi: Wasi,
    /// Its grants.
    pub grants: &'a Grants,
    /// Its settings, secrets and other parts.
    pub parts: BackendParts,
    /// The services that will be hidden.
    pub hidden: &'a Hidden,
    /// What the running version offers, which must not be removed; none: no version runs, or services may be removed.
    pub kept: Option<&'a Kept>,
    /// The same version was admitted before: then its settings and its probe do not reject it again, since both depend on the environment, which may
    /// have changed.
    pub admitted_before: bool,
}

/// A version that may serve.
pub struct Admitted {
    /// The backend, ready to be activated.
    pub backend: Arc<WasmBackend>,
    /// Warnings for the administrator; none of them keeps it from serving.
    pub warnings: Vec<String>,
    /// What it imports and its document does not grant at all, without facts of the node. These are among the warnings too: an import is no proof of use.
    pub ungranted: Vec<String>,
    /// Whether it imports the pool interface.
    pub imports_pool: bool,
    /// The storage systems that it may send requests to.
    pub network: Endpoints,
}

/// Runs the admission of a component, step by step.
pub async fn run_admission(
    engine: &Arc<Engine>,
    wasm: Vec<u8>,
    proof: Proof<'_>,
    report: &mut AdmissionReport,
) -> Result<Admitted, Refusal> {
    let names = plugin_file::check_kind(&wasm).and_then(|()| Ok(Names::read(&wasm)?));
    let names = report.take(Step::Component, names, |_| String::new())?;
    let warnings = check_names(&names.imports, &names.exports, &proof, report)?;
    let loaded = engine.load(wasm).await.map_err(Refusal::from);
    let loaded = report.take(Step::Compile, loaded, |component| {
        component.digest().to_owned()
    })?;
    Box::pin(prove(loaded, warnings, proof, report)).await
}

/// The same for a component that is already compiled.
pub(crate) async fn prove_loaded(
    component: LoadedComponent,
    proof: Proof<'_>,
    report: &mut AdmissionReport,
) -> Result<Admitted, Refusal> {
    let warnings = check_names(component.imports(), component.exports(), &proof, report)?;
    Box::pin(prove(component, warnings, proof, report)).await
}

/// The checks that need no compiled code; returns their warnings.
fn check_names(
    imports: &[String],
    exports: &[String],
    proof: &Proof<'_>,
    report: &mut AdmissionReport,
) -> Result<Vec<String>, Refusal> {
    let line = check_line(imports, exports);
    let mut warnings = report.take(Step::ApiLine, line, |newer| newer.join("; "))?;
    let ungranted =
        check_imports(imports, proof.wasi).map(|()| ungranted_imports(imports, proof.grants));
    let ungranted = report.take(Step::Imports, ungranted, |ungranted| ungranted.join("; "))?;
    warnings.extend(ungranted);
    warnings.extend(ungranted_facts(imports, proof.grants));
    Ok(warnings)
}

async fn prove(
    component: LoadedComponent,
    mut warnings: Vec<String>,
    proof: Proof<'_>,
    report: &mut AdmissionReport,
) -> Result<Admitted, Refusal> {
    let (kept, admitted_before) = (proof.kept, proof.admitted_before);
    let component = component.with_wasi(proof.wasi);
    let time = proof.parts.limits.time;
    let network = proof.parts.network.clone();
    let call = call_at_admission(Rpc::GetPluginInfo, time);
    let tried = try_load(&component, proof.parts, &call).await;
    let (candidate, info) =
        report.take(Step::TrialLoad, tried, |(it, _)| it.label().to_string())?;
    let offered = offer(&candidate, &info).and_then(|offer| {
        let gone = kept.map(|kept| removed(kept, &offer, proof.hidden));
        if let Some(removed) = gone.filter(|gone| !gone.is_empty()) {
            return Err(Refusal::ServicesRemoved {
                plugin: candidate.label().clone(),
                removed,
            });
        }
        match kept.filter(|kept| kept.plugin != candidate.label().name) {
            None => Ok(offer),
            Some(kept) => Err(Refusal::OtherPlugin {
                plugin: candidate.label().clone(),
                running: kept.plugin.clone(),
            }),
        }
    });
    let offered = report.take(Step::Services, offered, described)?;

    let settings = match candidate.check_settings(&call).await {
        Err(error) if admitted_before => Ok(vec![format!(
            "the plugin does not accept its settings any more: {error}"
        )]),
        // The storage system is asked as soon as the version serves.
        Err(error @ BackendError::Withheld { .. }) => Ok(vec![format!(
            "the settings could not be checked as a whole: {error}"
        )]),
        Err(error @ BackendError::HostFailed { .. }) => Err(Refusal::SettingsUnchecked(error)),
        settings => settings.map_err(Refusal::Settings),
    };
    warnings.extend(report.take(Step::Settings, settings, |describe| describe.join("; "))?);
    let ready = match candidate.probe(&call_at_admission(Rpc::Probe, time)).await {
        Ok(true) => Ok(None),
        Ok(false) => Ok(Some(NOT_READY.to_owned())),
        Err(BackendError::Withheld { .. }) => Ok(None),
        // Its storage may be unavailable for a while: a driver without a plugin would be no better.
        Err(BackendError::Answered { message, .. }) => Ok(Some(format!("{NOT_READY}: {message}"))),
        Err(error) if admitted_before => Ok(Some(format!("{NOT_READY}: {error}"))),
        Err(error) => Err(Refusal::Probe(error)),
    };
    warnings.extend(report.take(Step::Probe, ready, |doubt| {
        doubt.clone().unwrap_or_default()
    })?);
    let features = offered.features().collect::<Vec<_>>();
    Ok(Admitted {
        backend: Arc::new(candidate.into_backend(info, features)),
        warnings,
        ungranted: ungranted_imports(component.imports(), proof.grants),
        imports_pool: imports_pool(component.imports()),
        network,
    })
}

async fn try_load(
    component: &LoadedComponent,
    parts: BackendParts,
    call: &Call,
) -> Result<(Candidate, PluginInfo), Refusal> {
    let candidate = component.prepare(parts, call).await?;
    let info = candidate.plugin_info(call).await;
    let info = info.map_err(Refusal::Identity)?;
    Ok((candidate.named(&info), info))
}

/// The services that it offers, if they do not contradict each other.
fn offer(candidate: &Candidate, info: &PluginInfo) -> Result<ServiceSet, Refusal> {
    let plugin = candidate.label();
    let features = known_features(&info.features).map_err(|unknown| {
        let nearest = nearest(&unknown, Feature::ALL.iter().map(|it| it.name()))
            .map(|nearest| format!(", did you mean `{nearest}`?"))
            .unwrap_or_default();
        Refusal::Features(format!(
            "{plugin} has the unknown feature `{unknown}`{nearest}; correct it, or use a newer host"
        ))
    })?;
    let offer = ServiceSet::new(candidate.services(), features);
    check_features(&offer).map_err(|error| {
        Refusal::Features(format!(
            "{plugin} contradicts itself: {error}; this is a fault of the plugin"
        ))
    })?;
    Ok(offer)
}

fn described(offer: &ServiceSet) -> String {
    let services = offer.services().map(|service| service.interface());
    let features = offer.features().map(|feature| feature.name());
    services.chain(features).collect::<Vec<_>>().join(", ")
}

/// A call that no client made.
pub(crate) fn call_at_admission(rpc: Rpc, time: Duration) -> Call {
    Call::within(rpc, REQUEST_ID, time)
}

/// The features that this host acts on, or the first unknown one: accepting it would be a promise that the host does not keep.
fn known_features(names: &[String]) -> Result<Vec<Feature>, String> {
    let names = names.iter().filter(|name| !name.starts_with(EXPERIMENTAL));
    names
        .map(|name| Feature::parse(name).ok_or_else(|| name.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings<const N: usize>(strings: [&str; N]) -> Vec<String> {
        strings.map(str::to_owned).into()
    }

    #[test]
    fn known_features_are_taken_and_experimental_ones_passed_over() {
        assert_eq!(
            known_features(&strings(["topology", "x-anything"])).unwrap(),
            [Feature::Topology]
        );
    }

    #[test]
    fn the_first_unknown_feature_is_refused() {
        let names = strings(["topology", "clone-volumes", "teleport"]);
        assert_eq!(known_features(&names), Err("clone-volumes".to_owned()));
    }
}
