//! Conversions from the host's state to the types of the admin socket.

use crate::host::HostOptions;
use crate::host::backends::{Seen, location};
use crate::readiness::Report;
use wasmount_control::messages::{Done, DriverReport, DriverStatus, Fault, HostStatus, Volume};
use wasmount_control::{Refusal, RefusalKind};
use wasmount_core::driver::RecentFault;
use wasmount_core::mounter::VolumeInUse;
use wasmount_core::names::DriverName;
use wasmount_core::status::{Drained, RefusalKind as Why, Share};
use wasmount_core::text::chain;
use wasmount_versions::Outcome;

/// The host, with the state of its drivers.
pub(in crate::host) fn host(
    options: &HostOptions,
    report: &Report,
    drivers: Vec<DriverReport>,
) -> HostStatus {
    HostStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        node: options.node_id.to_string(),
        role: options.role.as_str().to_owned(),
        not_ready: report.of_host(),
        drivers,
    }
}

/// One driver.
pub(in crate::host) fn driver(
    name: &DriverName,
    seen: &Seen,
    report: &Report,
    volumes_in_use: Option<u64>,
) -> DriverReport {
    let status = seen.reconciler.status();
    let desired = seen.desired.borrow().clone();
    let known = report.drivers.get(name);
    DriverReport {
        driver: name.to_string(),
        backend: desired.document.name,
        document: location(&desired.from),
        reason: reason(&status, seen),
        not_ready: known.and_then(|known| report.not_ready(known)),
        calls_in_flight: seen.driver.calls_in_flight() as u64,
        volumes_in_use,
        faults: seen.driver.fault_counts().values().sum(),
        last_fault: seen.driver.last_fault().map(fault),
        status: DriverStatus {
            phase: status.shown_phase(),
            ..status
        },
    }
}

/// All reasons why it does not match its document.
fn reason(status: &DriverStatus, seen: &Seen) -> Option<String> {
    let held = status.held.as_ref().map(|held| {
        let (number, reason) = (held.number, &held.reason);
        format!("held at version {number} ({reason}); `wasmount swap` ends the hold")
    });
    let drained = status
        .drained
        .as_ref()
        .map(|Drained { reason, since }| format!("takes no new work since {since}: {reason}"));
    let share = status.share.as_ref().map(|share| {
        let Share { number, percent, since, .. } = share;
        let promotion = share.promote_after_seconds.map_or_else(String::new, |seconds| {
            format!(", and all of them after {seconds} s without a fault")
        });
        format!(
            "version {number} serves {percent} % of the volumes since {since}{promotion}: the document is not followed until `wasmount swap --share 100` or `wasmount rollback`"
        )
    });
    let leaving = seen.driver.is_leaving();
    let leaving = leaving.then(|| "takes no new work: it is being deleted".to_owned());
    let trouble = seen.trouble.as_ref();
    let trouble = trouble.map(|reason| format!("the document is not applied: {reason}"));
    let all: Vec<_> = [leaving, drained, share, held, trouble]
        .into_iter()
        .flatten()
        .collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// A fault.
pub(in crate::host) fn fault(RecentFault { at, fault }: RecentFault) -> Fault {
    Fault {
        at,
        rpc: fault.rpc.name().to_owned(),
        kind: fault.kind.as_str().to_owned(),
        plugin: fault.plugin.as_ref().map(ToString::to_string),
    }
}

/// A volume that is in use.
pub(in crate::host) fn volume(volume: VolumeInUse) -> Volume {
    Volume {
        id: volume.volume.to_string(),
        staged: volume.staging_path,
        published: volume.target_paths,
    }
}

/// The result of a swap or a rollback.
pub(super) fn done(outcome: Outcome) -> Done {
    let (number, plugin) = (outcome.now.number, outcome.now.label());
    let [proving, switching, writing] = [outcome.proving, outcome.switching, outcome.writing]
        .map(|time| time.as_secs_f64() * MILLISECONDS);
    let times = format!(
        "proved in {proving:.1} ms, switched in {switching:.1} ms, of which the disk took {writing:.1} ms"
    );
    let said = match (outcome.changed, outcome.before) {
        (changed, Some(rest)) if let Some(percent) = outcome.share => {
            let verb = if changed { "serves" } else { "serves already" };
            format!(
                "version {number} ({plugin}) {verb} {percent} % of the volumes, version {rest} the others; {times}"
            )
        }
        (false, _) => format!("version {number} ({plugin}) serves already"),
        (true, None) => format!("version {number} ({plugin}) serves; {times}"),
        (true, Some(before)) => {
            format!("version {number} ({plugin}) serves in place of version {before}; {times}")
        }
    };
    Done {
        said,
        changed: outcome.changed,
        warnings: outcome.warnings,
        version: Some(outcome.now),
    }
}

/// Milliseconds in a second.
const MILLISECONDS: f64 = 1000.0;

/// A change without further outcome.
pub(super) fn done_with(text: String, changed: bool, seen: &Seen) -> Done {
    Done {
        said: text,
        changed,
        version: seen.reconciler.status().version,
        warnings: Vec::new(),
    }
}

/// Why a version does not serve.
pub(super) fn refusal(refusal: wasmount_versions::Refusal) -> Refusal {
    let reason = refusal.kind();
    let kind = match reason {
        Why::History => RefusalKind::NotFound,
        Why::Overtaken => RefusalKind::Busy,
        Why::Disk => RefusalKind::Failed,
        _ => RefusalKind::Refused,
    };
    Refusal::new(kind, format!("{} ({})", chain(&refusal), reason.as_str()))
}
