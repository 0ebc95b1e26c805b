//! Brings a driver's `CSIDriver` object to what the plugin in use needs, once for each plugin. Apart from the decision (`change`) because
//! here are the API server, the retries and who is told.
//!
//! The object is not watched: while documents are rolled out two hosts of one driver may want different objects, and would undo each other's
//! for ever. What a person changes later is met at the next start of a host.

use super::{Change, change};
use crate::FIELD_MANAGER;
use crate::error::KubernetesError;
use crate::events::{About, Events};
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use std::error::Error;
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
    loop {
        let error = match attempt(client, &name, object).await {
            Ok(wrote) => {
                tell(CsiDriverStatus {
                    applied: true,
                    contradicted: None,
                });
                tracing::info!(
                    driver = name,
                    wrote,
                    "the CSIDriver object is as it should be"
                );
                return;
            }
            Err(error) => error,
        };
        let reason = in_words(&error);
        if reason != said {
            tell(CsiDriverStatus {
                applied: false,
                contradicted: error.contradicts().then(|| reason.clone()),
            });
            tracing::warn!(driver = name, reason, "the CSIDriver object is not written");
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
    let read = api.get_opt(name).await;
    let live = read.map_err(KubernetesError::api(format!("read CSIDriver {name}")))?;
    match change(live.as_ref(), wanted) {
        Change::Nothing => Ok(false),
        Change::Immutable { fields } => Err(KubernetesError::Immutable {
            driver: name.to_owned(),
            fields: fields.join("; "),
        }),
        Change::Apply(object) => {
            // Not forced: what another manager has set is somebody's decision.
            let params = PatchParams::apply(FIELD_MANAGER);
            let applied = api.patch(name, &params, &Patch::Apply(&object)).await;
            applied.map_err(|error| match error {
                kube::Error::Api(status) if status.is_conflict() => {
                    KubernetesError::OwnedByOthers {
                        driver: name.to_owned(),
                        conflicts: status.message.clone(),
                    }
                }
                error => KubernetesError::api(format!("apply CSIDriver {name}"))(error),
            })?;
            Ok(true)
        }
    }
}

fn in_words(error: &KubernetesError) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !words.contains(&text) {
            words.push_str(": ");
            words.push_str(&text);
        }
        cause = error.source();
    }
    words
}
