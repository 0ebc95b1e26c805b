//! `wasmount drain`: no new work.

use super::{DriverFlags, ask, print, print_json};
use crate::fault::Fault;
use clap::Args;
use wasmount_control::words::{Drain, Drained};

/// Stop new work of a driver and wait for its running calls; `resume` ends the drain
#[derive(Debug, Args)]
#[command(after_help = "\
Example, before its storage is worked on:
  $ wasmount drain directory.wasmount.io --reason maintenance

Whatever makes or uses more is refused with UNAVAILABLE and the reason, and is tried again by Kubernetes; tear-down goes on. Nothing that is
mounted is touched.

Exit codes: 0 when no call runs any more, 64 for wrong flags, 1 for any other failure, such as calls that did not end.")]
pub(crate) struct Flags {
    #[command(flatten)]
    of: DriverFlags,

    /// Reason that clients receive
    #[arg(long, value_name = "WORDS")]
    reason: Option<String>,

    /// Seconds to wait for running calls
    // 60: the default budget of a call.
    #[arg(long, value_name = "SECONDS", env = "WASMOUNT_PATIENCE", default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(..=MOST_PATIENCE))]
    patience: u64,
}

/// A day, in seconds: longer than any call may take.
const MOST_PATIENCE: u64 = 86_400;

/// Asks and prints.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let Flags {
        of: DriverFlags { driver, host, form },
        reason,
        patience,
    } = flags;
    let drain = Drain {
        reason,
        patience_seconds: patience,
    };
    let drained = ask(host.client().drain(&driver, &drain))?;
    if form.json {
        print_json(&drained)?;
    } else {
        print(&text(&driver, &drained))?;
    }
    match drained.calls_in_flight {
        0 => Ok(()),
        calls => Err(Fault::room(format!("calls of {driver} have not ended"))(
            format!("after {patience} s {calls} still run; it takes no new work, ask again"),
        )),
    }
}

fn text(driver: &str, drained: &Drained) -> String {
    let volumes = match drained.volumes_in_use {
        Some(0) => "no volume is in use here".to_owned(),
        Some(1) => "1 volume stays in use here".to_owned(),
        Some(volumes) => format!("{volumes} volumes stay in use here"),
        None => "how many volumes are in use cannot be told now".to_owned(),
    };
    format!("{driver} takes no new work; {volumes}\n")
}
