//! What one host serves of an object that is rolled out in steps: a pure function of the object, the host and what it served before.

use super::super::BackendObject;
use super::state::{RolloutPart, RolloutPhase, RolloutStatus, digest, plan, position, rollout_of};
use kube::ResourceExt;
use serde_json::Value;
use std::collections::BTreeMap;

/// The host, as far as a rollout distinguishes hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostIdentity {
    /// The host's name: that of its Node, or of its pod.
    pub name: String,
    /// It serves volumes of a node. The others, controllers, take a candidate last.
    pub on_node: bool,
}

/// What a host serves.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::storage_backend) struct Effective {
    /// The `spec` to serve.
    pub(in crate::storage_backend) spec: Value,
    /// Its part in the rollout; none: the object has no steps.
    pub(in crate::storage_backend) part: Option<RolloutPart>,
}

/// What this host serves. `held` is what it served last; `labels` are those of its Node, if they are known.
pub(in crate::storage_backend) fn effective(
    object: &BackendObject,
    host: &HostIdentity,
    labels: Option<&BTreeMap<String, String>>,
    held: Option<&Value>,
) -> Effective {
    let Some(plan) = plan(&object.spec) else {
        return Effective {
            spec: object.spec.clone(),
            part: None,
        };
    };
    let candidate = digest(&object.spec);
    let holds_it = held.is_some_and(|held| digest(held) == candidate);
    let selected = labels.and_then(|labels| plan.selected(labels));
    let knows_labels = !host.on_node || labels.is_some() || !plan.has_labels();
    let status = rollout_of(object.status.as_ref());
    let (spec, attempt) = match &status {
        // The elected host has not seen the object yet: whatever serves goes on, and a new backend begins.
        None => (held.unwrap_or(&object.spec), 0),
        Some(status) if status.candidate != candidate => (&status.stable, 0),
        Some(status) => {
            let by_position = || {
                let position = position(&object.name_any(), &host.name);
                status.bound.is_some_and(|bound| position <= bound)
            };
            let by_labels = || selected.is_some_and(|selected| selected <= status.step);
            // A host that once takes part does so until the end, whatever becomes of its labels.
            let in_step = || status.step > 0 && (holds_it || by_position() || by_labels());
            let takes = takes(status, host, in_step);
            let spec = if takes { &object.spec } else { &status.stable };
            (spec, status.attempt)
        }
    };
    let takes = digest(spec) == candidate;
    let part = RolloutPart {
        takes,
        candidate: if knows_labels {
            candidate
        } else {
            String::new()
        },
        attempt,
        selected,
    };
    Effective {
        spec: spec.clone(),
        part: Some(part),
    }
}

fn takes(status: &RolloutStatus, host: &HostIdentity, in_step: impl FnOnce() -> bool) -> bool {
    match status.phase {
        RolloutPhase::Promoted => true,
        RolloutPhase::Progressing | RolloutPhase::Paused => {
            status.is_for_all() || (host.on_node && in_step())
        }
        RolloutPhase::Failed | RolloutPhase::RolledBack | RolloutPhase::Unknown => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::object::tests::{object, spec};
    use super::super::state::tests::rollout;
    use super::*;
    use serde_json::json;

    fn old() -> Value {
        spec()
    }

    /// Another plugin, in two steps.
    fn new() -> Value {
        let mut spec = spec();
        spec["plugin"]["path"] = json!("/b.wasm");
        let labels = json!({ "matchLabels": { "tier": "canary" } });
        spec["rollout"] = json!({ "steps": [{ "percent": 10 }, { "selector": labels }] });
        spec
    }

    fn host(on_node: bool) -> HostIdentity {
        HostIdentity {
            name: "n".to_owned(),
            on_node,
        }
    }

    fn labels(tier: &str) -> BTreeMap<String, String> {
        [("tier".to_owned(), tier.to_owned())].into()
    }

    fn with(status: Option<&RolloutStatus>) -> BackendObject {
        let mut object = object("a", new());
        object.status = status.map(|status| json!({ "rollout": status }));
        object
    }

    /// Whether a host on a node with that label takes the candidate.
    fn takes(status: &RolloutStatus, tier: &str, held: Option<&Value>) -> bool {
        let seen = effective(&with(Some(status)), &host(true), Some(&labels(tier)), held);
        let part = seen.part.unwrap();
        let served = if part.takes { new() } else { old() };
        assert_eq!(seen.spec, served);
        part.takes
    }

    #[test]
    fn an_object_without_steps_is_served_as_it_is() {
        let mut status = rollout(&new(), &old());
        status.phase = RolloutPhase::Failed;
        let mut object = with(Some(&status));
        object.spec["rollout"].take();
        object.spec.as_object_mut().unwrap().remove("rollout");
        let seen = effective(&object, &host(true), None, Some(&old()));
        assert_eq!((seen.spec, seen.part), (object.spec, None));
    }

    #[test]
    fn until_it_is_decided_a_host_serves_what_it_served() {
        let seen =
            |held: Option<&Value>| effective(&with(None), &host(true), Some(&labels("gold")), held);
        let before = seen(Some(&old()));
        assert_eq!(before.spec, old());
        assert!(!before.part.unwrap().takes);
        // A first install has nothing to hold.
        let first = seen(None);
        assert_eq!(first.spec, new());
        assert!(first.part.unwrap().takes);
        // Decided, but about an earlier candidate.
        let status = rollout(&json!({ "another": 1 }), &old());
        let seen = effective(&with(Some(&status)), &host(true), None, Some(&new()));
        assert_eq!(seen.spec, old());
    }

    #[test]
    fn a_step_takes_hosts_by_position_and_by_labels() {
        let place = position("a", "n");
        let mut status = rollout(&new(), &old());
        assert!(!takes(&status, "gold", None));
        status.bound = Some(place - 1);
        assert!(!takes(&status, "gold", None));
        status.bound = Some(place);
        assert!(takes(&status, "gold", None));
        // The labels are those of the second step.
        status.bound = None;
        assert!(!takes(&status, "canary", None));
        status.step = 2;
        assert!(takes(&status, "canary", None));
        assert!(!takes(&status, "gold", None));
        status.step = 3;
        assert!(takes(&status, "gold", None));
    }

    #[test]
    fn a_host_that_takes_part_stays_in_until_it_fails() {
        let mut status = rollout(&new(), &old());
        for (phase, stays) in [
            (RolloutPhase::Progressing, true),
            (RolloutPhase::Paused, true),
            (RolloutPhase::Promoted, true),
            (RolloutPhase::Failed, false),
            (RolloutPhase::RolledBack, false),
            (RolloutPhase::Unknown, false),
        ] {
            status.phase = phase;
            assert_eq!(takes(&status, "gold", Some(&new())), stays, "{phase:?}");
        }
        (status.phase, status.step) = (RolloutPhase::Paused, 0);
        assert!(!takes(&status, "gold", Some(&new())));
    }

    #[test]
    fn a_controller_takes_the_candidate_after_the_last_step() {
        let mut status = rollout(&new(), &old());
        status.bound = Some(u32::MAX);
        let seen = |status: &RolloutStatus, held: Option<&Value>| {
            let seen = effective(&with(Some(status)), &host(false), None, held);
            seen.part.unwrap().takes
        };
        assert!(!seen(&status, None));
        assert!(!seen(&status, Some(&new())));
        status.step = 3;
        assert!(seen(&status, None));
    }

    #[test]
    fn a_host_without_its_labels_has_seen_no_candidate_of_labels() {
        let status = rollout(&new(), &old());
        let part = |on_node: bool, labels: Option<&BTreeMap<String, String>>| {
            let seen = effective(&with(Some(&status)), &host(on_node), labels, None);
            seen.part.unwrap()
        };
        assert_eq!(part(true, None).candidate, "");
        let known = part(true, Some(&labels("canary")));
        assert_eq!((known.candidate, known.selected), (digest(&new()), Some(2)));
        assert_eq!(part(false, None).candidate, digest(&new()));
    }
}
