//! One round over all backends: writes each status that has changed, handles the finalizers, and deletes reports of hosts that no longer exist.
//!
//! The decisions are those of `summary`, and the few rules here.

use super::super::object::{Leaving, WantedBackend, wanted};
use super::super::report::{HEARTBEAT, ReportSpec, is_of};
use super::super::status::Status;
use super::super::summary::{Heard, Subject, summary};
use super::super::watch::Objects;
use super::super::{API_VERSION, BackendObject, FINALIZER, KIND, Phase, backends, reports};
use super::{Known, Reports};
use crate::FIELD_MANAGER;
use crate::error::KubernetesError;
use crate::guarded_patch::{GuardedPatch, somebody_else_wrote};
use crate::request::answered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// A host without a report for this long is silent. Three heartbeats, and the longest pause of the rate limit.
const SILENCE: Duration = Duration::from_secs(4 * HEARTBEAT.as_secs());
/// Reports of hosts that no longer exist, handled in one round: each costs two requests.
const SILENT_AT_ONCE: usize = 20;

/// What is remembered between rounds.
pub(super) struct Round {
    client: Client,
    /// The last error of each operation: logged once.
    said: BTreeMap<String, String>,
}

/// The change of the finalizer.
#[derive(Debug, PartialEq, Eq)]
enum Finalizer {
    Leave,
    Add,
    Remove,
}

impl Round {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            said: BTreeMap::new(),
        }
    }

    /// Writes what has changed. A failed write is repeated in the next round.
    pub(super) async fn run(&mut self, there: &Objects, reports: &Reports) {
        for (name, object) in there {
            let heard = heard_of(object, reports);
            let read = wanted(object, true);
            // First: a person who sees a status may delete the object, and deletion must wait for staged volumes.
            let what = format!("the finalizer of StorageBackend {name}");
            match finalizer(object, &read, &heard) {
                Finalizer::Leave => {}
                Finalizer::Add => {
                    let done = self.finalize(object, true).await;
                    self.tell(what, done);
                }
                Finalizer::Remove => {
                    let done = self.finalize(object, false).await;
                    self.tell(what, done);
                    continue;
                }
            }
            let mut before = status(object);
            let after = summary(subject(&read), &heard, &before, Timestamp::now());
            // Conditions of other controllers are kept beside ours.
            let is_ours = |kind: &str| after.conditions.iter().any(|ours| ours.kind == kind);
            before.conditions.retain(|it| is_ours(&it.kind));
            if after != before {
                let written = self.write(name, &after).await;
                self.tell(format!("the status of StorageBackend {name}"), written);
            }
        }
        let silent = reports.iter().filter(|(_, known)| is_silent(known));
        for (name, known) in silent.take(SILENT_AT_ONCE) {
            let done = self.take_away(name, &known.report.spec).await;
            self.tell(format!("the report {name}"), done);
        }
    }

    async fn write(&self, name: &str, status: &Status) -> Result<(), KubernetesError> {
        let object = json!({
            "apiVersion": API_VERSION, "kind": KIND,
            "metadata": { "name": name }, "status": status,
        });
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &backends());
        // Forced: a host of an earlier term may have written it.
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&object);
        let applied = api.patch_status(name, &parameters, &patch);
        answered(format!("apply the status of {KIND} {name}"), applied)
            .await
            .map(drop)
    }

    async fn finalize(&self, object: &BackendObject, add: bool) -> Result<(), KubernetesError> {
        let name = object.metadata.name.clone().unwrap_or_default();
        let all = object.metadata.finalizers.clone().unwrap_or_default();
        let mut patch = GuardedPatch::of_version(&object.metadata);
        let wanted: Vec<String> = if add {
            all.into_iter().chain([FINALIZER.to_owned()]).collect()
        } else {
            all.into_iter().filter(|it| it != FINALIZER).collect()
        };
        patch.add(["metadata", "finalizers"], json!(wanted));
        let api = Api::<BackendObject>::all_with(self.client.clone(), &backends());
        let parameters = PatchParams::default();
        let patch = patch.into_patch();
        let patched = api.patch(&name, &parameters, &patch);
        match answered(format!("patch {KIND} {name}"), patched).await {
            // The watch reports the other change, and causes the next round.
            Err(KubernetesError::Api { source, .. }) if somebody_else_wrote(&source) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Deletes the report of a host that no longer has a Node, or never had one. A host that returns writes it again.
    async fn take_away(&self, name: &str, spec: &ReportSpec) -> Result<(), KubernetesError> {
        if spec.on_node {
            let nodes = Api::<Node>::all(self.client.clone());
            let what = format!("read Node {}", spec.host);
            if answered(what, nodes.get_metadata_opt(&spec.host))
                .await?
                .is_some()
            {
                return Ok(());
            }
        }
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &reports());
        let parameters = DeleteParams::default();
        match answered(format!("delete {name}"), api.delete(name, &parameters)).await {
            Err(KubernetesError::Api { source, .. }) if somebody_else_wrote(&source) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    fn tell(&mut self, what: String, outcome: Result<(), KubernetesError>) {
        let Err(error) = outcome else {
            self.said.remove(&what);
            return;
        };
        let reason = error.in_words();
        if self.said.get(&what) != Some(&reason) {
            tracing::warn!(what, reason, "write failed: retrying");
            self.said.insert(what, reason);
        }
    }
}

fn heard_of<'a>(object: &BackendObject, reports: &'a Reports) -> Vec<Heard<'a>> {
    let of_it = reports
        .values()
        .filter(|known| is_of(&known.report, object));
    let heard = of_it.map(|known| Heard {
        said: &known.report.spec,
        silent: is_silent(known),
    });
    heard.collect()
}

fn is_silent(known: &Known) -> bool {
    known.since.elapsed() > SILENCE
}

fn subject(read: &WantedBackend) -> Subject<'_> {
    Subject {
        generation: read.generation,
        leaving: read.leaving.is_some(),
        invalid: read.document.as_ref().err().map(String::as_str),
    }
}

/// The current status; one that cannot be parsed is written anew.
fn status(object: &BackendObject) -> Status {
    let there = object.status.as_ref();
    there
        .and_then(|status| Status::deserialize(status).ok())
        .unwrap_or_default()
}

fn finalizer(object: &BackendObject, read: &WantedBackend, heard: &[Heard<'_>]) -> Finalizer {
    let finalizers = object.metadata.finalizers.as_ref();
    let is_held = finalizers.is_some_and(|all| all.iter().any(|it| it == FINALIZER));
    // A silent host may have volumes staged: only the end of its Node, or the annotation of a person, says otherwise.
    let unused = heard
        .iter()
        .all(|it| it.said.report.phase == Phase::Removed);
    match read.leaving {
        None if !is_held => Finalizer::Add,
        Some(Leaving::AtOnce) if is_held => Finalizer::Remove,
        Some(Leaving::WhenUnused) if is_held && unused => Finalizer::Remove,
        _ => Finalizer::Leave,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::object::tests::{object, spec};
    use super::*;
    use crate::api_double::{Reply, api_double};
    use crate::storage_backend::FORCE_DELETE;

    fn report(phase: Phase) -> ReportSpec {
        let spec = json!({ "backend": "a", "host": "n", "phase": phase });
        serde_json::from_value(spec).unwrap()
    }

    fn decided(object: &BackendObject, phases: &[Phase]) -> Finalizer {
        let specs: Vec<_> = phases.iter().map(|phase| report(*phase)).collect();
        let heard: Vec<_> = specs
            .iter()
            .map(|said| Heard {
                said,
                silent: false,
            })
            .collect();
        finalizer(object, &wanted(object, true), &heard)
    }

    #[test]
    fn the_finalizer_is_there_from_the_first_round_on() {
        let mut made = object("a", spec());
        assert_eq!(decided(&made, &[]), Finalizer::Add);
        made.metadata.finalizers = Some(vec!["other".to_owned(), FINALIZER.to_owned()]);
        assert_eq!(decided(&made, &[Phase::Serving]), Finalizer::Leave);
    }

    #[test]
    fn a_deleted_backend_is_let_go_when_every_host_has_let_it_go() {
        let mut made = object("a", spec());
        let time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        made.metadata.deletion_timestamp = Some(time);
        // An object that is deleted without our finalizer does not get it.
        assert_eq!(decided(&made, &[Phase::Serving]), Finalizer::Leave);
        made.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        for (phases, finalizer) in [
            (&[][..], Finalizer::Remove),
            (&[Phase::Removed, Phase::Removed], Finalizer::Remove),
            (&[Phase::Removed, Phase::Removing], Finalizer::Leave),
            (&[Phase::Removed, Phase::Serving], Finalizer::Leave),
        ] {
            assert_eq!(decided(&made, phases), finalizer, "{phases:?}");
        }
        let forced = [(FORCE_DELETE.to_owned(), "true".to_owned())];
        made.metadata.annotations = Some(forced.into());
        assert_eq!(decided(&made, &[Phase::Removing]), Finalizer::Remove);
    }

    #[tokio::test]
    async fn the_condition_of_another_manager_is_no_reason_to_write() {
        let (client, asked) = api_double(|asked| Reply::Object(asked.body.clone()));
        let mut round = Round::new(client);
        let mut made = object("a", spec());
        made.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        let read = wanted(&made, true);
        let ours = summary(subject(&read), &[], &Status::default(), Timestamp::now());
        let mut status = serde_json::to_value(ours).unwrap();
        let other = json!({
            "type": "Audited", "status": "True", "reason": "Seen",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        status["conditions"]
            .as_array_mut()
            .unwrap()
            .insert(0, other);
        made.status = Some(status);
        let run = async |round: &mut Round, made: &BackendObject| {
            let there = [("a".to_owned(), made.clone())].into();
            round.run(&there, &Reports::new()).await;
            asked.lock().unwrap().len()
        };
        assert_eq!(run(&mut round, &made).await, 0);
        made.metadata.generation = Some(4);
        assert_eq!(run(&mut round, &made).await, 1);
        let asked = asked.lock().unwrap();
        // Only our conditions are written: the server merges them by `type`.
        let written = asked[0].body["status"]["conditions"].as_array().unwrap();
        assert_eq!(written.len(), 4);
    }

    #[test]
    fn a_status_that_cannot_be_read_is_none() {
        let mut made = object("a", spec());
        assert_eq!(status(&made), Status::default());
        made.status = Some(json!({ "conditions": 7 }));
        assert_eq!(status(&made), Status::default());
        let known = Status {
            ready: "1/1".to_owned(),
            ..Status::default()
        };
        made.status = Some(serde_json::to_value(&known).unwrap());
        assert_eq!(status(&made), known);
    }
}
