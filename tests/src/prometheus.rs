//! Prometheus' own parsers of scrapes and queries, and its evaluation of alert rules.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use xtask::failure::Failure;
use xtask::tools::PROMETHEUS;
use xtask::workspace::Workspace;

/// Metrics by name, with the labels that they have, or by which a query selects and groups them.
pub type Metrics = BTreeMap<String, BTreeSet<String>>;

#[derive(Deserialize)]
struct Metric {
    name: String,
    labels: Vec<String>,
}

/// The series of a scrape. Fails if Prometheus would reject it.
pub fn scraped(content_type: &str, text: &str) -> Result<Metrics, Failure> {
    metrics(&run(&["series", content_type], text)?)
}

/// The metrics that queries need. Fails if one cannot be parsed.
pub fn queried<'a>(queries: impl IntoIterator<Item = &'a str>) -> Result<Metrics, Failure> {
    let lines: Vec<_> = queries.into_iter().collect();
    metrics(&run(&["selectors"], &lines.join("\n"))?)
}

/// The alerts of a file of rules that fire after this time with these series (`load` of Prometheus' promqltest).
pub fn firing(rules: &Path, after: &str, load: &str) -> Result<Vec<String>, Failure> {
    let names = run(&["firing", &rules.to_string_lossy(), after], load)?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

fn metrics(json: &str) -> Result<Metrics, Failure> {
    let all: Vec<Metric> = serde_json::from_str(json)
        .map_err(|error| Failure::Unexpected(format!("{error} in {json}")))?;
    let mut metrics = Metrics::new();
    for Metric { name, labels } in all {
        metrics.entry(name).or_default().extend(labels);
    }
    Ok(metrics)
}

fn run(arguments: &[&str], input: &str) -> Result<String, Failure> {
    let failed = || Failure::cannot(format!("run prometheus {arguments:?}"));
    let program = PROMETHEUS.build(&Workspace::locate()?)?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed())?;
    // It reads all of its input before it writes.
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).map_err(failed())?;
    }
    let output = child.wait_with_output().map_err(failed())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(Failure::Unexpected(format!(
            "prometheus {arguments:?}: {}",
            text(&output.stderr)
        ))),
    }
}
