//! The steps of an admission as they were taken.

use std::time::{Duration, Instant};

/// A step, in the order of admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// It was had, and is not too large.
    Size,
    /// Its bytes are those that are meant.
    Digest,
    /// Who must have signed it did.
    Signature,
    /// It is a component, and compiles.
    Component,
    /// It speaks this host's line of the contract.
    ApiLine,
    /// It imports nothing that there is not.
    Imports,
    /// It links, starts, and says who it is.
    TrialLoad,
    /// It offers what the running version does.
    Services,
    /// It accepts its settings.
    Settings,
    /// It says whether it is ready.
    Probe,
}

/// A step that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenStep {
    /// Which.
    pub step: Step,
    /// What there is to say of it, or why it was refused.
    pub outcome: Result<String, String>,
    /// Since the step before, or since the report began.
    pub took: Duration,
}

/// All steps that were taken; the last one may be a refusal.
#[derive(Debug, Clone)]
pub struct AdmissionReport {
    steps: Vec<TakenStep>,
    /// When the last one was taken.
    since: Instant,
}

impl Default for AdmissionReport {
    /// Begins now.
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            since: Instant::now(),
        }
    }
}

impl Step {
    /// All of them, in their order.
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

    /// For people and machines.
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

    /// Notes what a step came to.
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
