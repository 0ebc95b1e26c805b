//! Brings a driver's `CSIDriver` object to what the plugin in use needs, once for each plugin.
//!
//! The object is not watched: while documents are rolled out two hosts of one driver may want different objects, and would undo each other's for
//! ever. What a person changes later is met at the next start of a host.

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
/// Longest pause while the API server does not answer: an outage must not end with all hosts of a cluster asking at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Pause after a refusal: only a person can change it, and each attempt costs the API server one read.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// How the object of a driver stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsiDriverStatus {
    /// It says what the plugin in use needs.
    pub applied: bool,
    /// Kubernetes acts on an object that says otherwise, so the driver's volumes would not be mounted as it expects: why.
    pub contradicted: Option<String>,
}

/// Applies what is wanted, again whenever that changes; never returns. `tell` is called after each attempt that changes the answer.
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
            // Of the object itself an API server that is away says nothing new.
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

/// Whether something was written. It reads first: most hosts find the object right.
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
            // Not forced: what another manager has set is somebody's decision.
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

    /// What is told until `last` says that this was the last of it.
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
