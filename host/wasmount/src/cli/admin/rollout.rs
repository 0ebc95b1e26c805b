//! `wasmount rollout`: how a change of a StorageBackend object reaches the hosts of the cluster. It asks the API server, and no host.

use super::FormFlags;
use super::table::{Cell, Table, ago};
use crate::cli::show::{self, Tone};
use crate::cli::transfer::wait;
use crate::fault::Fault;
use crate::visible;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use wasmount_core::document::{RolloutStep, StepHosts};
use wasmount_core::text::short_digest;
use wasmount_kubernetes::ApiAccess;
use wasmount_kubernetes::storage_backend::{
    HostState, Phase, RolloutAdmin, RolloutCommand, RolloutError, RolloutPhase, RolloutStatus,
    RolloutView,
};

/// An hour, in seconds: the elected host carries a command out within seconds.
const LONGEST_PATIENCE_SECONDS: u64 = 3_600;
/// Most hosts that are named one by one.
const NAMED: usize = 10;

/// Show, pause, resume or undo the rollout of a StorageBackend on all hosts, through the API server
#[derive(Debug, Args)]
#[command(after_help = "\
Example, where it stands and what it waits for:
  $ wasmount rollout status nfs

Example, back to what served before, on all hosts:
  $ wasmount rollout undo nfs

A command is an annotation of the object; the elected host carries it out. `pause` stays at the step, also for the next change, and a
host that fails still ends the rollout. `resume` goes on; after a failure or an undo it begins again with the first step. `undo` returns
also from a change that was promoted.

Exit codes: 0, 64 for wrong flags or an object without a rollout, 1 for any other failure, such as a command that means nothing now.")]
pub(crate) struct Flags {
    /// What to do
    #[arg(value_name = "COMMAND")]
    action: Action,

    /// Name of the StorageBackend
    #[arg(value_name = "NAME")]
    name: String,

    /// Kubeconfig for the API server [default: that of kubectl; in a pod, its service account]
    #[arg(long, value_name = "FILE", env)]
    kubeconfig: Option<PathBuf>,

    /// Seconds to wait until a command is carried out
    #[arg(long, value_name = "SECONDS", env, default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(..=LONGEST_PATIENCE_SECONDS))]
    patience: u64,

    #[command(flatten)]
    form: FormFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Show steps, hosts and what it waits for
    Status,
    /// Stay at this step
    Pause,
    /// Go on, or begin again
    Resume,
    /// Return all hosts to what served before
    Undo,
}

/// Carries it out.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let Flags {
        action,
        name,
        kubeconfig,
        patience,
        form,
    } = flags;
    let access = kubeconfig.map_or(ApiAccess::AsKubectl, ApiAccess::Kubeconfig);
    let patience = Duration::from_secs(patience);
    let command = match action {
        Action::Status => None,
        Action::Pause => Some(RolloutCommand::Pause),
        Action::Resume => Some(RolloutCommand::Resume),
        Action::Undo => Some(RolloutCommand::Undo),
    };
    let asked = wait(ask(&access, &name, command, patience))?;
    let (value, text) = asked.map_err(|error| fault(&name, &error))?;
    show::answer(form.json, &value, |_| text)
}

/// The answer, for programs and for people.
async fn ask(
    access: &ApiAccess,
    name: &str,
    command: Option<RolloutCommand>,
    patience: Duration,
) -> Result<(Value, String), RolloutError> {
    let admin = RolloutAdmin::connect(access).await?;
    Ok(match command {
        None => {
            let view = admin.view(name).await?;
            (to_json(&view.status, &view.hosts), whole(name, &view))
        }
        Some(command) => {
            let status = admin.command(name, command, patience).await?;
            (to_json(&status, &[]), head(name, &status))
        }
    })
}

fn fault(name: &str, error: &RolloutError) -> Fault {
    match error {
        RolloutError::NoObject { .. } | RolloutError::NoSteps { .. } => {
            Fault::flag("NAME", name, error)
        }
        RolloutError::NoServer => Fault::flag("--kubeconfig", "", error),
        _ => Fault::Failed(error.to_string()),
    }
}

/// The state without the documents that hosts return to, and hosts if they were read.
fn to_json(status: &RolloutStatus, hosts: &[HostState]) -> Value {
    let mut value = json!(status);
    if let Some(keys) = value.as_object_mut() {
        keys.retain(|key, _| key != "stable" && key != "previous");
        if !hosts.is_empty() {
            keys.insert("hosts".to_owned(), json!(hosts));
        }
    }
    value
}

/// Step, phase, age and message in one line.
fn head(name: &str, status: &RolloutStatus) -> String {
    let step = status.step_in_words();
    let tone = match status.phase {
        RolloutPhase::Promoted => Tone::Good,
        RolloutPhase::Failed => Tone::Bad,
        RolloutPhase::Progressing => Tone::Plain,
        _ => Tone::Warning,
    };
    let line = format!(
        "{name}: {step}, {} since {}: {}",
        status.phase.name(),
        ago(status.since),
        status.message
    );
    format!("{}\n", tone.paint(&visible::line(&line)))
}

/// All that is known.
fn whole(name: &str, view: &RolloutView) -> String {
    let mut text = head(name, &view.status);
    let mut steps = Table::new(["STEP", "HOSTS", "PAUSE", "STATE"]);
    let rows = view.plan.steps.iter().zip(1..);
    for (step, number) in rows {
        let state = state(&view.status, number);
        steps.row([
            number.to_string().into(),
            hosts_of(step).into(),
            span(step.pause).into(),
            state,
        ]);
    }
    let state = state(&view.status, view.plan.steps.len() as u64 + 1);
    steps.row([
        "all".into(),
        "all, controllers too".into(),
        "".into(),
        state,
    ]);
    text.push_str(&steps.text());

    let mut counted: BTreeMap<(bool, &str, &str), u64> = BTreeMap::new();
    for host in &view.hosts {
        let version = host.version.as_deref().unwrap_or("-");
        let digest = host.digest.as_deref().map_or("-", short_digest);
        *counted.entry((host.takes, version, digest)).or_default() += 1;
    }
    let mut versions = Table::new(["SPEC", "VERSION", "DIGEST", "HOSTS"]);
    for ((takes, version, digest), hosts) in counted.into_iter().rev() {
        let spec = if takes { "new" } else { "before" };
        versions.row([
            spec.into(),
            version.into(),
            digest.into(),
            hosts.to_string().into(),
        ]);
    }
    text.push_str(&versions.text());

    let late = |it: &&HostState| it.phase != Phase::Serving;
    for host in view.hosts.iter().filter(late).take(NAMED) {
        let spec = if host.takes {
            "the new spec"
        } else {
            "the spec before"
        };
        let line = format!(
            "{} with {spec}: {}: {} (reported {})",
            host.host,
            host.phase.name(),
            host.reason,
            host.seen
        );
        text.push_str(&format!("{}\n", visible::line(&line)));
    }
    match view.hosts.iter().filter(late).count().saturating_sub(NAMED) {
        0 => {}
        more => text.push_str(&format!(
            "and {more} other hosts do not serve what they should\n"
        )),
    }
    text
}

/// How a step stands.
fn state(status: &RolloutStatus, number: u64) -> Cell {
    match status.phase {
        RolloutPhase::Promoted => Cell::toned("done", Tone::Good),
        _ if number < status.step => Cell::toned("done", Tone::Good),
        phase if number == status.step => Cell::toned(phase.name(), Tone::Warning),
        _ => "".into(),
    }
}

fn hosts_of(step: &RolloutStep) -> String {
    match &step.hosts {
        StepHosts::Percent(percent) => format!("{percent}%"),
        StepHosts::Labels(labels) => {
            let labels: Vec<_> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
            labels.join(",")
        }
    }
}

/// A duration in its largest whole unit.
fn span(pause: Duration) -> String {
    let seconds = pause.as_secs();
    match seconds {
        _ if pause.subsec_millis() > 0 => format!("{}ms", pause.as_millis()),
        0 => "none".to_owned(),
        _ if seconds.is_multiple_of(3_600) => format!("{}h", seconds / 3_600),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;
    use wasmount_core::document::Rollout;

    fn view() -> RolloutView {
        let host = |name: &str, takes, phase: Phase| HostState {
            host: name.to_owned(),
            phase,
            version: Some(if takes { "2.0" } else { "1.0" }.to_owned()),
            digest: Some(format!("sha256:{}", "0123456789ab".repeat(5))),
            takes,
            reason: "a\nreason".to_owned(),
            seen: "2026-01-01T00:00:00Z".to_owned(),
        };
        let labels = [("tier".to_owned(), "gold".to_owned())].into();
        let step = |hosts, seconds| RolloutStep {
            hosts,
            pause: Duration::from_secs(seconds),
        };
        RolloutView {
            plan: Rollout {
                steps: vec![
                    step(StepHosts::Percent(10), 600),
                    step(StepHosts::Labels(labels), 0),
                ],
            },
            status: RolloutStatus {
                candidate: "c".to_owned(),
                attempt: 1,
                step: 2,
                steps: 2,
                phase: RolloutPhase::Paused,
                progress: "2/2 Paused".to_owned(),
                since: Timestamp::now(),
                served_since: None,
                bound: None,
                message: "waits".to_owned(),
                command: None,
                stable: json!({ "settings": { "password": "x" } }),
                previous: Some(json!({})),
            },
            hosts: vec![
                host("n1", true, Phase::Serving),
                host("n2", true, Phase::Loading),
                host("n3", false, Phase::Serving),
            ],
        }
    }

    #[test]
    fn steps_versions_and_late_hosts_are_shown() {
        let text = whole("nfs", &view());
        let text = anstream::adapter::strip_str(&text).to_string();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("nfs: step 2 of 2, Paused since "));
        assert!(lines[0].ends_with(": waits"), "{text}");
        assert_eq!(
            &lines[1..],
            [
                "STEP  HOSTS                 PAUSE  STATE",
                "1     10%                   10m    done",
                "2     tier=gold             none   Paused",
                "all   all, controllers too         ",
                "SPEC    VERSION  DIGEST        HOSTS",
                "new     2.0      0123456789ab  2",
                "before  1.0      0123456789ab  1",
                "n2 with the new spec: Loading: a\\nreason (reported 2026-01-01T00:00:00Z)",
            ],
            "{text}"
        );
    }

    #[test]
    fn documents_are_not_shown_to_programs_either() {
        let value = to_json(&view().status, &view().hosts);
        assert_eq!(value["hosts"][1]["phase"], "Loading");
        assert_eq!(value["phase"], "Paused");
        assert!(!value.to_string().contains("password"), "{value}");
    }

    #[test]
    fn a_pause_is_shown_in_its_largest_whole_unit() {
        for (milliseconds, text) in [
            (0, "none"),
            (1_500, "1500ms"),
            (90_000, "90s"),
            (600_000, "10m"),
            (86_400_000, "24h"),
        ] {
            assert_eq!(span(Duration::from_millis(milliseconds)), text);
        }
    }
}
