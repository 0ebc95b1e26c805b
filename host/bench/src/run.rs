//! The run: one socket, or two that take turns, from the first connection to the report.

use crate::client::Client;
use crate::directories::Made;
use crate::disk::{self, Disk};
use crate::life::Scene;
use crate::measured::Measured;
use crate::options::{Amount, Options};
use crate::phase::Phase;
use crate::plan::{Plan, PlanError};
use crate::ratio::Ratio;
use crate::report::{DurableWaits, Fact, Report, ServerFacts, Target, Times, per_second};
use crate::server::{Server, Usage};
use crate::stop::Stop;
use crate::syncs;
use hdrhistogram::{AdditionError, CreationError};
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use wasmount_core::rpc::Rpc;

/// Repetitions that strace counts, one at a time.
const COUNTED: u64 = 10;
/// How names begin: of volumes, of files and of directories.
const PREFIX: &str = "wasmount-bench";
/// How that of whole repetitions is called among figures.
const WHOLE: &str = "whole";

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The socket does not answer as one of CSI.
    #[error(
        "the driver at {socket} cannot be measured: {rpc}: {reason}; name the socket of a CSI driver that serves"
    )]
    Driver {
        /// The socket.
        socket: PathBuf,
        /// What failed.
        rpc: &'static str,
        /// The driver's words.
        reason: String,
    },
    /// The driver lacks what the mix needs.
    #[error("the driver at {socket} cannot be measured")]
    Plan {
        /// The socket.
        socket: PathBuf,
        /// What it lacks.
        #[source]
        source: PlanError,
    },
    /// The paths of volumes cannot be made.
    #[error("no paths for volumes can be made in {path}; name another directory by --kubelet-dir")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The disk cannot be measured.
    #[error(
        "the disk of {path} cannot be measured; name a directory that can be written to by --disk"
    )]
    Disk {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The run was ended before it began.
    #[error("interrupted before the first volume")]
    Interrupted,
    /// Figures cannot be kept.
    #[error("figures cannot be recorded")]
    Create(#[from] CreationError),
    /// Figures of rounds do not fit together.
    #[error("figures of rounds cannot be added up")]
    Add(#[from] AdditionError),
}

/// A socket with its figures so far.
struct Subject {
    socket: PathBuf,
    scene: Arc<Scene>,
    plan: Plan,
    server: Result<Server, String>,
    all: Measured,
    /// Figures of each round.
    rounds: Vec<Measured>,
    /// CPU time and written bytes of the measurement.
    used: Result<Usage, String>,
}

/// Runs the benchmark; `progress` is called after each repetition that is measured.
pub async fn run(
    options: Options,
    stop: Stop,
    progress: Arc<dyn Fn() + Send + Sync>,
) -> Result<Report, BenchError> {
    // Unique: volumes of runs side by side, and of one that was killed, are told apart by it.
    let name = format!("{PREFIX}-{:012x}", fastrand::u64(..1 << 48));
    let disk = match options.disk.clone() {
        Some(directory) => Some(measured_disk(directory, name.clone()).await?),
        None => None,
    };
    let mut made = Made::default();
    let temporary = env::temp_dir().join(&name);
    let kubelet = options.kubelet_dir.clone().unwrap_or(temporary);
    let mut subjects = Vec::new();
    for socket in &options.sockets {
        let subject = tokio::select! {
            subject = Subject::begin(socket, &options, &kubelet, &stop) => subject?,
            () = stop.asked() => return Err(BenchError::Interrupted),
        };
        let shared = made.shared(&kubelet, &subject.scene.client.driver);
        shared.map_err(|source| BenchError::Directory {
            path: kubelet.clone(),
            source,
        })?;
        subjects.push(subject);
    }
    let silent: Arc<dyn Fn() + Send + Sync> = Arc::new(|| {});
    for (number, subject) in subjects.iter_mut().enumerate() {
        if !options.warm_up.is_zero() {
            let amount = Amount::Time(options.warm_up);
            let phase = subject.phase(amount, format!("{name}-w{number}"), &silent)?;
            let faults = phase.run(options.concurrency).await;
            subject.all.add_faults(&faults);
        }
    }
    let is_pair = subjects.len() > 1;
    let rounds = if is_pair { options.rounds.max(1) } else { 1 };
    for round in 0..rounds {
        let amount = part(options.amount, round, rounds, subjects.len());
        // In turn, and each as often first as second: what warms up, or gets slower, does so for both.
        let mut order: Vec<_> = subjects.iter_mut().enumerate().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for (number, subject) in order {
            let phase = subject.phase(amount, format!("{name}-{number}-{round}"), &progress)?;
            let before = subject.usage();
            let measured = phase.run(options.concurrency).await;
            subject.note(before, measured)?;
        }
    }
    let mut targets = Vec::new();
    let ratios = match subjects.as_slice() {
        [one, other] => ratios(&one.rounds, &other.rounds),
        _ => Vec::new(),
    };
    for (number, mut subject) in subjects.into_iter().enumerate() {
        let waits = match options.counts_syncs {
            true if stop.is_asked() => Fact::Unknown("interrupted".to_owned()),
            true => {
                subject
                    .durable_waits(format!("{name}-s{number}"), &silent)
                    .await?
            }
            false => Fact::Unknown("not counted".to_owned()),
        };
        targets.push(subject.target(waits));
    }
    let left = made.remove().into_iter();
    let left = left.map(|path| format!("the directory {} is not removed", path.display()));
    if let Some(target) = targets.last_mut() {
        target.left.extend(left);
    }
    Ok(Report {
        mix: options.mix.name(),
        connections: options.connections.name(),
        concurrency: options.concurrency,
        interrupted: stop.is_asked(),
        disk,
        targets,
        ratios,
    })
}

impl Subject {
    async fn begin(
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
        let plan = Plan::of(options.mix, &client.offers);
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
            all: Measured::after(Duration::ZERO)?,
            rounds: Vec::new(),
            used: Ok(Usage {
                written: Some(0),
                ..Usage::default()
            }),
        })
    }

    fn phase(
        &self,
        amount: Amount,
        prefix: String,
        progress: &Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Phase, CreationError> {
        let (scene, plan) = (Arc::clone(&self.scene), self.plan.clone());
        let progress = Arc::clone(progress);
        let measured = Measured::after(self.all.elapsed)?;
        Ok(Phase::new(scene, plan, amount, prefix, progress, measured))
    }

    fn usage(&self) -> Result<Usage, String> {
        self.server.as_ref().map_err(Clone::clone)?.usage()
    }

    /// Adds a round.
    fn note(
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
    async fn durable_waits(
        &mut self,
        prefix: String,
        silent: &Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Fact<DurableWaits>, CreationError> {
        let server = match &self.server {
            Ok(server) => server.clone(),
            Err(reason) => return Ok(Fact::Unknown(reason.clone())),
        };
        let phase = self.phase(Amount::Total(COUNTED), prefix, silent)?;
        let (done, count) = syncs::count(server.pids(), phase.run(1)).await;
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

    fn target(self, durable_waits: Fact<DurableWaits>) -> Target {
        let repetitions = self.all.repetitions.len();
        let each = |all: f64| all / repetitions.max(1) as f64;
        let server = match (self.used, self.server) {
            (Ok(used), Ok(server)) => Fact::Known(ServerFacts {
                pids: server.pids().to_vec(),
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

/// The share of one round of one socket.
fn part(amount: Amount, round: u16, rounds: u16, sockets: usize) -> Amount {
    match amount {
        Amount::Time(time) => {
            let sockets = u32::try_from(sockets).unwrap_or(u32::MAX).max(1);
            Amount::Time(time / u32::from(rounds) / sockets)
        }
        Amount::Total(total) => {
            let rest = total % u64::from(rounds);
            Amount::Total(total / u64::from(rounds) + u64::from(u64::from(round) < rest))
        }
    }
}

/// Of the throughput, of each RPC's median, and of that of whole repetitions.
fn ratios(ones: &[Measured], others: &[Measured]) -> Vec<Ratio> {
    let pairs = |figure: &dyn Fn(&Measured) -> f64| {
        let pairs = ones.iter().zip(others);
        let pairs = pairs.map(|(one, other)| (figure(one), figure(other)));
        pairs.collect::<Vec<_>>()
    };
    let throughput = pairs(&|it| per_second(it.count(), it.elapsed));
    let mut ratios = Vec::from_iter(Ratio::of("RPC/s", &throughput));
    for rpc in Rpc::ALL {
        let medians = pairs(&|it| {
            let times = it.rpcs.get(rpc);
            times.map_or(0.0, |times| times.value_at_quantile(0.5) as f64)
        });
        ratios.extend(Ratio::of(&format!("{rpc} p50"), &medians));
    }
    let whole = pairs(&|it| it.repetitions.value_at_quantile(0.5) as f64);
    ratios.extend(Ratio::of(&format!("{WHOLE} p50"), &whole));
    ratios
}

async fn measured_disk(directory: PathBuf, name: String) -> Result<Disk, BenchError> {
    let path = directory.clone();
    let measured = tokio::task::spawn_blocking(move || disk::measure(&directory, &name)).await;
    let measured = measured.unwrap_or_else(|error| Err(io::Error::other(error)));
    measured.map_err(|source| BenchError::Disk { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_all_rounds_are_the_whole() {
        let total = |round| part(Amount::Total(23), round, 10, 2);
        let parts: Vec<_> = (0..10).map(total).collect();
        let (more, fewer) = (Amount::Total(3), Amount::Total(2));
        assert_eq!(parts, [[more; 3].as_slice(), &[fewer; 7]].concat());
        let time = part(Amount::Time(Duration::from_secs(40)), 0, 10, 2);
        assert_eq!(time, Amount::Time(Duration::from_secs(2)));
        assert_eq!(part(Amount::Total(7), 0, 1, 1), Amount::Total(7));
    }

    #[test]
    fn rounds_of_two_sockets_become_ratios() {
        let round = |milliseconds| {
            let mut round = Measured::after(Duration::ZERO).unwrap();
            let took = Duration::from_millis(milliseconds);
            round.answered(Rpc::Probe, took, took);
            round.repeated(took);
            round.elapsed = took;
            round
        };
        let ratios = ratios(&[round(10), round(20)], &[round(30), round(60)]);
        let names: Vec<_> = ratios.iter().map(|it| it.what.as_str()).collect();
        assert_eq!(names, ["RPC/s", "Probe p50", "whole p50"]);
        assert!((ratios[0].ratio - 3.0).abs() < 0.01, "{ratios:?}");
        assert!((ratios[1].ratio - 1.0 / 3.0).abs() < 0.001, "{ratios:?}");
    }
}
