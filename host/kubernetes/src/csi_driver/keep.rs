//! Applies a driver's `CSIDriver` object, once for each plugin that is activated.
//!
//! The object is not watched: during a rollout of documents two hosts of one driver may need different objects, and would overwrite each other's
//! endlessly. A later change by a person is corrected at the next start of a host.

use super::{Change, change};
use crate::FIELD_MANAGER;
use crate::error::KubernetesError;
use crate::events::{About, Events};
use crate::request::answered;
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use std::future::pending;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Pause after the first failure; doubled after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause while the API server does not answer: after an outage the hosts of a cluster must not all send requests at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Pause after a rejection: only a person can resolve it, and each attempt costs the API server one read.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// The state of a driver's `CSIDriver` object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsiDriverStatus {
    /// It has what the plugin in use needs.
    pub applied: bool,
    /// Why the object contradicts the driver: Kubernetes acts on it, so the driver's volumes would not be mounted as the driver expects.
    pub contradicted: Option<String>,
}

/// Applies the wanted object whenever that changes; never returns. `tell` is called after each attempt that changes the status.
pub async fn keep(
    client: Client,
    events: Events,
    mut wanted: watch::Receiver<Option<CSIDriver>>,
    tell: impl Fn(CsiDriverStatus) + Send,
) {
    loop {
        let object = wanted.borrow_and_update().clone();
        let work = async {
            if let Some(object) = object {
                until_applied(&client, &events, &object, &tell).await;
            }
            pending::<()>().await;
        };
        tokio::select! {
            () = work => {}
            changed = wanted.changed() => if changed.is_err() { return pending().await; },
        }
    }
}

async fn until_applied(
    client: &Client,
    events: &Events,
    object: &CSIDriver,
    tell: &(impl Fn(CsiDriverStatus) + Send),
) {
    let name = object.metadata.name.clone().unwrap_or_default();
    let about = About::Driver { name: name.clone() };
    let mut pause = FIRST_PAUSE;
    let mut said = String::new();
    let mut contradicted = None;
    loop {
        let error = match attempt(client, &name, object).await {
            Ok(wrote) => {
                tell(CsiDriverStatus {
                    applied: true,
                    contradicted: None,
                });
                tracing::info!(driver = name, wrote, "CSIDriver object up to date");
                return;
            }
            Err(error) => error,
        };
        let reason = error.in_words();
        if reason != said {
            // An API server that does not answer gives no new information about the object.
            if !error.is_unavailable() {
                contradicted = error.contradicts().then(|| reason.clone());
            }
            tell(CsiDriverStatus {
                applied: false,
                contradicted: contradicted.clone(),
            });
            tracing::warn!(driver = name, reason, "CSIDriver object not written");
            if !error.is_unavailable() {
                events
                    .warn(&about, "CSIDriverNotApplied", "Apply", reason.clone())
                    .await;
            }
            said = reason;
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
async fn attempt(client: &Client, name: &str, wanted: &CSIDriver) -> Result<bool, KubernetesError> {
    let api: Api<CSIDriver> = Api::all(client.clone());
    let live = answered(format!("read CSIDriver {name}"), api.get_opt(name)).await?;
    match change(live.as_ref(), wanted) {
        Change::Nothing => Ok(false),
        Change::Immutable { fields } => Err(KubernetesError::Immutable {
            driver: name.to_owned(),
            fields: fields.join("; "),
        }),
        Change::Apply(object) => {
            // Not forced: a field of another manager is that manager's decision.
            let params = PatchParams::apply(FIELD_MANAGER);
            let patch = Patch::Apply(&object);
            let applied = api.patch(name, &params, &patch);
            match answered(format!("apply CSIDriver {name}"), applied).await {
                Ok(_) => Ok(true),
                Err(error) => Err(owned_by_others(name, &error).unwrap_or(error)),
            }
        }
    }
}

fn owned_by_others(name: &str, error: &KubernetesError) -> Option<KubernetesError> {
    let KubernetesError::Api { source, .. } = error else {
        return None;
    };
    match source.as_ref() {
        kube::Error::Api(status) if status.is_conflict() => Some(KubernetesError::OwnedByOthers {
            driver: name.to_owned(),
            conflicts: status.message.clone(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_double::{Reply, api_double};
    use http::StatusCode;
    use serde_json::{Value, json};
    use std::sync::{Arc, Mutex};

    fn object(attach_required: bool) -> Value {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": { "name": "a.b" },
            "spec": { "attachRequired": attach_required },
        })
    }

    /// The statuses that are reported, until `last` accepts them as complete.
    async fn told(
        client: Client,
        last: impl Fn(&[CsiDriverStatus]) -> bool,
    ) -> Vec<CsiDriverStatus> {
        let wanted = serde_json::from_value(object(true)).unwrap();
        let (_wants, wanted) = watch::channel(Some(wanted));
        let told = Arc::new(Mutex::new(Vec::new()));
        let events = Events::new(Some(client.clone()), "n".to_owned());
        let kept = told.clone();
        let tell = move |status| kept.lock().unwrap().push(status);
        let ended = async {
            while !last(&told.lock().unwrap()) {
                sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            () = keep(client, events, wanted, tell) => {}
            () = ended => {}
        }
        told.lock().unwrap().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_goes_away_ends_no_contradiction() {
        let reads = Mutex::new(0);
        let (client, _) = api_double(move |asked| {
            if asked.method != http::Method::GET {
                return Reply::Object(asked.body.clone());
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
        let applied = |told: &[CsiDriverStatus]| told.last().is_some_and(|it| it.applied);
        let told = told(client, applied).await;
        let (end, before) = told.split_last().unwrap();
        assert_eq!(end.contradicted, None);
        assert_eq!(before.len(), 3, "{before:?}");
        for status in before {
            let words = status.contradicted.as_deref().unwrap();
            assert!(words.contains("`attachRequired` is false, wanted true"));
        }
    }
}
