//! The run: one socket, or two that take turns, from the first connection to the report.

use crate::directories::Made;
use crate::disk::{self, Disk};
use crate::error::BenchError;
use crate::measured::Measured;
use crate::options::{Amount, Options};
use crate::phase::Progress;
use crate::ratio::Ratio;
use crate::report::{Fact, Report, WHOLE, per_second};
use crate::stop::Stop;
use crate::subject::Subject;
use std::env;
use std::io;
use std::path::PathBuf;
use wasmount_core::rpc::Rpc;

/// How names begin: of volumes, of files and of directories.
const PREFIX: &str = "wasmount-bench";

/// Runs the benchmark; `progress` is called after each repetition that is measured.
pub async fn run(options: Options, stop: Stop, progress: Progress) -> Result<Report, BenchError> {
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
    for (number, subject) in subjects.iter_mut().enumerate() {
        let prefix = format!("{name}-e{number}");
        subject.make_existing(&options, &prefix).await?;
    }
    for (number, subject) in subjects.iter_mut().enumerate() {
        if !options.warm_up.is_zero() {
            let amount = Amount::Time(options.warm_up);
            let prefix = format!("{name}-w{number}");
            let phase = subject.phase(&subject.plan, amount, prefix, None)?;
            let faults = phase.run(options.concurrency).await;
            subject.all.add_faults(&faults);
        }
    }
    let is_pair = subjects.len() > 1;
    let rounds = if is_pair { options.rounds.max(1) } else { 1 };
    for round in 0..rounds {
        let amount = options.amount.part(round, rounds, subjects.len());
        // In turn, and each as often first as second: what warms up, or gets slower, does so for both.
        let mut order: Vec<_> = subjects.iter_mut().enumerate().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for (number, subject) in order {
            let prefix = format!("{name}-{number}-{round}");
            let phase = subject.phase(&subject.plan, amount, prefix, Some(&progress))?;
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
            true => subject.durable_waits(format!("{name}-s{number}")).await?,
            false => Fact::Unknown("not counted".to_owned()),
        };
        subject.end_existing().await;
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
        existing: options.existing,
        published: options.published,
        interrupted: stop.is_asked(),
        disk,
        targets,
        ratios,
    })
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
    use std::time::Duration;

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
