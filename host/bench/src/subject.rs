//! One socket of a run: its volumes, and its figures so far.

use crate::client::Client;
use crate::error::BenchError;
use crate::existing::Existing;
use crate::life::Scene;
use crate::measured::Measured;
use crate::options::{Amount, Options};
use crate::phase::{Phase, Progress};
use crate::plan::{Plan, PlanError};
use crate::report::{DurableWaits, Fact, ServerFacts, Target, Times, WHOLE, per_second};
use crate::server::{Server, Usage};
use crate::stop::Stop;
use crate::syncs;
use hdrhistogram::{AdditionError, CreationError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use wasmount_core::rpc::Rpc;

/// Repetitions that strace counts, one at a time.
const COUNTED: u64 = 10;

/// A socket with its figures so far.
pub(crate) struct Subject {
    socket: PathBuf,
    pub(crate) scene: Arc<Scene>,
    pub(crate) plan: Plan,
    server: Result<Server, String>,
    /// Volumes that are there during the run.
    existing: Vec<Existing>,
    pub(crate) all: Measured,
    /// Figures of each round.
    pub(crate) rounds: Vec<Measured>,
    /// CPU time and written bytes of the measurement.
    used: Result<Usage, String>,
}

impl Subject {
    pub(crate) async fn begin(
        socket: &Path,
        options: &Options,
        kubelet: &Path,
        stop: &Stop,
    ) -> Result<Self, BenchError> {
        let client = Client::connect(socket, options).await;
        let client = client.map_err(|(rpc, status)| BenchError::Driver {
            socket: socket.to_owned(),
            rpc: rpc.map_or("connect", Rpc::name),
            reason: format!("{:?}: {}", status.code(), status.message()),
        })?;
        let needs_create = options.existing > 0 || options.published > 0;
        let plan = match needs_create && !client.offers.create {
            true => Err(PlanError::NoCreate),
            false => Plan::of(options.mix, &client.offers),
        };
        let plan = plan.map_err(|source| BenchError::Plan {
            socket: socket.to_owned(),
            source,
        })?;
        Ok(Self {
            socket: socket.to_owned(),
            scene: Arc::new(Scene {
                client,
                kubelet: kubelet.to_owned(),
                stop: stop.clone(),
            }),
            plan,
            server: Server::of(socket, &options.pids).await,
            existing: Vec::new(),
            all: Measured::after(Duration::ZERO)?,
            rounds: Vec::new(),
            used: Ok(Usage {
                written: Some(0),
                ..Usage::default()
            }),
        })
    }

    pub(crate) async fn make_existing(
        &mut self,
        options: &Options,
        prefix: &str,
    ) -> Result<(), CreationError> {
        let created = Plan::of_existing(false, &self.scene.client.offers);
        let published = Plan::of_existing(true, &self.scene.client.offers);
        let all = [
            ("c", created, options.existing),
            ("p", published, options.published),
        ];
        for (kind, plan, count) in all.into_iter().filter(|(_, _, count)| *count > 0) {
            let prefix = format!("{prefix}{kind}");
            let phase = self.phase(&plan, Amount::Total(count), prefix, None)?;
            let existing = Existing::make(phase, options.concurrency).await;
            self.existing.push(existing);
        }
        Ok(())
    }

    pub(crate) async fn end_existing(&mut self) {
        for existing in std::mem::take(&mut self.existing) {
            self.all.add_faults(&existing.end().await);
        }
    }

    pub(crate) fn phase(
        &self,
        plan: &Plan,
        amount: Amount,
        prefix: String,
        progress: Option<&Progress>,
    ) -> Result<Phase, CreationError> {
        let (scene, plan) = (Arc::clone(&self.scene), plan.clone());
        let progress = progress.cloned();
        let measured = Measured::after(self.all.elapsed)?;
        Ok(Phase::new(scene, plan, amount, prefix, progress, measured))
    }

    pub(crate) fn usage(&self) -> Result<Usage, String> {
        self.server.as_ref().map_err(Clone::clone)?.usage()
    }

    /// Adds a round.
    pub(crate) fn note(
        &mut self,
        before: Result<Usage, String>,
        measured: Measured,
    ) -> Result<(), AdditionError> {
        let after = self.usage();
        self.used = self.used.clone().and_then(|used| {
            let (before, after) = (before?, after?);
            let written = after.written.zip(before.written).zip(used.written);
            Ok(Usage {
                cpu_seconds: used.cpu_seconds + after.cpu_seconds - before.cpu_seconds,
                written: written.map(|((after, before), used)| used + after.saturating_sub(before)),
                ..after
            })
        });
        self.all.add(measured.clone())?;
        self.rounds.push(measured);
        Ok(())
    }

    /// Some further repetitions under strace.
    pub(crate) async fn durable_waits(
        &mut self,
        prefix: String,
    ) -> Result<Fact<DurableWaits>, CreationError> {
        let server = match &self.server {
            Ok(server) => server.clone(),
            Err(reason) => return Ok(Fact::Unknown(reason.clone())),
        };
        let phase = self.phase(&self.plan, Amount::Total(COUNTED), prefix, None)?;
        let (done, count) = syncs::count(&server.pids, phase.run(1)).await;
        let repetitions = done.as_ref().map_or(0, |done| done.repetitions.len());
        if let Some(done) = &done {
            self.all.add_faults(done);
        }
        Ok(match count {
            Err(reason) => Fact::Unknown(reason),
            Ok(_) if repetitions == 0 => Fact::Unknown("no repetition was whole".to_owned()),
            Ok(count) => Fact::Known(DurableWaits {
                per_repetition: count as f64 / repetitions as f64,
                repetitions,
                source: "strace",
            }),
        })
    }

    pub(crate) fn target(self, durable_waits: Fact<DurableWaits>) -> Target {
        let repetitions = self.all.repetitions.len();
        let each = |all: f64| all / repetitions.max(1) as f64;
        let server = match (self.used, self.server) {
            (Ok(used), Ok(server)) => Fact::Known(ServerFacts {
                pids: server.pids,
                cpu_seconds: used.cpu_seconds,
                cpu_ms_per_repetition: each(used.cpu_seconds * 1e3),
                resident_bytes: used.resident,
                peak_resident_bytes: used.peak,
                written_bytes_per_repetition: used.written.map(|bytes| each(bytes as f64)),
            }),
            (Err(reason), _) | (_, Err(reason)) => Fact::Unknown(reason),
        };
        Target {
            socket: self.socket,
            driver: self.scene.client.driver.clone(),
            version: self.scene.client.version.clone(),
            seconds: self.all.elapsed.as_secs_f64(),
            repetitions,
            repetitions_per_second: per_second(repetitions, self.all.elapsed),
            rpcs_per_second: per_second(self.all.count(), self.all.elapsed),
            rpcs: Times::of_all(&self.all),
            whole: (repetitions > 0).then(|| Times::of(WHOLE, &self.all.repetitions, 0)),
            failed: self.all.failed.values().sum(),
            per_second: self.all.per_second,
            errors: self.all.errors,
            left: self.all.left,
            server,
            durable_waits,
        }
    }
}
