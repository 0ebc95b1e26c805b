//! Each decision of the elected host, in tables.

use super::super::super::object::tests::{object, spec};
use super::super::super::report::ReportSpec;
use super::super::super::report::tests::of_host;
use super::super::state::tests::rollout;
use super::*;
use serde_json::json;

mod changes;

/// All hosts, in the order of their positions for the backend `a`.
fn hosts() -> Vec<String> {
    let mut all: Vec<_> = (0..10).map(|number| format!("n{number}")).collect();
    all.sort_by_key(|host| position("a", host));
    all
}

fn old() -> Value {
    spec()
}

/// Another plugin, in two steps: a fifth of the hosts, then those with a label.
fn new() -> Value {
    let mut spec = spec();
    spec["plugin"]["path"] = json!("/b.wasm");
    let labels = json!({ "matchLabels": { "tier": "canary" } });
    spec["rollout"] =
        json!({ "steps": [{ "percent": 20, "pause": "10m" }, { "selector": labels }] });
    spec
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// What a host says that has seen the new spec and does not take it.
fn waiting(host: &str) -> ReportSpec {
    let mut spec = of_host(host);
    spec.report.rollout = Some(RolloutPart {
        candidate: digest(&new()),
        attempt: 1,
        takes: false,
        selected: None,
    });
    spec
}

/// What a host says that takes it.
fn taking(host: &str, phase: Phase) -> ReportSpec {
    let mut spec = waiting(host);
    spec.report.phase = phase;
    spec.report.reason = phase.is_trouble().then(|| "it traps".to_owned());
    spec.report.rollout.as_mut().unwrap().takes = true;
    spec
}

/// Each host: the first `taking` serve the candidate.
fn reports(takers: usize) -> Vec<ReportSpec> {
    let all = hosts().into_iter().enumerate();
    all.map(|(index, host)| match index < takers {
        true => taking(&host, Phase::Serving),
        false => waiting(&host),
    })
    .collect()
}

struct Case {
    object: BackendObject,
    invalid: Option<&'static str>,
    held: Option<Value>,
    silent: Option<String>,
    /// It is not known whether the Node of the silent host is there.
    gone: bool,
}

impl Case {
    fn of(before: Option<&RolloutStatus>) -> Self {
        let mut made = object("a", new());
        made.status = before.map(|before| json!({ "rollout": before }));
        Self {
            object: made,
            invalid: None,
            held: Some(old()),
            silent: None,
            gone: false,
        }
    }

    fn decide(&self, reports: &[ReportSpec], now: Timestamp) -> Option<RolloutStatus> {
        let heard: Vec<_> = reports
            .iter()
            .map(|spec| HostReport {
                spec,
                silent: self.silent.as_ref() == Some(&spec.host),
                lost: self.silent.as_ref() == Some(&spec.host) && !self.gone,
            })
            .collect();
        let situation = Situation {
            object: &self.object,
            invalid: self.invalid,
            held: self.held.as_ref(),
            hosts: &heard,
            now,
        };
        situation.decide()
    }
}

fn decided(before: &RolloutStatus, reports: &[ReportSpec], now: Timestamp) -> RolloutStatus {
    Case::of(Some(before)).decide(reports, now).unwrap()
}

/// The state after the first round: a fifth of the hosts is in.
fn in_first_step() -> RolloutStatus {
    Case::of(None).decide(&reports(0), at(0)).unwrap()
}

#[test]
fn a_change_begins_with_its_first_step() {
    let first = in_first_step();
    assert_eq!((first.step, first.steps), (1, 2));
    assert_eq!(first.phase, RolloutPhase::Progressing);
    assert_eq!(first.bound, Some(position("a", &hosts()[1])));
    assert_eq!(first.stable, old());
    assert_eq!(first.progress, "1/2");
    let waits = format!(
        "0 of 2 hosts of the step serve it; waits for {}",
        hosts()[0].clone().min(hosts()[1].clone())
    );
    assert!(first.message.starts_with(&waits), "{}", first.message);
}

#[test]
fn what_serves_already_is_promoted_and_a_change_later_begins() {
    // Nothing was served before, or the steps alone are new.
    for held in [None, Some(new()), Some(without_plan(&new()))] {
        let case = Case {
            held,
            ..Case::of(None)
        };
        let first = case.decide(&reports(0), at(0)).unwrap();
        assert_eq!(first.phase, RolloutPhase::Promoted);
        assert_eq!(first.stable, without_plan(&new()));
        assert_eq!(decided(&first, &reports(0), at(9)), first);
    }
    let mut promoted = rollout(&old(), &old());
    promoted.phase = RolloutPhase::Promoted;
    let begun = decided(&promoted, &reports(0), at(0));
    assert_eq!((begun.phase, begun.step), (RolloutPhase::Progressing, 1));
    assert_eq!(begun.stable, old());
}

#[test]
fn an_object_without_steps_has_no_rollout() {
    let mut case = Case::of(Some(&in_first_step()));
    case.object.spec.as_object_mut().unwrap().remove("rollout");
    assert_eq!(case.decide(&reports(2), at(0)), None);
}

#[test]
fn a_step_ends_when_all_its_hosts_served_it_for_its_pause() {
    let first = in_first_step();
    // One of two serves it.
    let still = decided(&first, &reports(1), at(5));
    assert_eq!((still.step, still.served_since), (1, None));
    assert!(
        still.message.starts_with("1 of 2 hosts"),
        "{}",
        still.message
    );
    let served = decided(&first, &reports(2), at(10));
    assert_eq!((served.step, served.served_since), (1, Some(at(10))));
    let expected = "all 2 hosts of the step serve it; the next step begins at 1970-01-01T00:10:10Z";
    assert_eq!(served.message, expected);
    assert_eq!(next_step(&plan(&new()).unwrap(), &served), Some(at(610)));
    assert_eq!(decided(&served, &reports(2), at(609)), served);
    // A host that loads again holds the step, and does not begin its pause again.
    let mut loading = reports(2);
    loading[0].report.phase = Phase::Loading;
    let held = decided(&served, &loading, at(610));
    assert_eq!((held.step, held.served_since), (1, Some(at(10))));
    let next = decided(&held, &reports(2), at(611));
    assert_eq!(
        (next.step, next.served_since, next.since),
        (2, None, at(611))
    );
}

#[test]
fn a_fault_begins_the_pause_of_a_step_again() {
    let served = decided(&in_first_step(), &reports(2), at(10));
    let mut faulty = reports(2);
    let fault = |report: &mut ReportSpec, seconds| {
        report.report.last_fault = Some(at(seconds));
    };
    // Of before, and of a host that does not take part.
    fault(&mut faulty[0], 9);
    fault(&mut faulty[2], 600);
    assert_eq!(decided(&served, &faulty, at(605)), served);
    fault(&mut faulty[1], 600);
    let again = decided(&served, &faulty, at(605));
    assert_eq!((again.step, again.served_since), (1, Some(at(600))));
    let expected = format!(
        "all 2 hosts of the step serve it; the next step begins at 1970-01-01T00:20:00Z, counted from a fault on {}",
        faulty[1].host
    );
    assert_eq!(again.message, expected);
    assert_eq!(decided(&again, &faulty, at(1199)), again);
    assert_eq!(decided(&again, &faulty, at(1200)).step, 2);
}

#[test]
fn a_step_of_labels_waits_for_a_node_that_has_them() {
    let mut second = in_first_step();
    second.step = 2;
    let mut all = reports(2);
    let none = decided(&second, &all, at(0));
    // Those of the first step are in the second, too.
    assert_eq!(none.step, 3);
    second.bound = None;
    all = reports(0);
    let none = decided(&second, &all, at(0));
    assert_eq!(none.bound, in_first_step().bound);
    let mut case = Case::of(Some(&second));
    case.object.spec["rollout"]["steps"] = json!([
        { "selector": { "matchLabels": { "tier": "canary" } } },
        { "selector": { "matchLabels": { "tier": "gold" } } },
    ]);
    let none = case.decide(&all, at(0)).unwrap();
    assert_eq!(
        none.message,
        "waits for a host of the step: no node is one of step 2"
    );
    all[4].report.rollout.as_mut().unwrap().selected = Some(2);
    let one = case.decide(&all, at(0)).unwrap();
    assert!(one.message.starts_with("0 of 1 hosts"), "{}", one.message);
    all[4] = taking(&all[4].host, Phase::Serving);
    assert_eq!(case.decide(&all, at(0)).unwrap().step, 3);
}

#[test]
fn all_hosts_and_controllers_serve_it_before_it_is_promoted() {
    let mut last = in_first_step();
    last.step = 3;
    let mut all = reports(10);
    let mut controller = waiting("controller");
    controller.on_node = false;
    all.push(controller);
    let waits = decided(&last, &all, at(5));
    assert_eq!(
        (waits.phase, waits.progress.as_str()),
        (RolloutPhase::Progressing, "all")
    );
    assert!(
        waits.message.contains("waits for controller"),
        "{}",
        waits.message
    );
    all[10].report.rollout.as_mut().unwrap().takes = true;
    let done = decided(&last, &all, at(6));
    assert_eq!(done.phase, RolloutPhase::Promoted);
    assert_eq!(done.stable, without_plan(&new()));
    assert_eq!(done.previous, Some(old()));
    assert_eq!(done.progress, "Promoted");
    // Its failure takes all of them back.
    all[10].report.phase = Phase::Refused;
    assert_eq!(decided(&last, &all, at(6)).phase, RolloutPhase::Failed);
}

#[test]
fn a_controller_is_in_no_step_before() {
    let mut first = in_first_step();
    let mut all = reports(2);
    let mut controller = waiting("controller");
    controller.on_node = false;
    controller.report.rollout = None;
    all.push(controller);
    first.served_since = Some(at(0));
    assert_eq!(decided(&first, &all, at(600)).step, 2);
}

#[test]
fn a_host_that_fails_ends_the_rollout_for_all() {
    let first = in_first_step();
    for phase in [Phase::Refused, Phase::RolledBack, Phase::Invalid] {
        let mut all = reports(1);
        all[1] = taking(&hosts()[1], phase);
        for paused in [false, true] {
            let mut before = first.clone();
            if paused {
                before.phase = RolloutPhase::Paused;
            }
            let failed = decided(&before, &all, at(7));
            assert_eq!((failed.phase, failed.step), (RolloutPhase::Failed, 1));
            assert_eq!(failed.message, format!("{}: it traps", hosts()[1]));
            assert_eq!(
                (failed.since, failed.progress.as_str()),
                (at(7), "1/2 Failed")
            );
            // It stays so, also when the host has recovered.
            assert_eq!(decided(&failed, &reports(0), at(8)), failed);
        }
    }
}

#[test]
fn trouble_that_is_not_the_candidates_fails_nothing() {
    let first = in_first_step();
    let host = hosts()[1].clone();
    let mut others = Vec::new();
    // Of what was promoted before, of an earlier attempt, of another candidate; or something that may pass.
    let mut of_stable = waiting(&host);
    of_stable.report.phase = Phase::Refused;
    others.push(of_stable);
    let mut earlier = taking(&host, Phase::Refused);
    earlier.report.rollout.as_mut().unwrap().attempt = 0;
    others.push(earlier);
    let mut another = taking(&host, Phase::RolledBack);
    another.report.rollout.as_mut().unwrap().candidate = "x".to_owned();
    others.push(another);
    others.push(taking(&host, Phase::Waiting));
    others.push(taking(&host, Phase::Loading));
    others.push(taking(&host, Phase::Paused));
    for other in others {
        let mut all = reports(1);
        all[1] = other.clone();
        let now = decided(&first, &all, at(5));
        assert_eq!((now.phase, now.step), (RolloutPhase::Progressing, 1));
        assert_eq!(now.served_since, None, "{other:?}");
        assert!(now.message.contains(&host), "{}", now.message);
    }
}

#[test]
fn a_silent_host_fails_a_step_only_if_it_took_part() {
    let mut before = in_first_step();
    before.served_since = Some(at(0));
    let mut case = Case::of(Some(&before));
    case.silent = Some(hosts()[1].clone());
    let failed = case.decide(&reports(2), at(5)).unwrap();
    assert_eq!(failed.phase, RolloutPhase::Failed);
    assert!(
        failed.message.contains("has not reported"),
        "{}",
        failed.message
    );
    // Its Node may be gone: that is looked up first.
    case.gone = true;
    let still = case.decide(&reports(2), at(5)).unwrap();
    assert_eq!((still.phase, still.step), (RolloutPhase::Progressing, 1));
    // One that was away before is not waited for, and not counted.
    case.silent = Some(hosts()[9].clone());
    assert_eq!(case.decide(&reports(2), at(600)).unwrap().step, 2);
}

#[test]
fn a_host_that_has_not_seen_the_change_is_waited_for() {
    let mut before = in_first_step();
    before.served_since = Some(at(0));
    let mut all = reports(2);
    // A host of an earlier build knows no rollouts.
    all[9].report.rollout = None;
    let waits = decided(&before, &all, at(600));
    assert_eq!(waits.step, 1);
    let name = format!("waits for {}, which has not reported", hosts()[9]);
    assert!(waits.message.contains(&name), "{}", waits.message);
    // Another document has the driver there: it never serves it.
    all[9].report.phase = Phase::Taken;
    assert_eq!(decided(&before, &all, at(600)).step, 2);
}

#[test]
fn an_invalid_change_fails_before_any_host_takes_it() {
    let mut promoted = rollout(&old(), &old());
    promoted.phase = RolloutPhase::Promoted;
    let mut case = Case::of(Some(&promoted));
    case.invalid = Some("spec.driverName: no");
    let failed = case.decide(&reports(0), at(0)).unwrap();
    assert_eq!((failed.phase, failed.step), (RolloutPhase::Failed, 0));
    assert_eq!(failed.message, "the spec is invalid: spec.driverName: no");
    // Before anything was promoted there is nothing to return to.
    let mut first = Case::of(None);
    first.invalid = Some("spec.driverName: no");
    assert_eq!(first.decide(&[], at(0)), None);
}
