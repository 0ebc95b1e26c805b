//! The steps of an admission that were taken, with their results.

use std::time::{Duration, Instant};

/// A step, in the order of admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// It was fetched, and is not too large.
    Size,
    /// Its digest is the expected one.
    Digest,
    /// It has the required signatures.
    Signature,
    /// It is a component, and compiles.
    Component,
    /// It uses this host's line of the contract.
    ApiLine,
    /// It imports nothing that the host lacks.
    Imports,
    /// It links, starts, and reports its identity.
    TrialLoad,
    /// It offers what the running version offers.
    Services,
    /// It accepts its settings.
    Settings,
    /// It answers whether it is ready.
    Probe,
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

impl Step {
    /// All steps, in order.
    pub const ALL: [Step; 10] = [
        Step::Size,
        Step::Digest,
        Step::Signature,
        Step::Component,
        Step::ApiLine,
        Step::Imports,
        Step::TrialLoad,
        Step::Services,
        Step::Settings,
        Step::Probe,
    ];

    /// The name for people and machines.
    pub fn as_str(self) -> &'static str {
        match self {
            Step::Size => "size",
            Step::Digest => "digest",
            Step::Signature => "signature",
            Step::Component => "component",
            Step::ApiLine => "api line",
            Step::Imports => "imports",
            Step::TrialLoad => "trial load",
            Step::Services => "services",
            Step::Settings => "settings",
            Step::Probe => "probe",
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
