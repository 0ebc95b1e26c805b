//! `wasmount check`: its flags, and the steps of admission with their results.

use super::show::{self, Table, Tone, harmless, microseconds, milliseconds};
use super::subject::{CacheFlags, SecretFlags, subject};
use crate::fault::Fault;
use crate::host::{Pools, Storage, Workbench, block_on};
use crate::telemetry::LogCapture;
use crate::visible;
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use wasmount_versions::{AdmissionReport, Admitted, Refusal, Step};

/// Run the admission of a component step by step, without serving it
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount check plugin.wasm --backend backend.yaml

The steps are a host's, in its order: the first rejection ends them. What only a host knows is not asked: its pools, and what the version offers
that runs there now. If the component imports pools, HTTP, attached disks, facts of all nodes or sealed secrets, and the document grants nothing
for one of these imports, this command exits with 1. A host serves such a component and warns, because some languages import what they never use.

Exit codes: 0 if it would serve, 1 if it would not, if grants are missing or the check could not be made, 64 for wrong flags or documents.")]
pub(crate) struct Flags {
    /// The component; it replaces `plugin.path` of the document
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// A StorageBackend document to check the component against
    #[arg(long, value_name = "FILE", env)]
    backend: PathBuf,

    #[command(flatten)]
    cache: CacheFlags,

    #[command(flatten)]
    secrets: SecretFlags,

    /// Print one JSON object
    #[arg(long, env)]
    json: bool,
}

/// Checks the component and prints the report.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    let mut configured = subject(&flags.file, Some(&flags.backend), &[])?;
    flags.secrets.put(&mut configured)?;
    let cache = flags.cache.directory()?;
    drop(LogCapture::listen());
    let (report, admitted) = block_on(async {
        let workbench =
            Workbench::set_up(configured, &Pools::Closed, cache, Storage::Granted).await?;
        let mut report = AdmissionReport::default();
        let admitted = workbench.admit(&mut report).await;
        Ok((report, admitted))
    })?;
    let as_text = |_: &Value| as_text(&report, &admitted);
    show::answer(flags.json, &as_json(&report, &admitted), as_text)?;
    match admitted {
        Ok(admitted) if admitted.ungranted.is_empty() => Ok(()),
        Ok(_) | Err(_) => Err(Fault::Found),
    }
}

/// The outcome of a step in one word, and its message; the steps after a rejection are skipped.
fn outcome(report: &AdmissionReport, step: Step) -> (&'static str, &str, Option<Duration>) {
    let taken = report.steps().iter().find(|taken| taken.step == step);
    match taken.map(|taken| (&taken.outcome, taken.took)) {
        Some((Ok(message), took)) => ("ok", message, Some(took)),
        Some((Err(why), took)) => ("refused", why, Some(took)),
        None => ("skipped", "", None),
    }
}

fn as_json(report: &AdmissionReport, admitted: &Result<Admitted, Refusal>) -> Value {
    let steps = Step::ALL.iter().map(|&step| {
        let (label, message, took) = outcome(report, step);
        json!({
            "step": step.as_str(),
            "outcome": label,
            "said": message,
            "microseconds": took.map(microseconds),
        })
    });
    let refusal = admitted.as_ref().err();
    json!({
        "serves": admitted.is_ok(),
        "kind": refusal.map(|refusal| refusal.kind().as_str()),
        "reason": refusal.map(ToString::to_string),
        "ungranted": admitted.as_ref().map_or(&[][..], |it| it.ungranted.as_slice()),
        "warnings": admitted.as_ref().map_or(&[][..], |it| it.warnings.as_slice()),
        "steps": steps.collect::<Vec<_>>(),
    })
}

fn as_text(report: &AdmissionReport, admitted: &Result<Admitted, Refusal>) -> String {
    let mut table = Table::default();
    for &step in Step::ALL {
        let (label, message, took) = outcome(report, step);
        let tone = match label {
            "ok" => Tone::Good,
            "refused" => Tone::Bad,
            _ => Tone::Quiet,
        };
        // A rejection is shown in full, below the steps.
        let message = match label {
            "refused" => String::new(),
            _ => harmless(message),
        };
        let label = tone.paint(&format!("{label:8}"));
        let took = took.map(milliseconds).unwrap_or_default();
        let line = format!("{label} {took:>11}  {message}");
        table.row(step.as_str(), line.trim_end());
    }
    match admitted {
        Ok(admitted) => {
            let verdict = match admitted.ungranted.is_empty() {
                true => Tone::Good.paint("this host would serve it"),
                false => Tone::Bad.paint("the document does not grant what it imports"),
            };
            table.row("verdict", verdict);
            let warnings = admitted.warnings.iter().map(|it| visible::line(it));
            table.rows("warning", warnings.collect());
        }
        Err(refusal) => {
            table.row("verdict", Tone::Bad.paint("this host would refuse it"));
            table.row("reason", visible::line(&refusal.to_string()));
        }
    }
    table.print()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_after_a_refusal_are_skipped() {
        let mut report = AdmissionReport::default();
        let size = report.take(Step::Size, Ok::<_, Refusal>(7), |bytes| {
            format!("{bytes} bytes")
        });
        assert_eq!(size.unwrap(), 7);
        let digest = report.take(Step::Digest, Err::<(), _>("another one"), |()| {
            String::new()
        });
        digest.unwrap_err();
        let labels: Vec<_> = Step::ALL
            .iter()
            .map(|&step| outcome(&report, step).0)
            .collect();
        assert_eq!(labels.get(..3), Some(&["ok", "refused", "skipped"][..]));
        assert!(labels.iter().skip(2).all(|label| *label == "skipped"));
        let refused = Err(Refusal::OtherDigest {
            expected: "sha256:1".to_owned(),
            found: "sha256:2".to_owned(),
        });
        let text = anstream::adapter::strip_str(&as_text(&report, &refused)).to_string();
        assert!(
            text.contains("reason      the plugin has the digest"),
            "{text}"
        );
        assert_eq!(as_json(&report, &refused)["kind"], "digest");
    }
}
