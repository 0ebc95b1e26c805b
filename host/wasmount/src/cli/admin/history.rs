//! `wasmount history`: the versions of a driver, the newest first, and rejected versions.

use super::DriverFlags;
use super::table::{Cell, Table, utc};
use crate::cli::show::Tone;
use crate::fault::Fault;
use clap::Args;
use wasmount_control::Client;
use wasmount_control::messages::{History, PastRefusal, VersionRecord, VersionState};
use wasmount_core::text::short_digest;

/// Show the versions of a driver that served, why each ended, and rejected versions
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount history directory.wasmount.io

Settings are identified by a digest; their values are not shown. Rejected versions are listed in a
second table, the newest first, each rejection once; the last twenty are kept.

Exit codes: 0, 64 for wrong flags, 1 for any other failure.")]
pub(crate) struct Flags {
    #[command(flatten)]
    of: DriverFlags,
}

/// Requests the history and prints it.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let history = async |client: &Client, driver: &str| client.history(driver).await;
    flags.of.answer(history, text).map(drop)
}

fn text(history: &History) -> String {
    let mut text = versions(history);
    if !history.refusals.is_empty() {
        text.push('\n');
        text.push_str(&refusals(&history.refusals));
    }
    text
}

fn refusals(refusals: &[PastRefusal]) -> String {
    let mut table = Table::new([
        "REJECTED", "DIGEST", "LAST", "FIRST", "TIMES", "ORIGIN", "REASON",
    ]);
    for refusal in refusals {
        let digest = refusal.digest.as_deref().map_or("-", short_digest);
        table.row([
            Cell::toned(refusal.kind.as_str(), Tone::Bad),
            digest.into(),
            utc(refusal.last).into(),
            utc(refusal.first).into(),
            refusal.times.to_string().into(),
            refusal.origin.as_str().into(),
            refusal.reason.as_str().into(),
        ]);
    }
    table.text()
}

fn versions(history: &History) -> String {
    if history.versions.is_empty() {
        return format!("no version of {} has served yet\n", history.driver);
    }
    let mut table = Table::new([
        "VERSION", "STATE", "PLUGIN", "DIGEST", "SETTINGS", "SINCE", "UNTIL", "ORIGIN", "REASON",
    ]);
    for version in &history.versions {
        table.row(row(version));
    }
    table.text()
}

fn row(version: &VersionRecord) -> [Cell; 9] {
    let (state, tone) = match version.state {
        VersionState::Serving => ("serving", Tone::Good),
        VersionState::Replaced => ("replaced", Tone::Plain),
        VersionState::RolledBack => ("rolled back", Tone::Warning),
    };
    let until = version.until.map(utc);
    [
        version.number.to_string().into(),
        Cell::toned(state, tone),
        version.label().into(),
        short_digest(&version.digest).into(),
        short_digest(&version.settings_digest).into(),
        utc(version.since).into(),
        until.unwrap_or_else(|| "-".to_owned()).into(),
        version.origin.as_str().into(),
        version.reason.as_deref().unwrap_or("-").into(),
    ]
}
