//! Applies a driver's `CSIDriver` object, once for each plugin that is activated. If it is already right, nothing is written, whichever host or person
//! wrote it: a hundred hosts of one DaemonSet need the same object.
//!
//! The object is not watched: during a rollout of documents two hosts of one driver may need different objects, and would overwrite each other's
//! endlessly. A later change by a person is corrected at the next start of a host.

use crate::FIELD_MANAGER;
use crate::error::KubernetesError;
use crate::events::{About, Events};
use crate::request::answered;
use k8s_openapi::api::storage::v1::{CSIDriver, CSIDriverSpec};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::future::pending;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Fields that the API server never allows to change (`ValidateCSIDriverUpdate`).
const IMMUTABLE: [&str; 2] = ["attachRequired", "volumeLifecycleModes"];
/// Pause after the first failure; doubled after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause while the API server does not answer: after an outage the hosts of a cluster must not all send requests at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Pause after a rejection: only a person can resolve it, and each attempt costs the API server one read.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// Applies the desired object whenever it changes; never returns. `report` is called when the object was applied, and with each new error: with why
/// the object contradicts the driver, if it does. Kubernetes acts on it, so the driver's volumes would not be mounted as the driver expects.
pub async fn keep(
    client: Client,
    events: Events,
    mut desired: watch::Receiver<Option<CSIDriver>>,
    report: impl Fn(Option<String>) + Send,
) {
    loop {
        let object = desired.borrow_and_update().clone();
        let work = async {
            if let Some(object) = object {
                until_applied(&client, &events, &object, &report).await;
            }
            pending::<()>().await;
        };
        tokio::select! {
            () = work => {}
            changed = desired.changed() => if changed.is_err() { return pending().await; },
        }
    }
}

async fn until_applied(
    client: &Client,
    events: &Events,
    object: &CSIDriver,
    report: &(impl Fn(Option<String>) + Send),
) {
    let name = object.name_any();
    let about = About::driver(&name);
    let mut pause = FIRST_PAUSE;
    let mut last_reason = String::new();
    let mut contradicted = None;
    loop {
        let error = match attempt(client, &name, object).await {
            Ok(wrote) => {
                report(None);
                tracing::info!(driver = name, wrote, "CSIDriver object up to date");
                return;
            }
            Err(error) => error,
        };
        let reason = error.describe();
        if reason != last_reason {
            // An API server that does not answer gives no new information about the object.
            if !error.is_unavailable() {
                let contradicts = matches!(error, KubernetesError::Contradiction { .. });
                contradicted = contradicts.then(|| reason.clone());
            }
            report(contradicted.clone());
            tracing::warn!(driver = name, reason, "CSIDriver object not written");
            if !error.is_unavailable() {
                events
                    .warn(&about, "CSIDriverNotApplied", "Apply", reason.clone())
                    .await;
            }
            last_reason = reason;
        }
        if error.is_unavailable() {
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        } else {
            sleep(REFUSED_PAUSE).await;
        }
    }
}

/// Applies the object. Returns whether something was written. It reads first: for most hosts the object is already right.
async fn attempt(
    client: &Client,
    name: &str,
    desired: &CSIDriver,
) -> Result<bool, KubernetesError> {
    let api: Api<CSIDriver> = Api::all(client.clone());
    let live = answered(format!("read CSIDriver {name}"), api.get_opt(name)).await?;
    let Some(object) = change(live.as_ref(), desired)? else {
        return Ok(false);
    };
    // Not forced: a field of another manager is that manager's decision.
    let (parameters, patch) = (PatchParams::apply(FIELD_MANAGER), Patch::Apply(&object));
    let applied = api.patch(name, &parameters, &patch);
    match answered(format!("apply CSIDriver {name}"), applied).await {
        Ok(_) => Ok(true),
        Err(error) => Err(owned_by_others(name, error)),
    }
}

/// An error that names the managers of fields that differ, if that is the reason.
fn owned_by_others(name: &str, error: KubernetesError) -> KubernetesError {
    match error.rejection() {
        Some(status) if status.is_conflict() => KubernetesError::Contradiction {
            driver: name.to_owned(),
            what: format!(
                "{}; let that manager change it or give it up, or serve with `--csidriver off`",
                status.message
            ),
        },
        _ => error,
    }
}

/// The object to apply; none: `live` is right.
pub(super) fn change(
    live: Option<&CSIDriver>,
    desired: &CSIDriver,
) -> Result<Option<CSIDriver>, KubernetesError> {
    let Some(live) = live else {
        return Ok(Some(desired.clone()));
    };
    let mut desired = desired.clone();
    keep_order(&live.spec, &mut desired.spec);
    let (live_fields, desired_fields) = (fields(&live.spec), fields(&desired.spec));
    let differing: Vec<_> = desired_fields
        .iter()
        .filter(|(name, value)| live_fields.get(*name) != Some(*value))
        .collect();
    let fixed: Vec<_> = differing
        .iter()
        .filter(|(name, _)| IMMUTABLE.contains(&name.as_str()))
        .map(|(name, value)| {
            let live = live_fields.get(*name).unwrap_or(&Value::Null);
            format!("`{name}` is {live}, wanted {value}")
        })
        .collect();
    if !fixed.is_empty() {
        let (driver, fields) = (live.name_any(), fixed.join("; "));
        let what = format!(
            "{fields}; these fields are immutable. Stop the pods that use its volumes, `kubectl delete csidriver {driver}`, and the host \
             writes it anew"
        );
        return Err(KubernetesError::Contradiction { driver, what });
    }
    let has_removed_field = owned(live)
        .iter()
        .any(|name| !desired_fields.contains_key(name.as_str()));
    Ok((!differing.is_empty() || has_removed_field).then_some(desired))
}

/// The modes are a set, but the API server's check of immutability compares them as a list.
fn keep_order(live: &CSIDriverSpec, desired: &mut CSIDriverSpec) {
    let set = |spec: &CSIDriverSpec| {
        let modes = spec.volume_lifecycle_modes.iter().flatten();
        modes.cloned().collect::<BTreeSet<_>>()
    };
    if set(live) == set(desired) {
        desired.volume_lifecycle_modes = live.volume_lifecycle_modes.clone();
    }
}

fn fields(spec: &CSIDriverSpec) -> Map<String, Value> {
    match serde_json::to_value(spec) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Which fields of `spec` an earlier host applied (`FieldsV1`: a key for each field, after `f:`).
fn owned(live: &CSIDriver) -> BTreeSet<String> {
    let entries = live.managed_fields().iter();
    entries
        .filter(|entry| {
            entry.manager.as_deref() == Some(FIELD_MANAGER)
                && entry.operation.as_deref() == Some("Apply")
        })
        .filter_map(|entry| entry.fields_v1.as_ref()?.0.get("f:spec")?.as_object())
        .flat_map(|spec| spec.keys().filter_map(|key| key.strip_prefix("f:")))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::api_double::{Reply, api_double};
    use http::StatusCode;
    use serde_json::json;
    use std::sync::{Arc, Mutex};

    fn object(attach_required: bool) -> Value {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": { "name": "a.b" },
            "spec": { "attachRequired": attach_required },
        })
    }

    /// The statuses that are reported, until `last` accepts them as complete.
    async fn reports(
        client: Client,
        last: impl Fn(&[Option<String>]) -> bool,
    ) -> Vec<Option<String>> {
        let desired = serde_json::from_value(object(true)).unwrap();
        let (_sender, desired) = watch::channel(Some(desired));
        let reports = Arc::new(Mutex::new(Vec::new()));
        let events = Events::new(Some(client.clone()), "n".to_owned());
        let kept = reports.clone();
        let report = move |status| kept.lock().unwrap().push(status);
        let ended = async {
            while !last(&reports.lock().unwrap()) {
                sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            () = keep(client, events, desired, report) => {}
            () = ended => {}
        }
        reports.lock().unwrap().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_goes_away_ends_no_contradiction() {
        let reads = Mutex::new(0);
        let (client, _) = api_double(move |request| {
            if request.method != http::Method::GET {
                return Reply::Object(request.body.clone());
            }
            let mut reads = reads.lock().unwrap();
            *reads += 1;
            match *reads {
                1 => Reply::Object(object(false)),
                2 => Reply::Failure(StatusCode::SERVICE_UNAVAILABLE),
                3 => Reply::Never,
                _ => Reply::Object(object(true)),
            }
        });
        let applied = |reports: &[Option<String>]| reports.last().is_some_and(Option::is_none);
        let reports = reports(client, applied).await;
        let (end, before) = reports.split_last().unwrap();
        assert_eq!(*end, None);
        assert_eq!(before.len(), 3, "{before:?}");
        for contradicted in before {
            let text = contradicted.as_deref().unwrap();
            assert!(text.contains("`attachRequired` is false, wanted true"));
        }
    }
}
