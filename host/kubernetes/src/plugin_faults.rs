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
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::PluginLabel;
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
pub async fn tell_plugin_faults(events: Events, mut faults: Receiver<Arc<PluginFault>>) {
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
        let (Some(about), Some(reason)) = (about(&fault.origin), reason(fault.kind)) else {
            continue;
        };
        // Faults of another version are other events.
        let digest = fault.plugin.as_ref().map_or("", |plugin| &plugin.digest);
        let what = format!("{reason} {digest}");
        if !repeated.may_say(&about, &what, Instant::now()) {
            continue;
        }
        let action = fault.rpc.name();
        if !events.warn(&about, reason, action, note(&fault)).await {
            repeated.not_said(&about, &what);
        }
    }
}

/// The object that the volume belongs to, if the request names one.
fn about(origin: &Origin) -> Option<About> {
    let words = &origin.words;
    if let Some([namespace, name, uid]) = all(words, POD) {
        return Some(About::Pod {
            namespace,
            name,
            uid,
        });
    }
    let uid = origin.name.as_deref().and_then(uid_in);
    if let Some([namespace, name]) = all(words, SNAPSHOT) {
        return Some(About::Snapshot {
            namespace,
            name,
            uid,
        });
    }
    let [namespace, name] = all(words, CLAIM)?;
    Some(About::Claim {
        namespace,
        name,
        uid,
    })
}

fn all<const N: usize>(words: &Attributes, keys: [&str; N]) -> Option<[String; N]> {
    let values: Vec<String> = keys
        .iter()
        .filter_map(|key| words.get(key).map(str::to_owned))
        .collect();
    values.try_into().ok()
}

/// The uid of the object for which a sidecar makes the request. It is the suffix of the name that the sidecar generates (`pvc-<uid>`,
/// `snapshot-<uid>`). Without it `kubectl describe` does not show an event.
fn uid_in(name: &str) -> Option<String> {
    let start = name.len().checked_sub(UID_LENGTH)?;
    let uid = name.get(start..)?;
    let is_uid = uid.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    is_uid.then(|| uid.to_owned())
}

/// None for a fault that needs no event: a backend that is busy is called again, and then is not.
fn reason(kind: FaultKind) -> Option<&'static str> {
    Some(match kind {
        FaultKind::Trapped => "PluginTrapped",
        FaultKind::OverLimit => "PluginOverLimit",
        FaultKind::OutOfTime => "PluginOutOfTime",
        FaultKind::BadAnswer => "PluginBadAnswer",
        FaultKind::Refused => "PluginRefused",
        FaultKind::NotGranted => "PluginNotGranted",
        FaultKind::NotLoaded => "PluginNotLoaded",
        FaultKind::Busy => return None,
    })
}

fn note(fault: &PluginFault) -> String {
    let PluginFault {
        driver,
        rpc,
        kind,
        plugin,
        limit,
        origin: _,
    } = fault;
    let plugin = plugin
        .as_ref()
        .map_or_else(|| "The plugin".to_owned(), shortly);
    let limit = limit.as_deref().unwrap_or("a limit");
    let another = "another version of the plugin mends it";
    let over = format!("went over {limit}");
    let not_loaded = format!("`/readyz/{driver}` and the host's log say why");
    let (happened, mend) = match kind {
        FaultKind::Trapped => ("ended in a trap", another),
        FaultKind::OverLimit | FaultKind::OutOfTime | FaultKind::Busy => (
            over.as_str(),
            "a higher limit may mend it, or another version of the plugin",
        ),
        FaultKind::BadAnswer => ("gave an answer that is not valid", another),
        FaultKind::Refused => ("asked for what no plugin may have", another),
        FaultKind::NotGranted => (
            "asked for what it was not granted",
            "`spec.grants` has to name it, or must not",
        ),
        FaultKind::NotLoaded => ("could not be loaded", not_loaded.as_str()),
    };
    format!(
        "{plugin} {happened} in {rpc}. This is no fault of the volume's request, which is tried again: tell the administrator of the \
         StorageBackend for driver {driver}; {mend}."
    )
}

fn shortly(plugin: &PluginLabel) -> String {
    let PluginLabel {
        name,
        version,
        digest,
    } = plugin;
    let digest = short_digest(digest);
    format!("The plugin {name} {version} ({digest})")
}

#[cfg(test)]
mod tests;
