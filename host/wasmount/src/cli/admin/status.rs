//! `wasmount status`: the host's drivers in a table, with a line for each condition that needs attention; or the backends of a cluster.

mod cluster;

use super::table::{Cell, Table, ago};
use super::{FormFlags, HostFlags};
use crate::cli::show::{Tone, answer, print};
use crate::cli::transfer::wait;
use crate::fault::Fault;
use crate::visible;
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::sleep;
use wasmount_control::ControlError;
use wasmount_control::messages::{DriverReport, HostStatus, Phase, VersionRecord};
use wasmount_core::text::short_digest;

/// Between two requests of `--watch`. 1 s: a person reads no faster, and each is one short request.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Moves to the upper left corner and clears the screen (ECMA-48, CUP and ED).
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Show what a running host serves: drivers, versions, calls, volumes, faults
#[derive(Debug, Args)]
#[command(after_help = "\
Example, the host of this node, refreshed each second:
  $ wasmount status --watch

Example, the digest of what serves, for a program:
  $ wasmount status --json

Example, the StorageBackend objects of a cluster, on all of its hosts:
  $ wasmount status --cluster

Exit codes: 0, 64 for wrong flags, 1 for any other failure, such as a host that is not running.")]
pub(crate) struct Flags {
    #[command(flatten)]
    host: HostFlags,

    #[command(flatten)]
    form: FormFlags,

    /// Print again after each change, until interrupted
    #[arg(long)]
    watch: bool,

    /// Show the StorageBackend objects of the cluster instead: versions by number of hosts, and the hosts that are behind or in trouble
    #[arg(long, conflicts_with = "watch")]
    cluster: bool,

    /// Kubeconfig for --cluster [default: that of kubectl; in a pod, its service account]
    #[arg(long, value_name = "FILE", env)]
    kubeconfig: Option<PathBuf>,
}

/// Requests the status and prints it.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    if flags.cluster {
        return cluster::run(flags.kubeconfig, flags.form);
    }
    let (client, form) = (flags.host.client(), flags.form);
    if !flags.watch {
        return answer(form.json, &wait(client.status())??, text);
    }
    let terminal = io::stdout().is_terminal();
    wait(async {
        let mut shown = None;
        let mut silent = false;
        while is_read() {
            let status = match client.status().await {
                Ok(status) => status,
                // A host that has answered before may be restarting.
                Err(error) if shown.is_some() && is_away(&error) => {
                    if !silent {
                        report_silence(&error);
                    }
                    silent = true;
                    sleep(POLL_INTERVAL).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            silent = false;
            // Ages grow on their own: a terminal is always updated, a log only receives changes.
            if terminal || shown.as_ref() != Some(&status) {
                if terminal && !form.json {
                    print(CLEAR)?;
                }
                answer(form.json, &status, text)?;
                shown = Some(status);
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    })?
}

/// Whether the output is still read.
fn is_read() -> bool {
    let output = io::stdout();
    let mut watched = [PollFd::new(&output, PollFlags::empty())];
    // If poll(2) fails, printing reports the error.
    let _ = poll(&mut watched, Some(&Timespec::default()));
    watched
        .iter()
        .all(|it| !it.revents().contains(PollFlags::ERR))
}

fn is_away(error: &ControlError) -> bool {
    matches!(
        error,
        ControlError::NotRunning { .. }
            | ControlError::Broken { .. }
            | ControlError::TooSlow { .. }
    )
}

fn report_silence(error: &ControlError) {
    let line = visible::line(&error.to_string());
    // It is not an answer: those are on standard output.
    let _ = writeln!(io::stderr(), "wasmount: {line}; watching on");
}

fn text(status: &HostStatus) -> String {
    let mut text = String::new();
    if let Some(reason) = &status.not_ready {
        let line = visible::line(&format!("the host is not ready: {reason}"));
        text.push_str(&format!("{}\n", Tone::Bad.paint(&line)));
    }
    if status.drivers.is_empty() {
        text.push_str("no driver is served\n");
        return text;
    }
    let mut table = Table::new([
        "DRIVER", "PHASE", "VERSION", "PLUGIN", "DIGEST", "SINCE", "CALLS", "VOLUMES", "FAULTS",
    ]);
    for driver in &status.drivers {
        table.row(row(driver));
    }
    text.push_str(&table.text());
    for driver in &status.drivers {
        for (tone, line) in notes(driver) {
            let line = tone.paint(&visible::line(&line));
            text.push_str(&format!("{}: {line}\n", driver.driver));
        }
    }
    text
}

fn row(driver: &DriverReport) -> [Cell; 9] {
    let version = driver.status.version.as_ref();
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let (label, tone) = phase(driver.status.phase);
    let faults = match driver.faults {
        0 => Tone::Plain,
        _ => Tone::Warning,
    };
    [
        driver.driver.as_str().into(),
        Cell::toned(label, tone),
        or_none(version.map(|it| it.number.to_string())).into(),
        or_none(version.map(VersionRecord::label)).into(),
        or_none(version.map(|it| short_digest(&it.digest).to_owned())).into(),
        or_none(version.map(|it| ago(it.since))).into(),
        driver.calls_in_flight.to_string().into(),
        or_none(driver.volumes_in_use.map(|it| it.to_string())).into(),
        Cell::toned(driver.faults.to_string(), faults),
    ]
}

fn phase(phase: Phase) -> (&'static str, Tone) {
    match phase {
        Phase::Loading => ("loading", Tone::Plain),
        Phase::Serving => ("serving", Tone::Good),
        Phase::RolledBack => ("rolled back", Tone::Warning),
        Phase::Refused => ("refused", Tone::Warning),
        Phase::Paused => ("paused", Tone::Warning),
        Phase::Draining => ("draining", Tone::Warning),
        Phase::Waiting => ("waiting", Tone::Bad),
        // Phases of objects, which the admin socket never reports.
        other => (other.name(), Tone::Bad),
    }
}

/// Information that does not fit into a cell.
fn notes(driver: &DriverReport) -> Vec<(Tone, String)> {
    let mut notes = Vec::new();
    let status = &driver.status;
    if let Some(reason) = &driver.reason {
        notes.push((Tone::Warning, reason.clone()));
    }
    if status.paused && status.phase != Phase::Paused {
        let line = "paused as well: its document is not applied until `wasmount resume`";
        notes.push((Tone::Warning, line.to_owned()));
    }
    if let Some(refused) = &status.refused {
        let digest = refused.digest.as_deref();
        let digest = digest.map_or("a version", short_digest);
        let line = format!(
            "{digest} was rejected {} ago ({}): {}",
            ago(refused.at),
            refused.kind.as_str(),
            refused.reason
        );
        notes.push((Tone::Bad, line));
    }
    let refused = status.refused.as_ref().map(|refused| &refused.reason);
    let is_shown = |reason: &&String| [driver.reason.as_ref(), refused].contains(&Some(*reason));
    if let Some(reason) = driver.not_ready.as_ref().filter(|it| !is_shown(it)) {
        notes.push((Tone::Bad, format!("not ready: {reason}")));
    }
    for old in &status.draining {
        let calls = if old.calls == 1 { "call" } else { "calls" };
        let line = format!("version {} still has {} {calls}", old.number, old.calls);
        notes.push((Tone::Plain, line));
    }
    if let Some(fault) = &driver.last_fault {
        let plugin = fault.plugin.as_deref();
        let by = plugin.map_or_else(String::new, |plugin| format!(", by {plugin}"));
        let line = format!(
            "last fault {} ago: {} in {}{by}",
            ago(fault.at),
            fault.kind,
            fault.rpc
        );
        notes.push((Tone::Warning, line));
    }
    notes
}

#[cfg(test)]
mod tests;
