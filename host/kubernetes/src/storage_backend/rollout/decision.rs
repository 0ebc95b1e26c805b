//! What the elected host makes of a rollout: a pure function of the object, the reports, the state before and the time.

use super::super::BackendObject;
use super::super::report::{HostReport, cut};
use super::command::{ROLLOUT, RolloutCommand};
use super::state::{
    RolloutPart, RolloutPhase, RolloutStatus, digest, has_plan, plan, position, rollout_of,
    without_plan,
};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::Value;
use wasmount_core::document::{Rollout, StepHosts};
use wasmount_core::status::Phase;

/// The share of all.
const WHOLE: u64 = 100;

/// All that a decision depends on.
pub(in crate::storage_backend) struct Situation<'a> {
    /// The object.
    pub(in crate::storage_backend) object: &'a BackendObject,
    /// Why its `spec` is invalid, if it is.
    pub(in crate::storage_backend) invalid: Option<&'a str>,
    /// The `spec` that the elected host itself serves.
    pub(in crate::storage_backend) held: Option<&'a Value>,
    /// What hosts report.
    pub(in crate::storage_backend) hosts: &'a [HostReport<'a>],
    /// The time.
    pub(in crate::storage_backend) now: Timestamp,
}

/// A host and its part.
struct Seen<'a> {
    host: &'a HostReport<'a>,
    part: Option<&'a RolloutPart>,
    position: u32,
}

impl Situation<'_> {
    /// The next state; none: the object has no rollout.
    pub(in crate::storage_backend) fn decide(&self) -> Option<RolloutStatus> {
        let before = rollout_of(self.object.status.as_ref());
        if !has_plan(&self.object.spec) {
            return None;
        }
        let Some(plan) = plan(&self.object.spec) else {
            return before;
        };
        let candidate = digest(&self.object.spec);
        let request = self.object.annotations().get(ROLLOUT).cloned().map(cut);
        let mut rollout = match before {
            Some(before) => before,
            // Nothing that is invalid is what hosts return to.
            None if self.invalid.is_some() => return None,
            None => self.first(&candidate, request.clone()),
        };
        rollout.adopt(&plan);
        if request != rollout.command {
            let command = request.as_deref().and_then(RolloutCommand::of_annotation);
            let applied = command.map(|command| command.applied(&rollout, self.now));
            if let Some(Ok(next)) = applied {
                rollout = next;
            }
            rollout.command = request;
        }
        if rollout.candidate != candidate {
            rollout.follow(candidate, self.now);
        }
        if rollout.phase.is_under_way() {
            self.advance(&plan, &mut rollout);
        }
        rollout.progress = rollout.shown();
        rollout.message = cut(rollout.message);
        Some(rollout)
    }

    /// The first state: what the elected host has served is what hosts return to.
    fn first(&self, candidate: &str, request: Option<String>) -> RolloutStatus {
        let stable = self.held.unwrap_or(&self.object.spec);
        let mut rollout = RolloutStatus {
            candidate: candidate.to_owned(),
            attempt: 1,
            phase: RolloutPhase::Progressing,
            since: self.now,
            command: request,
            stable: without_plan(stable),
            ..RolloutStatus::default()
        };
        if digest(stable) == candidate {
            rollout.promoted("all hosts serve it: steps begin with the next change");
        }
        rollout
    }

    fn advance(&self, plan: &Rollout, rollout: &mut RolloutStatus) {
        if let Some(invalid) = self.invalid {
            return rollout.fail(format!("the spec is invalid: {invalid}"), self.now);
        }
        let seen = self.seen(rollout);
        if rollout.step == 0 {
            if rollout.phase == RolloutPhase::Paused {
                "paused before the first step".clone_into(&mut rollout.message);
                return;
            }
            rollout.enter(1, self.now);
        }
        rollout.widen(plan, &seen);
        if let Some(failure) = seen.iter().find_map(|it| it.failure(rollout)) {
            return rollout.fail(failure, self.now);
        }
        let served = match rollout.waits(&seen) {
            Ok(served) => served,
            Err(message) => {
                rollout.message = message;
                return;
            }
        };
        let since = *rollout.served_since.get_or_insert(self.now);
        let last_fault = seen.iter().filter_map(|it| it.fault(rollout)).max();
        if let Some((at, _)) = last_fault.filter(|(at, _)| *at > since) {
            rollout.served_since = Some(at);
        }
        if rollout.phase == RolloutPhase::Paused {
            rollout.message = format!("paused; all {served} hosts of the step serve it");
            return;
        }
        if rollout.is_for_all() {
            let stable = without_plan(&self.object.spec);
            rollout.previous = Some(std::mem::replace(&mut rollout.stable, stable));
            rollout.since = self.now;
            rollout.promoted(&format!("all {served} hosts serve it"));
            return;
        }
        match next_step(plan, rollout) {
            Some(at) if at > self.now => {
                let at = at.strftime("%FT%TZ");
                let last_fault = last_fault.filter(|(at, _)| Some(*at) == rollout.served_since);
                let why = last_fault.map(|(_, host)| format!(", counted from a fault on {host}"));
                rollout.message = format!(
                    "all {served} hosts of the step serve it; the next step begins at {at}{}",
                    why.unwrap_or_default()
                );
            }
            _ => {
                rollout.enter(rollout.step + 1, self.now);
                rollout.widen(plan, &seen);
            }
        }
    }

    /// The hosts that count: not those that are silent without having taken the candidate, and not those where another document has the driver.
    fn seen(&self, rollout: &RolloutStatus) -> Vec<Seen<'_>> {
        let name = self.object.name_any();
        let seen = self.hosts.iter().map(|host| Seen {
            host,
            part: host.spec.report.rollout.as_ref(),
            position: position(&name, &host.spec.host),
        });
        let counts = |it: &Seen<'_>| {
            it.host.spec.report.phase != Phase::Taken && (!it.host.silent || it.takes(rollout))
        };
        let mut seen: Vec<_> = seen.filter(counts).collect();
        seen.sort_by_key(|it| it.host.spec.host.as_str());
        seen
    }
}

/// When the next step begins if nothing happens until then.
pub(in crate::storage_backend) fn next_step(
    plan: &Rollout,
    rollout: &RolloutStatus,
) -> Option<Timestamp> {
    if rollout.phase != RolloutPhase::Progressing {
        return None;
    }
    let step = plan
        .steps
        .get(usize::try_from(rollout.step.checked_sub(1)?).ok()?)?;
    rollout.served_since?.checked_add(step.pause).ok()
}

impl Seen<'_> {
    /// Its report is about this attempt at the candidate.
    fn takes(&self, rollout: &RolloutStatus) -> bool {
        self.part.is_some_and(|part| {
            part.takes && part.candidate == rollout.candidate && part.attempt == rollout.attempt
        })
    }

    /// The last fault of the candidate there, with the host's name.
    fn fault(&self, rollout: &RolloutStatus) -> Option<(Timestamp, &str)> {
        let at = self.host.spec.report.last_fault?;
        self.takes(rollout)
            .then_some((at, self.host.spec.host.as_str()))
    }

    /// Why the candidate failed there.
    fn failure(&self, rollout: &RolloutStatus) -> Option<String> {
        let has_failed = self.host.lost
            || matches!(
                self.host.spec.report.phase,
                Phase::Refused | Phase::RolledBack | Phase::Invalid
            );
        let host = &self.host.spec.host;
        (has_failed && self.takes(rollout)).then(|| format!("{host}: {}", self.host.reason()))
    }

    /// It is to take the candidate at this step.
    fn is_in(&self, rollout: &RolloutStatus) -> bool {
        let by_labels = || {
            let selected = self.part.and_then(|part| part.selected);
            selected.is_some_and(|selected| selected <= rollout.step)
        };
        let in_step = || self.by_position(rollout) || by_labels() || self.takes(rollout);
        rollout.is_for_all() || (self.host.spec.on_node && in_step())
    }

    fn by_position(&self, rollout: &RolloutStatus) -> bool {
        rollout.bound.is_some_and(|bound| self.position <= bound)
    }
}

impl RolloutStatus {
    /// The steps may have changed meanwhile.
    fn adopt(&mut self, plan: &Rollout) {
        let steps = plan.steps.len() as u64;
        self.step = match self.is_for_all() && self.steps > 0 {
            true => steps + 1,
            false => self.step.min(steps),
        };
        self.steps = steps;
        if self.phase == RolloutPhase::Promoted {
            self.step = steps + 1;
        }
    }

    /// Begins with another candidate; what was promoted last needs no steps.
    fn follow(&mut self, candidate: String, now: Timestamp) {
        self.candidate = candidate;
        self.attempt = 1;
        self.since = now;
        if digest(&self.stable) == self.candidate {
            return self.promoted("all hosts serve what was promoted before");
        }
        if self.phase != RolloutPhase::Paused {
            self.phase = RolloutPhase::Progressing;
        }
        self.step = 0;
        (self.bound, self.served_since) = (None, None);
    }

    fn promoted(&mut self, message: &str) {
        self.phase = RolloutPhase::Promoted;
        self.step = self.steps + 1;
        (self.bound, self.served_since) = (None, None);
        message.clone_into(&mut self.message);
    }

    fn fail(&mut self, message: String, now: Timestamp) {
        self.phase = RolloutPhase::Failed;
        self.since = now;
        self.message = message;
    }

    fn enter(&mut self, step: u64, now: Timestamp) {
        self.step = step;
        self.since = now;
        self.served_since = None;
        "begins".clone_into(&mut self.message);
    }

    /// Raises the bound until the share of the step is reached: hosts that are in stay in, and there is one at least.
    fn widen(&mut self, plan: &Rollout, seen: &[Seen<'_>]) {
        let step = usize::try_from(self.step).unwrap_or(usize::MAX);
        let mut shares = plan
            .steps
            .iter()
            .take(step)
            .filter_map(|it| match it.hosts {
                StepHosts::Percent(percent) => Some(u64::from(percent)),
                StepHosts::Labels(_) => None,
            });
        let Some(percent) = shares.next_back() else {
            return;
        };
        if percent >= WHOLE {
            self.bound = Some(u32::MAX);
            return;
        }
        let on_nodes = seen.iter().filter(|it| it.host.spec.on_node);
        let mut positions: Vec<u32> = on_nodes.map(|it| it.position).collect();
        positions.sort_unstable();
        let wanted = (positions.len() as u64 * percent).div_ceil(WHOLE).max(1);
        let last = usize::try_from(wanted - 1).unwrap_or(usize::MAX);
        self.bound = self.bound.max(positions.get(last).copied());
    }

    /// How many hosts of the step serve the candidate if all of them do, and what the step waits for otherwise.
    fn waits(&self, seen: &[Seen<'_>]) -> Result<u64, String> {
        let (mut members, mut served) = (0, 0);
        let mut first = None;
        for it in seen {
            let host = &it.host.spec.host;
            let counts = self.is_for_all() || it.host.spec.on_node;
            let has_seen = it.part.is_some_and(|part| part.candidate == self.candidate);
            if counts && !has_seen {
                first.get_or_insert_with(|| {
                    format!("{host}, which has not reported that it knows the change")
                });
            } else if it.is_in(self) {
                members += 1;
                if it.takes(self) && it.host.spec.report.phase == Phase::Serving {
                    served += 1;
                } else if it.takes(self) {
                    first.get_or_insert_with(|| format!("{host}: {}", it.host.reason()));
                } else {
                    first.get_or_insert_with(|| format!("{host}, which is to take it"));
                }
            }
        }
        match first {
            Some(first) => Err(format!(
                "{served} of {members} hosts of the step serve it; waits for {first}"
            )),
            None if members == 0 => Err(format!(
                "waits for a host of the step: no node is one of step {}",
                self.step
            )),
            None => Ok(served),
        }
    }
}

#[cfg(test)]
mod tests;
