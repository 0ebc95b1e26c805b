//! `wasmount bench`: its flags, its interrupt, and what it prints.

mod text;

use super::common::existing;
use super::show;
use super::subject::name_and_file;
use super::transfer::{wait, write_whole};
use crate::fault::Fault;
use crate::host::Signals;
use crate::progress_bar;
use crate::regular_file;
use clap::{Args, ValueEnum};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmount_bench::{Amount, Connections, Mix, Options, Stop, page};
use wasmount_core::document::amounts;

/// Most bytes of a secret, as in Kubernetes.
const SECRET_BYTES: u64 = 1 << 20;
/// How an address of CSI may begin.
const SCHEME: &str = "unix:";
/// Repetitions side by side, at most: what a large node has, and fewer than a server takes on one connection.
const MOST_AT_ONCE: i64 = 512;
/// The longest time that is accepted anywhere.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// How long is measured unless something else is asked for.
const DURATION: Duration = Duration::from_secs(30);

/// Measure a CSI driver over its socket, or compare two: lives of volumes, latency of each RPC, cost of the server
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  $ wasmount bench /run/wasmount/nas.example.com/csi.sock -c 8 -z 60s
  $ wasmount bench csi.sock -n 1000 --mix publish --json
  $ wasmount bench csi.sock --existing 10000 --published 500
  $ wasmount bench one.sock --compare other.sock --html report.html

A life is Probe, CreateVolume, ControllerPublishVolume, NodeStageVolume, NodePublishVolume, NodeGetVolumeStats and what undoes them, as far as
the driver advertises them, for an empty mounted volume of 1 MiB. Times are those of the client, with the connection of a Node RPC. Volumes,
mounts and directories of the run are removed at its end, also after a failure, SIGINT or SIGTERM; what could not be removed is named. A second
signal ends at once. The names of all volumes begin with `wasmount-bench-`.

A driver mounts only below directories that it accepts: name kubelet's directory by --kubelet-dir, or another one that it knows. A kubelet that
uses the directory logs the pods of the run as orphaned. Node RPCs need the rights of kubelet, which is root.

Exit codes: 0, 64 for wrong flags, 1 if an RPC failed, something is left, or the run was interrupted.")]
pub(crate) struct Flags {
    /// The socket of the driver, with controller and node service
    #[arg(value_name = "SOCKET", value_parser = socket)]
    socket: PathBuf,

    /// Compare with the driver at this socket: the two take turns, and ratios have intervals of 95 %
    #[arg(long, value_name = "SOCKET", value_parser = socket)]
    compare: Option<PathBuf>,

    /// What is repeated
    #[arg(long, value_name = "MIX", default_value = "life")]
    mix: MixArg,

    /// Repetitions of the mix for each socket [default: as many as fit into --duration]
    #[arg(short = 'n', long, value_name = "COUNT", conflicts_with = "duration",
        value_parser = clap::value_parser!(u64).range(1..))]
    total: Option<u64>,

    /// How long is measured, in all, such as `30s` or `5m` [default: 30s]
    #[arg(short = 'z', long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,

    /// Repetitions side by side
    #[arg(short = 'c', long, value_name = "COUNT", default_value_t = 8,
        value_parser = clap::value_parser!(u16).range(1..=MOST_AT_ONCE))]
    concurrency: u16,

    /// Time of the same load before the measurement, for each socket; `0s` for none
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time_or_none)]
    warm_up: Duration,

    /// Turns of each socket with --compare
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u16).range(2..=100))]
    rounds: u16,

    /// How connections are used
    #[arg(long, value_name = "HABIT", default_value = "kubelet")]
    connections: ConnectionsArg,

    /// Timeout of an RPC
    #[arg(short = 't', long, value_name = "TIME", default_value = "60s", value_parser = time)]
    timeout: Duration,

    /// A parameter of CreateVolume, as in a StorageClass; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    parameter: Vec<(String, String)>,

    /// A secret of each RPC that takes some, from a file; may be repeated
    #[arg(long, value_name = "NAME=FILE", value_parser = name_and_file)]
    secret: Vec<(String, PathBuf)>,

    /// Directory in which staging and target paths are made as kubelet makes them [default: a temporary directory]
    #[arg(long, value_name = "DIR", env)]
    kubelet_dir: Option<PathBuf>,

    /// Measure fdatasync of the disk of this directory first
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,

    /// A further process of the server, such as its mounter, for CPU time and memory; may be repeated
    #[arg(long, value_name = "PID", conflicts_with = "compare")]
    pid: Vec<u32>,

    /// Volumes that exist during the measurement: created before it, deleted after it
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    existing: u64,

    /// Further volumes that are published during the measurement, each at one target path
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    published: u64,

    /// Count fsync, fdatasync and the like of the server with `strace`, in 10 further repetitions, one at a time
    #[arg(long)]
    count_syncs: bool,

    /// Write the report as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long, env)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MixArg {
    /// Whole lives of volumes
    Life,
    /// CreateVolume and DeleteVolume
    CreateDelete,
    /// NodePublishVolume and NodeUnpublishVolume of staged volumes
    Publish,
    /// NodeGetVolumeStats of published volumes
    Stats,
    /// Probe
    Probe,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ConnectionsArg {
    /// A new one for each Node RPC, as kubelet has, and one for all others, as a sidecar has
    Kubelet,
    /// One for all RPCs
    One,
}

/// Runs the benchmark.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let options = flags.options()?;
    let stop = Stop::default();
    let (progress, bar) = progress(options.amount, options.sockets.len());
    // On one thread: between two, each request would change threads, and take more of the CPU time that the server needs.
    let report = wait(async {
        let mut signals = Signals::watch()?;
        let mut running = pin!(wasmount_bench::run(options, stop.clone(), progress));
        loop {
            tokio::select! {
                report = &mut running => return report.map_err(Fault::failed("nothing was measured")),
                signal = signals.next() => {
                    // Nobody may read it; the run ends in any case.
                    let _ = writeln!(io::stderr(), "{signal}: undoing what is open; a second signal ends at once");
                    stop.ask();
                }
            }
        }
    });
    bar.finish_and_clear();
    let report = report??;
    if let Some(file) = &flags.html {
        write_whole(file, page(&report).as_bytes())?;
    }
    show::answer(flags.json, &report, text::of)?;
    match report.is_well() {
        true => Ok(()),
        false => Err(Fault::Found),
    }
}

impl Flags {
    fn options(&self) -> Result<Options, Fault> {
        if let Some(directory) = &self.kubelet_dir {
            existing("--kubelet-dir", directory)?;
        }
        let mut secrets = BTreeMap::new();
        for (name, file) in &self.secret {
            let failed = || format!("--secret {name}: {}", file.display());
            let bytes = regular_file::read(file, SECRET_BYTES).map_err(Fault::failed(failed()))?;
            let value = String::from_utf8(bytes).map_err(|_| {
                Fault::flag(
                    "--secret",
                    name,
                    "the file is not UTF-8, which CSI requires",
                )
            })?;
            secrets.insert(name.clone(), value);
        }
        let sockets = [Some(self.socket.clone()), self.compare.clone()];
        Ok(Options {
            sockets: sockets.into_iter().flatten().collect(),
            mix: self.mix.into(),
            amount: match self.total {
                Some(total) => Amount::Total(total),
                None => Amount::Time(self.duration.unwrap_or(DURATION)),
            },
            warm_up: self.warm_up,
            concurrency: self.concurrency,
            rounds: self.rounds,
            connections: self.connections.into(),
            timeout: self.timeout,
            parameters: self.parameter.iter().cloned().collect(),
            secrets,
            kubelet_dir: self.kubelet_dir.clone(),
            disk: self.disk.clone(),
            pids: self.pid.clone(),
            existing: self.existing,
            published: self.published,
            counts_syncs: self.count_syncs,
        })
    }
}

impl From<MixArg> for Mix {
    fn from(mix: MixArg) -> Self {
        match mix {
            MixArg::Life => Self::Life,
            MixArg::CreateDelete => Self::CreateDelete,
            MixArg::Publish => Self::Publish,
            MixArg::Stats => Self::Stats,
            MixArg::Probe => Self::Probe,
        }
    }
}

impl From<ConnectionsArg> for Connections {
    fn from(connections: ConnectionsArg) -> Self {
        match connections {
            ConnectionsArg::Kubelet => Self::Kubelet,
            ConnectionsArg::One => Self::One,
        }
    }
}

/// The bar, and what moves it after each repetition.
fn progress(
    amount: Amount,
    sockets: usize,
) -> (Arc<dyn Fn() + Send + Sync>, indicatif::ProgressBar) {
    let all = match amount {
        Amount::Total(total) => total.saturating_mul(sockets as u64),
        Amount::Time(time) => show::microseconds(time),
    };
    let bar = progress_bar::of(all);
    let moved = bar.clone();
    let start = Instant::now();
    let progress: Arc<dyn Fn() + Send + Sync> = match amount {
        Amount::Total(_) => Arc::new(move || moved.inc(1)),
        Amount::Time(_) => {
            Arc::new(move || moved.set_position(show::microseconds(start.elapsed())))
        }
    };
    (progress, bar)
}

fn socket(value: &str) -> Result<PathBuf, String> {
    let path = value.strip_prefix(SCHEME).unwrap_or(value);
    let path = path.strip_prefix("//").unwrap_or(path);
    std::path::absolute(path).map_err(|error| error.to_string())
}

fn time_or_none(value: &str) -> Result<Duration, String> {
    let time = amounts::duration(value).filter(|time| *time <= LONGEST);
    time.ok_or_else(|| "is no time such as `500ms`, `30s` or `5m`, of at most a day".to_owned())
}

fn time(value: &str) -> Result<Duration, String> {
    match time_or_none(value)? {
        Duration::ZERO => Err("must be longer than 0".to_owned()),
        time => Ok(time),
    }
}

fn parameter(value: &str) -> Result<(String, String), String> {
    match value.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("is not NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_a_path_or_an_address_of_csi() {
        for address in ["/a/csi.sock", "unix:/a/csi.sock", "unix:///a/csi.sock"] {
            assert_eq!(socket(address).unwrap(), PathBuf::from("/a/csi.sock"));
        }
        assert!(socket("csi.sock").unwrap().is_absolute());
        assert!(socket("").is_err());
    }

    #[test]
    fn times_are_bounded_and_those_of_a_phase_are_not_zero() {
        assert_eq!(time("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(time_or_none("0s"), Ok(Duration::ZERO));
        for refused in ["0s", "", "5", "-1s", "25h", "soon"] {
            assert!(time(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_parameter_has_a_name_and_maybe_no_value() {
        assert_eq!(parameter("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(parameter("a="), Ok(("a".to_owned(), String::new())));
        assert!(parameter("=b").is_err() && parameter("a").is_err());
    }
}
