//! Commands, other steps, other specs and other hosts in the middle of a rollout.

use super::*;

#[test]
fn a_pause_holds_a_step_and_also_the_next_change() {
    let mut case = Case::of(Some(&in_first_step()));
    let asked = |case: &mut Case, value: &str| {
        let annotation = (ROLLOUT.to_owned(), value.to_owned());
        case.object.metadata.annotations = Some([annotation].into());
    };
    asked(&mut case, "pause@1");
    let paused = case.decide(&reports(2), at(5)).unwrap();
    assert_eq!(paused.phase, RolloutPhase::Paused);
    assert_eq!(paused.command.as_deref(), Some("pause@1"));
    case.object.status = Some(json!({ "rollout": paused }));
    let later = case.decide(&reports(2), at(6000)).unwrap();
    assert_eq!((later.phase, later.step), (RolloutPhase::Paused, 1));
    // Another change waits before its first step.
    let mut other = Case::of(Some(&paused));
    asked(&mut other, "pause@1");
    other.object.spec["plugin"]["path"] = json!("/c.wasm");
    let held = other.decide(&reports(2), at(6000)).unwrap();
    assert_eq!(
        (held.phase, held.step, held.bound),
        (RolloutPhase::Paused, 0, None)
    );
    // Each request is carried out once.
    asked(&mut case, "resume@2");
    let resumed = case.decide(&reports(2), at(6000)).unwrap();
    assert_eq!(
        (resumed.phase, resumed.step),
        (RolloutPhase::Progressing, 2)
    );
    case.object.status = Some(json!({ "rollout": { "x": 1 } }));
    asked(&mut case, "nonsense");
    let anew = case.decide(&reports(0), at(0)).unwrap();
    assert_eq!(anew.command.as_deref(), Some("nonsense"));
}

#[test]
fn a_failed_change_is_tried_again_on_request_only() {
    let mut failed = in_first_step();
    failed.phase = RolloutPhase::Failed;
    let mut case = Case::of(Some(&failed));
    let request = (ROLLOUT.to_owned(), "resume@1".to_owned());
    case.object.metadata.annotations = Some([request].into());
    let again = case.decide(&reports(0), at(9)).unwrap();
    assert_eq!(
        (again.phase, again.attempt, again.step),
        (RolloutPhase::Progressing, 2, 1)
    );
    // The spec that was promoted before needs no steps.
    let mut back = Case::of(Some(&failed));
    let steps = back.object.spec["rollout"].clone();
    back.object.spec = old();
    back.object.spec["rollout"] = steps;
    let back = back.decide(&reports(0), at(9)).unwrap();
    assert_eq!((back.phase, back.stable), (RolloutPhase::Promoted, old()));
}

#[test]
fn other_steps_continue_the_same_rollout() {
    let mut case = Case::of(Some(&in_first_step()));
    case.object.spec["rollout"]["steps"] = json!([{ "percent": 20 }]);
    let fewer = case.decide(&reports(2), at(1)).unwrap();
    assert_eq!((fewer.attempt, fewer.step, fewer.steps), (1, 2, 1));
    let mut last = in_first_step();
    last.step = 3;
    let mut case = Case::of(Some(&last));
    case.object.spec["rollout"]["steps"] = json!([{ "percent": 20 }]);
    let still = case.decide(&reports(5), at(1)).unwrap();
    assert!(still.is_for_all());
}

#[test]
fn a_share_is_one_host_at_least_and_only_grows() {
    let mut spec = new();
    spec["rollout"]["steps"] = json!([{ "percent": 1, "pause": "1m" }, { "percent": 100 }]);
    let mut case = Case::of(None);
    case.object.spec = spec;
    let first = case.decide(&reports(0), at(0)).unwrap();
    assert_eq!(first.bound, Some(position("a", &hosts()[0])));
    // The host at the bound goes, and others come: those that are in stay in.
    let mut wide = first.clone();
    wide.bound = Some(position("a", &hosts()[3]));
    case.object.status = Some(json!({ "rollout": wide }));
    assert_eq!(case.decide(&reports(0), at(1)).unwrap().bound, wide.bound);
    wide.step = 2;
    case.object.status = Some(json!({ "rollout": wide }));
    assert_eq!(
        case.decide(&reports(0), at(1)).unwrap().bound,
        Some(u32::MAX)
    );
    // Without a host on a node nothing can be tried.
    case.object.status = None;
    let nobody = case.decide(&[], at(0)).unwrap();
    assert_eq!((nobody.step, nobody.bound), (1, None));
}
