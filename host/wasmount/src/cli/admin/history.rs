//! `wasmount history`: the versions of a driver, the newest first.

use super::table::{Cell, Table, Tone};
use super::when::ago;
use super::{FormFlags, HostFlags, ask, print, print_json, short};
use crate::fault::Fault;
use clap::Args;
use wasmount_control::words::{History, PastVersion};

/// Show which versions of a driver have served, and why each ended
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount history directory.wasmount.io

Settings are told apart by a digest; their values are not shown.

Exit codes: 0, 64 for wrong flags, 1 for any other failure.")]
pub(crate) struct Flags {
    /// CSI's name of the driver
    #[arg(value_name = "DRIVER")]
    driver: String,

    #[command(flatten)]
    host: HostFlags,

    #[command(flatten)]
    form: FormFlags,
}

/// Asks and prints.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let Flags { driver, host, form } = flags;
    let history = ask(host.client().history(&driver))?;
    if form.json {
        return print_json(&history);
    }
    print(&text(&history))
}

fn text(history: &History) -> String {
    if history.versions.is_empty() {
        return format!("no version of {} has served yet\n", history.driver);
    }
    let mut table = Table::new([
        "VERSION", "STATE", "PLUGIN", "DIGEST", "SETTINGS", "SINCE", "UNTIL", "ORIGIN", "REASON",
    ]);
    for past in &history.versions {
        table.row(row(past));
    }
    table.text()
}

fn row(past: &PastVersion) -> [Cell; 9] {
    let version = &past.version;
    let tone = match past.state.as_str() {
        "serving" => Tone::Good,
        "replaced" => Tone::Plain,
        _ => Tone::Warning,
    };
    let until = past.until.as_deref().map(ago);
    [
        version.number.to_string().into(),
        Cell::toned(past.state.as_str(), tone),
        version.plugin.as_str().into(),
        short(&version.digest).into(),
        short(&version.settings_digest).into(),
        ago(&version.since).into(),
        until.unwrap_or_else(|| "-".to_owned()).into(),
        version.origin.as_str().into(),
        past.reason.as_deref().unwrap_or("-").into(),
    ]
}
