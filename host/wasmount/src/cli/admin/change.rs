//! `wasmount swap`, `rollback`, `pause`, `resume`, `drain`, `delete`: commands that change what a running host serves.

use super::DriverFlags;
use crate::cli::common::wrong;
use crate::fault::Fault;
use crate::visible;
use clap::Args;
use std::path::{Path, PathBuf};
use wasmount_control::messages::{Delete, Done, Drain, Drained, Plugin, Rollback, Share, Swap};
use wasmount_control::{Client, ControlError};
use wasmount_core::document::Reference;

/// A day, in seconds: longer than any call may take.
const LONGEST_DRAIN_SECONDS: u64 = 86_400;
/// A month, in seconds: longer than any trial.
const LONGEST_SHARE_SECONDS: u64 = 31 * 86_400;

/// Activate the version that a driver's document names, or another one, and report the result
#[derive(Debug, Args)]
#[command(after_help = "\
Example, after the file that the document names was replaced:
  $ wasmount swap directory.wasmount.io

Example, to try another build until the document changes:
  $ wasmount swap directory.wasmount.io --file ./directory.wasm

Example, for a tenth of the volumes, then for half, then for all (before that, `wasmount rollback` undoes it):
  $ wasmount swap directory.wasmount.io --file ./directory.wasm --share 10
  $ wasmount swap directory.wasmount.io --share 50
  $ wasmount swap directory.wasmount.io --share 100

A version that is rejected is reported with its reason, and the one that serves continues. A swap also ends the hold of a rollback. Running calls
end on the version that they began with.

Exit codes: 0 also if it serves already, 64 for wrong flags, 1 for a rejection and any other failure.")]
pub(crate) struct SwapFlags {
    #[command(flatten)]
    of: DriverFlags,

    /// Path of a component on the host's node, instead of the document's; it needs the document's signatures, its digest is not compared
    #[arg(long, value_name = "FILE", conflicts_with = "reference")]
    file: Option<PathBuf>,

    /// An artifact instead of the document's
    #[arg(long, value_name = "oci://..", value_parser = reference)]
    reference: Option<Reference>,

    /// Allow the new version to lack services or features of the serving one, or to have another plugin name
    #[arg(long)]
    allow_service_change: bool,

    /// Percentage of the volumes for the new version, each by a hash of its name or id; if a version has a share, it grows to this, and 100 is all
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with = "allow_service_change")]
    share: Option<u8>,

    /// Seconds without a fault after which the version with the share serves all volumes [default: by `--share 100` only]
    #[arg(long, value_name = "SECONDS", requires = "share",
        value_parser = clap::value_parser!(u64).range(1..=LONGEST_SHARE_SECONDS))]
    promote_after: Option<u64>,
}

/// Roll a driver back to an earlier version, with its settings and grants, and hold it there
#[derive(Debug, Args)]
#[command(after_help = "\
Example, to the version before:
  $ wasmount rollback directory.wasmount.io

Example, to one that `wasmount history` shows:
  $ wasmount rollback directory.wasmount.io --to 3

Example, only if version 5 still serves (two rollbacks at the same time would go back two versions):
  $ wasmount rollback directory.wasmount.io --from 5

While a new version has a share of the volumes, it ends the share, unless --to names another version.

It needs no registry and no document: the last versions are kept in the data directory. It stays, also after a restart and whatever the
document says, until `wasmount swap` ends the hold.

Exit codes: 0, 64 for wrong flags, 1 for any other failure, such as no version to roll back to.")]
pub(crate) struct RollbackFlags {
    #[command(flatten)]
    of: DriverFlags,

    /// Version number [default: the last proven version before the current one]
    #[arg(long, value_name = "NUMBER")]
    to: Option<u64>,

    /// Version number to leave: rejected if another version serves by now, after another rollback
    #[arg(long, value_name = "NUMBER")]
    from: Option<u64>,
}

/// Keep the serving version of a driver until `resume`, whatever its document says
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount pause directory.wasmount.io

A swap or a rollback by hand still works. Automatic rollback on faults continues.
Exit codes: 0, 64 for wrong flags, 1 for any other failure.")]
pub(crate) struct PauseFlags {
    #[command(flatten)]
    of: DriverFlags,
}

/// End a pause or a drain of a driver: follow its document and accept new work
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount resume directory.wasmount.io

Exit codes: 0, 64 for wrong flags, 1 for any other failure.")]
pub(crate) struct ResumeFlags {
    #[command(flatten)]
    of: DriverFlags,
}

/// Stop new work of a driver and wait for its running calls; `resume` ends the drain
#[derive(Debug, Args)]
#[command(after_help = "\
Example, before maintenance of its storage:
  $ wasmount drain directory.wasmount.io --reason maintenance

Calls that create or use more are rejected with UNAVAILABLE and the reason, and Kubernetes retries them; teardown continues. Nothing that is
mounted is touched.

Exit codes: 0 when no call runs any more, 64 for wrong flags, 1 for any other failure, such as calls that did not end.")]
pub(crate) struct DrainFlags {
    #[command(flatten)]
    of: DriverFlags,

    /// Reason that clients receive
    #[arg(long, value_name = "WORDS")]
    reason: Option<String>,

    /// Seconds to wait for running calls
    // 60: the default budget of a call.
    #[arg(long, value_name = "SECONDS", env, default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(..=LONGEST_DRAIN_SECONDS))]
    patience: u64,
}

/// Remove a driver from a running host: drain it, unregister it, remove its socket
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount delete directory.wasmount.io

It is rejected, naming them, while volumes are in use on the node; with --force those stay mounted, and none is torn down until a
host serves the driver again. A document that a --backend still names is served again when it changes, or after a restart. No volume and no
record is removed.

Exit codes: 0, 64 for wrong flags, 1 for a rejection and any other failure.")]
pub(crate) struct DeleteFlags {
    #[command(flatten)]
    of: DriverFlags,

    /// Delete even if volumes are in use
    #[arg(long)]
    force: bool,
}

/// Activates another version.
pub(crate) fn swap(flags: SwapFlags) -> Result<(), Fault> {
    let plugin = match (flags.file, flags.reference) {
        // The host has another working directory.
        (Some(file), _) => Some(Plugin::File(absolute(&file)?)),
        (None, reference) => reference.map(|it| Plugin::Reference(it.to_string())),
    };
    let swap = Swap {
        allow_service_change: flags.allow_service_change,
        plugin,
        share: flags.share.map(|percent| Share {
            percent,
            promote_after_seconds: flags.promote_after,
        }),
    };
    change(flags.of, async |client, driver| {
        client.swap(driver, &swap).await
    })
}

fn absolute(file: &Path) -> Result<String, Fault> {
    let path = std::path::absolute(file).map_err(|error| wrong("--file", file, error))?;
    let path = path.into_os_string().into_string();
    path.map_err(|name| wrong("--file", Path::new(&name), "is not UTF-8"))
}

fn percent(value: &str) -> Result<u8, String> {
    let number = value.strip_suffix('%').unwrap_or(value);
    let percent = number.parse().ok().filter(|it| (1..=100).contains(it));
    percent.ok_or_else(|| "not a percentage from 1 to 100".to_owned())
}

fn reference(value: &str) -> Result<Reference, String> {
    Reference::parse(value).map_err(|invalid| invalid.to_string())
}

/// Rolls back to an earlier version.
pub(crate) fn roll_back(flags: RollbackFlags) -> Result<(), Fault> {
    let RollbackFlags { of, to, from } = flags;
    let rollback = Rollback { to, from };
    change(of, async |client, driver| {
        client.rollback(driver, &rollback).await
    })
}

/// Keeps the serving version.
pub(crate) fn pause(flags: PauseFlags) -> Result<(), Fault> {
    change(flags.of, async |client, driver| client.pause(driver).await)
}

/// Follows the document again, and accepts new work.
pub(crate) fn resume(flags: ResumeFlags) -> Result<(), Fault> {
    change(flags.of, async |client, driver| client.resume(driver).await)
}

/// Removes a driver.
pub(crate) fn delete(flags: DeleteFlags) -> Result<(), Fault> {
    let delete = Delete { force: flags.force };
    change(flags.of, async |client, driver| {
        client.delete(driver, &delete).await
    })
}

/// Requests a change, and prints its result.
fn change(
    flags: DriverFlags,
    request: impl AsyncFnOnce(&Client, &str) -> Result<Done, ControlError>,
) -> Result<(), Fault> {
    let text = |done: &Done| {
        let mut text = format!("{}\n", visible::line(&done.said));
        for warning in &done.warnings {
            text.push_str(&format!("warning: {}\n", visible::line(warning)));
        }
        text
    };
    flags.answer(request, text).map(drop)
}

/// Stops accepting new work.
pub(crate) fn drain(flags: DrainFlags) -> Result<(), Fault> {
    let drain = Drain {
        reason: flags.reason,
        patience_seconds: flags.patience,
    };
    let (driver, limit) = (flags.of.driver.clone(), flags.patience);
    let drained = flags.of.answer(
        async |client, driver| client.drain(driver, &drain).await,
        |drained| text(&driver, drained),
    )?;
    match drained.calls_in_flight {
        0 => Ok(()),
        calls => Err(Fault::Failed(format!(
            "calls of {driver} have not ended: after {limit} s {calls} still run; it takes no new work; repeat the command"
        ))),
    }
}

fn text(driver: &str, drained: &Drained) -> String {
    let volumes = match drained.volumes_in_use {
        Some(0) => "no volume is in use here".to_owned(),
        Some(1) => "1 volume stays in use here".to_owned(),
        Some(volumes) => format!("{volumes} volumes stay in use here"),
        None => "the number of volumes in use is unknown".to_owned(),
    };
    format!("{driver} takes no new work; {volumes}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_read_with_its_sign_or_without() {
        for (text, percent) in [("1", 1), ("10", 10), ("10%", 10), ("100", 100)] {
            assert_eq!(super::percent(text).ok(), Some(percent), "{text}");
        }
    }

    #[test]
    fn what_is_no_percentage_is_rejected() {
        for text in ["", "%", "0", "0%", "101", "1.5", "-1", "10 %", "300", "ten"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
