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

/// How a step went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepOutcome {
    /// Well; what there is to say of it.
    Passed(String),
    /// Not; why.
    Refused(String),
}

/// A step that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenStep {
    /// Which.
    pub step: Step,
    /// How it went.
    pub outcome: StepOutcome,
    /// Since the step before, or since the trail began.
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
    /// A step went well.
    pub fn passed(&mut self, step: Step, describe: impl Into<String>) {
        self.taken(step, StepOutcome::Passed(describe.into()));
    }

    /// A step was the last one.
    pub fn refused(&mut self, step: Step, why: impl Into<String>) {
        self.taken(step, StepOutcome::Refused(why.into()));
    }

    /// The steps.
    pub fn steps(&self) -> &[TakenStep] {
        &self.steps
    }

    fn taken(&mut self, step: Step, outcome: StepOutcome) {
        let now = Instant::now();
        let took = now.duration_since(self.since);
        self.since = now;
        self.steps.push(TakenStep {
            step,
            outcome,
            took,
        });
    }

    /// What a step came to; a refusal is noted.
    pub fn take<T, E: std::fmt::Display>(
        &mut self,
        step: Step,
        attempted: Result<T, E>,
        describe: impl FnOnce(&T) -> String,
    ) -> Result<T, E> {
        match &attempted {
            Ok(value) => self.passed(step, describe(value)),
            Err(error) => self.refused(step, error.to_string()),
        }
        attempted
    }
}
