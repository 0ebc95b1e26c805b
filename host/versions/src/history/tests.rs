//! The history as a list of numbers and states, after each operation.

use super::*;
use crate::desired::DesiredFrom;
use proptest::prelude::*;
use serde_json::json;
use std::path::PathBuf;
use wasmount_core::document::{StorageBackend, raw};
use wasmount_core::status::HeldBy;

pub(crate) fn document(plugin: serde_json::Value, setting: &str) -> StorageBackend {
    let document: raw::Document = serde_json::from_value(json!({
        "apiVersion": "wasmount.io/v1alpha1",
        "kind": "StorageBackend",
        "metadata": { "name": "test" },
        "spec": {
            "driverName": "test.wasmount.io",
            "plugin": plugin,
            "settings": { "setting": setting },
        },
    }))
    .unwrap();
    document.try_into().unwrap()
}

pub(crate) fn desired(plugin: serde_json::Value, setting: &str) -> Desired {
    Desired {
        document: document(plugin, setting),
        folder: PathBuf::from("/etc/wasmount"),
        from: DesiredFrom::Object("test".to_owned()),
    }
}

/// A version of this component with this setting.
pub(crate) fn new_version(code: &str, setting: &str) -> NewVersion {
    let desired = desired(json!({ "path": format!("{code}.wasm") }), setting);
    NewVersion {
        key: CandidateKey {
            digest: format!("sha256:{code}"),
            settings_digest: settings_digest(&desired.document),
            secrets: String::new(),
        },
        plugin: "test".to_owned(),
        plugin_version: "1.0.0".to_owned(),
        known: Known {
            digest: format!("sha256:{code}"),
            origin: code.to_owned(),
            signed_by: Vec::new(),
        },
        desired,
        offer: ServiceSet::new([Service::Controller, Service::NodeStage], []),
    }
}

pub(crate) fn at(second: u64) -> Timestamp {
    Timestamp::from_second(second.try_into().unwrap()).unwrap()
}

/// A history with this many versions, each proven, the last one serving.
pub(crate) fn history_of(versions: u64) -> History {
    let mut history = History::default();
    for number in 1..=versions {
        history.admit(
            new_version(&format!("code-{number}"), "a"),
            true,
            at(number),
        );
    }
    history
}

fn back_to(number: u64, by: HeldBy) -> Hold {
    Hold {
        number,
        by,
        reason: "a test".to_owned(),
        since: at(0),
        revision: None,
    }
}

/// The document of an object.
fn follower() -> Desired {
    desired(json!({ "path": "code.wasm" }), "a")
}

fn kept(history: &History) -> Vec<u64> {
    let records = history.records().into_iter().rev();
    let kept = records.filter(|record| record.is_kept);
    kept.map(|record| record.number).collect()
}

fn current(history: &History) -> u64 {
    history.current().unwrap().record.number
}

#[test]
fn a_new_version_replaces_the_one_before() {
    let history = history_of(2);
    let records = history.records();
    assert_eq!(current(&history), 2);
    assert!(records[0].state == VersionState::Serving && records[0].until.is_none());
    assert_eq!(records[1].state, VersionState::Replaced);
    assert_eq!(records[1].until, Some(at(2)));
    assert_eq!(records[1].reason.as_deref(), Some("version 2 replaced it"));
}

#[test]
fn a_rollback_leads_to_the_last_version_not_rolled_back() {
    let mut history = history_of(4);
    assert_eq!(history.target(None, false).unwrap(), 3);
    history.roll_back_to(back_to(3, HeldBy::Rollback), String::new(), at(9));
    assert_eq!(current(&history), 3);
    assert!(history.entry(3).unwrap().record.state == VersionState::Serving);
    let rolled_back = &history.entry(4).unwrap().record;
    assert_eq!(rolled_back.state, VersionState::RolledBack);
    assert_eq!(rolled_back.reason.as_deref(), Some("a test"));
    assert_eq!(history.target(None, false).unwrap(), 2);
    assert_eq!(history.target(Some(4), false).unwrap(), 4);
}

#[test]
fn no_rollback_leads_to_missing_serving_or_unknown_versions() {
    let mut history = history_of(4);
    history.prune(2);
    let refusal = history.target(Some(1), false).unwrap_err().to_string();
    assert_eq!(refusal, "version 1 is not kept; versions that are kept: 3");
    let refusal = history.target(Some(9), false).unwrap_err();
    assert!(matches!(refusal, Refusal::NotKept { number: 9, .. }));
    let refusal = history.target(Some(4), false).unwrap_err();
    assert!(matches!(refusal, Refusal::Serves { number: 4 }));
    let refusal = history_of(1).target(None, false).unwrap_err();
    assert!(matches!(refusal, Refusal::NothingToGoBackTo));
}

#[test]
fn faults_lead_back_to_a_proven_version_only() {
    let mut history = history_of(1);
    history.admit(new_version("b", "a"), false, at(2));
    history.admit(new_version("c", "a"), false, at(3));
    assert!(history.target(None, true).is_err());
    assert_eq!(history.target(None, false).unwrap(), 2);
    let mut history = history_of(3);
    history.admit(new_version("d", "a"), false, at(4));
    history.admit(new_version("e", "a"), false, at(5));
    // The fourth was not proven when it was replaced.
    assert_eq!(history.target(None, true).unwrap(), 2);
}

#[test]
fn what_failed_is_known_until_another_version_comes() {
    let mut history = history_of(2);
    let failed = new_version("code-2", "a").key;
    history.roll_back_to(
        back_to(1, HeldBy::Faults { failed: 2 }),
        String::new(),
        at(3),
    );
    assert!(history.has_failed(&failed));
    assert!(
        history.follows(&follower()),
        "another document may bring another one"
    );
    history.admit(new_version("c", "a"), true, at(4));
    assert!(!history.has_failed(&failed) && history.held.is_none());
}

#[test]
fn a_hold_or_a_pause_stops_following_the_document() {
    for by in [HeldBy::Rollback, HeldBy::Swap] {
        let mut history = history_of(2);
        history.roll_back_to(back_to(1, by), String::new(), at(3));
        assert!(!history.follows(&follower()));
        assert!(!history.has_failed(&new_version("code-2", "a").key));
    }
    let mut history = history_of(1);
    history.paused = true;
    assert!(!history.follows(&follower()));
}

#[test]
fn serving_and_last_proven_versions_are_kept_first() {
    let mut history = history_of(6);
    history.prune(3);
    assert_eq!(kept(&history), [4, 5, 6]);
    history.prune(1);
    assert_eq!(kept(&history), [6]);
    // Versions that failed one after another do not push out the one that works.
    let mut history = history_of(2);
    assert!(history.mark_proven());
    for failed in 3..8 {
        history.admit(
            new_version(&format!("bad-{failed}"), "a"),
            false,
            at(failed),
        );
        history.prune(2);
        assert_eq!(kept(&history), [2, failed]);
        history.roll_back_to(
            back_to(2, HeldBy::Faults { failed }),
            String::new(),
            at(failed),
        );
        history.prune(2);
    }
    assert_eq!(kept(&history), [2, 7]);
}

#[test]
fn a_version_not_kept_is_recorded_without_its_document() {
    let mut history = history_of(3);
    history.prune(1);
    assert!(history.entry(1).unwrap().desired().is_none());
    assert_eq!(history.records().len(), 3);
    assert_eq!(history.digests(), ["sha256:code-3".to_owned()].into());
}

#[test]
fn thirty_versions_are_remembered() {
    let mut history = history_of(150);
    history.prune(5);
    let records = history.records();
    assert_eq!((records.len(), records[0].number), (30, 150));
    assert_eq!(records[29].number, 121);
}

#[test]
fn numbers_are_never_used_again() {
    let mut history = history_of(3);
    history.roll_back_to(back_to(1, HeldBy::Rollback), String::new(), at(4));
    assert_eq!(history.admit(new_version("d", "a"), true, at(5)), 4);
}

#[test]
fn a_tag_is_resolved_once_until_asked_otherwise() {
    let place = json!({ "reference": "oci://registry.example.com/a/plugin:1" });
    let mut version = new_version("a", "a");
    version.desired = desired(place.clone(), "a");
    let mut history = History::default();
    history.admit(version, false, at(1));
    let known = |plugin| history.known(&desired(plugin, "other settings").document.plugin);
    assert_eq!(known(place).unwrap().digest, "sha256:a");
    let other = json!({ "reference": "oci://registry.example.com/a/plugin:2" });
    assert_eq!(known(other), None);
    assert_eq!(
        history_of(1).known(
            &desired(json!({ "path": "code-1.wasm" }), "a")
                .document
                .plugin
        ),
        None
    );
}

#[test]
fn settings_make_a_version_and_the_component_path_does_not() {
    let one = desired(json!({ "path": "a.wasm" }), "a").document;
    let elsewhere = desired(json!({ "path": "b.wasm" }), "a").document;
    let other = desired(json!({ "path": "a.wasm" }), "b").document;
    let full = desired(json!({ "path": "a.wasm", "wasi": "full" }), "a").document;
    assert_eq!(settings_digest(&one), settings_digest(&elsewhere));
    assert_ne!(settings_digest(&one), settings_digest(&other));
    assert_ne!(settings_digest(&one), settings_digest(&full));
}

#[test]
fn the_services_of_the_current_version_are_found_again() {
    let text = serde_json::to_string(&history_of(1)).unwrap();
    let history: History = serde_json::from_str(&text).unwrap();
    let kept = history.kept_services(Profile::V1_12).unwrap();
    assert_eq!(
        kept.offer,
        ServiceSet::new([Service::Controller, Service::NodeStage], [])
    );
    assert!(History::default().kept_services(Profile::V1_12).is_none());
}

/// An operation on a history.
#[derive(Debug, Clone)]
enum Step {
    Admit(bool),
    Back,
    Fail,
    Prune(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        any::<bool>().prop_map(Step::Admit),
        Just(Step::Back),
        Just(Step::Fail),
        (1_usize..6).prop_map(Step::Prune),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    /// After any operations: exactly one version serves, it is kept, and a rollback leads to a version that is kept and does not serve.
    #[test]
    fn one_version_serves_and_each_way_back_leads_somewhere(steps in steps()) {
        let mut history = history_of(1);
        for (moment, step) in steps.into_iter().enumerate() {
            let moment = moment as u64 + 2;
            match step {
                Step::Admit(proven) => {
                    history.admit(new_version(&format!("code-{moment}"), "a"), proven, at(moment));
                }
                Step::Back => {
                    if let Ok(number) = history.target(None, false) {
                        history.roll_back_to(back_to(number, HeldBy::Rollback), String::new(), at(moment));
                    }
                }
                Step::Fail => {
                    if let Ok(number) = history.target(None, true) {
                        prop_assert!(history.entry(number).unwrap().record.proven);
                        let failed = current(&history);
                        history.roll_back_to(back_to(number, HeldBy::Faults { failed }), String::new(), at(moment));
                    }
                }
                Step::Prune(keep) => {
                    history.prune(keep);
                    prop_assert!(kept(&history).len() <= keep);
                }
            }
            let serving: Vec<u64> = history
                .records()
                .into_iter()
                .filter(|record| record.state == VersionState::Serving)
                .map(|record| record.number)
                .collect();
            prop_assert_eq!(serving, [current(&history)]);
            prop_assert!(kept(&history).contains(&current(&history)));
            if let Ok(number) = history.target(None, false) {
                prop_assert!(kept(&history).contains(&number) && number != current(&history));
            }
        }
    }
}

#[test]
fn a_version_that_failed_may_come_again_with_other_secrets() {
    let mut history = history_of(2);
    let mut failed = new_version("bad", "a");
    failed.key.secrets = "a mark".to_owned();
    let key = failed.key.clone();
    let number = history.admit(failed, true, at(3));
    assert!(!history.has_failed(&key));
    let hold = back_to(2, HeldBy::Faults { failed: number });
    history.roll_back_to(hold, String::new(), at(4));
    assert!(history.has_failed(&key));
    let with = |version: NewVersion, secrets: &str| CandidateKey {
        secrets: secrets.to_owned(),
        ..version.key
    };
    assert!(!history.has_failed(&with(new_version("bad", "a"), "another mark")));
    assert!(!history.has_failed(&with(new_version("good", "a"), "a mark")));
}

#[test]
fn an_older_hold_stands_against_an_equal_desired_revision() {
    let plugin = |path: &str| json!({ "path": path });
    let (wished, other) = (desired(plugin("a"), "a"), desired(plugin("b"), "a"));
    let of_file = |desired: &Desired| Desired {
        from: DesiredFrom::File("a.yaml".into()),
        ..desired.clone()
    };
    for by in [HeldBy::Rollback, HeldBy::Swap] {
        let mut history = history_of(2);
        let hold = Hold {
            revision: Some(desired_digest(&wished)),
            ..back_to(1, by)
        };
        history.roll_back_to(hold, String::new(), at(3));
        assert!(!history.follows(&wished));
        assert!(history.follows(&other));
        assert!(history.follows(&desired(plugin("a"), "another setting")));
        assert!(!history.follows(&of_file(&wished)));
        assert!(!history.follows(&of_file(&other)));
        history.paused = true;
        assert!(!history.follows(&other));
    }
}
