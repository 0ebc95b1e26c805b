//! Reports faults of plugins to the owner of the volume: an event on the Pod, the PersistentVolumeClaim or the VolumeSnapshot.
//!
//! kubelet and the sidecars write the error message into their own events (`FailedMount`, `ProvisioningFailed`); it is not repeated. A note contains
//! no text from a guest or a request, except the plugin's name. No call waits for an event.

use crate::event_rate_limiter::EventRateLimiter;
use crate::events::{About, Events};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use uuid::Uuid;
use wasmount_core::attributes::Attributes;
use wasmount_core::fault::{FaultKind, Origin, PluginFault};
use wasmount_core::text::short_digest;

/// Length of a uid in Kubernetes (RFC 9562, "UUID Format").
const UID_LENGTH: usize = 36;

/// Keys that kubelet adds to a volume context (CSIDriver `podInfoOnMount`).
const POD: [&str; 3] = [
    "csi.storage.k8s.io/pod.namespace",
    "csi.storage.k8s.io/pod.name",
    "csi.storage.k8s.io/pod.uid",
];
/// Keys that external-provisioner adds to parameters (`--extra-create-metadata`).
const CLAIM: [&str; 2] = [
    "csi.storage.k8s.io/pvc/namespace",
    "csi.storage.k8s.io/pvc/name",
];
/// Keys that csi-snapshotter adds to parameters (`--extra-create-metadata`).
const SNAPSHOT: [&str; 2] = [
    "csi.storage.k8s.io/volumesnapshot/namespace",
    "csi.storage.k8s.io/volumesnapshot/name",
];

/// Reports each fault of one driver, as long as the driver exists. A fault without a known object appears in the log and the metrics only.
pub async fn report_plugin_faults(events: Events, mut faults: Receiver<Arc<PluginFault>>) {
    let mut repeated = EventRateLimiter::new(Instant::now());
    loop {
        let fault = match faults.recv().await {
            Ok(fault) => fault,
            Err(RecvError::Lagged(missed)) => {
                tracing::debug!(missed, "faults of a plugin are reported too slowly");
                continue;
            }
            Err(RecvError::Closed) => return,
        };
        let (Some(about), Some((reason, note))) = (about(&fault.origin), described(&fault)) else {
            continue;
        };
        // Faults of another version are other events.
        let digest = fault.plugin.as_ref().map_or("", |plugin| &plugin.digest);
        let what = format!("{reason} {digest}");
        if !repeated.may_write(&about, &what, Instant::now()) {
            continue;
        }
        let action = fault.rpc.name();
        if !events.warn(&about, reason, action, note).await {
            repeated.not_written(&about, &what);
        }
    }
}

/// The object that the volume belongs to, if the request names one.
fn about(origin: &Origin) -> Option<About> {
    let attributes = &origin.attributes;
    if let Some([namespace, name, uid]) = all(attributes, POD) {
        return Some(About::object("v1", "Pod", Some(namespace), name, Some(uid)));
    }
    let (api_version, kind, [namespace, name]) = match all(attributes, SNAPSHOT) {
        Some(names) => ("snapshot.storage.k8s.io/v1", "VolumeSnapshot", names),
        None => ("v1", "PersistentVolumeClaim", all(attributes, CLAIM)?),
    };
    let uid = origin.name.as_deref().and_then(uid_in);
    Some(About::object(api_version, kind, Some(namespace), name, uid))
}

fn all<const N: usize>(attributes: &Attributes, keys: [&str; N]) -> Option<[String; N]> {
    let values: Vec<String> = keys
        .iter()
        .filter_map(|key| attributes.get(key).map(str::to_owned))
        .collect();
    values.try_into().ok()
}

/// The uid of the object for which a sidecar makes the request. It is the suffix of the name that the sidecar generates (`pvc-<uid>`,
/// `snapshot-<uid>`). Without it `kubectl describe` does not show an event.
fn uid_in(name: &str) -> Option<String> {
    let start = name.len().checked_sub(UID_LENGTH)?;
    let uid = name.get(start..)?;
    Uuid::try_parse(uid).is_ok().then(|| uid.to_owned())
}

/// Reason and note of the event. None for a fault that needs no event: a backend that is busy is called again, and then is not.
fn described(fault: &PluginFault) -> Option<(&'static str, String)> {
    let (driver, rpc) = (&fault.driver, fault.rpc);
    let limit = fault.limit.as_deref().unwrap_or("a limit");
    let over = format!("exceeded {limit}");
    let higher = "raise the limit, or use another version of the plugin";
    let another = "use another version of the plugin";
    let not_loaded = format!("`/readyz/{driver}` and the host's log say why");
    let (reason, happened, mend) = match fault.kind {
        FaultKind::Trapped => ("PluginTrapped", "ended in a trap", another),
        FaultKind::OverLimit => ("PluginOverLimit", over.as_str(), higher),
        FaultKind::OutOfTime => ("PluginOutOfTime", over.as_str(), higher),
        FaultKind::BadAnswer => (
            "PluginBadAnswer",
            "gave an answer that is not valid",
            another,
        ),
        FaultKind::Refused => ("PluginRefused", "requested what no plugin may use", another),
        FaultKind::NotGranted => (
            "PluginNotGranted",
            "requested what it was not granted",
            "`spec.grants` has to name it, or must not",
        ),
        FaultKind::NotLoaded => (
            "PluginNotLoaded",
            "could not be loaded",
            not_loaded.as_str(),
        ),
        FaultKind::Busy => return None,
    };
    let plugin = fault.plugin.as_ref().map(|plugin| {
        let digest = short_digest(&plugin.digest);
        format!("The plugin {} {} ({digest})", plugin.name, plugin.version)
    });
    let plugin = plugin.as_deref().unwrap_or("The plugin");
    let note = format!(
        "{plugin} {happened} in {rpc}. The volume's request is not at fault and is retried: notify the administrator of the \
         StorageBackend for driver {driver}; {mend}."
    );
    Some((reason, note))
}

#[cfg(test)]
mod tests;
