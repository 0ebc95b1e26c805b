//! Prometheus' own parsers of scrapes and queries, and its evaluation of alert rules, over given series or over those of a running host.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use xtask::cluster::Cluster;
use xtask::command;
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

/// An alert that fires.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Alert {
    /// With its name, as `alertname`.
    pub labels: BTreeMap<String, String>,
    /// What a person is told.
    pub annotations: BTreeMap<String, String>,
}

/// A curve of a query.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Curve {
    /// The labels that the query leaves.
    pub labels: BTreeMap<String, String>,
    /// Seconds since the first scrape, and values.
    pub points: Vec<(f64, f64)>,
}

/// A Prometheus that scrapes one target five times a second; it ends with this value.
#[derive(Debug)]
pub struct Recording(Child);

/// A Prometheus in the network of a cluster, which scrapes one target each second; it ends with this value.
#[derive(Debug)]
pub struct Watch {
    child: Child,
    /// Its end is the program's.
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Recording {
    /// Begins to scrape.
    pub fn start(url: &str, queries: &[String]) -> Result<Self, Failure> {
        let failed = || Failure::cannot("start prometheus");
        let program = PROMETHEUS.build(&Workspace::locate()?)?;
        let mut child = Command::new(program)
            .args(["panels", url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed())?;
        if let Some(stdin) = &mut child.stdin {
            let line = serde_json::json!(queries).to_string() + "\n";
            stdin.write_all(line.as_bytes()).map_err(failed())?;
        }
        Ok(Self(child))
    }

    /// Scrapes once more, and returns the curves of each query.
    pub fn end(mut self) -> Result<Vec<Vec<Curve>>, Failure> {
        drop(self.0.stdin.take());
        let mut text = String::new();
        if let Some(stdout) = &mut self.0.stdout {
            let read = stdout.read_to_string(&mut text);
            read.map_err(Failure::cannot("read what prometheus says"))?;
        }
        serde_json::from_str(&text)
            .map_err(|error| Failure::Unexpected(format!("{error} in {text:?} of prometheus")))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Watch {
    /// Starts one with a file of rules. From its first scrape on it sees what counters count.
    pub fn start(cluster: &Cluster, rules: &Path, url: &str) -> Result<Self, Failure> {
        let program = PROMETHEUS.build(&Workspace::locate()?)?;
        let mut watch = cluster.enter(&program.display().to_string());
        watch.arg("watch").arg(rules).arg(url);
        watch.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = watch.spawn().map_err(command::cannot_start(&watch))?;
        let missing = || Failure::Unexpected("prometheus has no pipes".to_owned());
        Ok(Self {
            stdin: child.stdin.take(),
            lines: BufReader::new(child.stdout.take().ok_or_else(missing)?),
            child,
        })
    }

    /// Waits for the first scrape, later until other alerts fire, and returns those that fire now. Fails if nothing changes for ten minutes.
    pub fn firing(&mut self) -> Result<Vec<Alert>, Failure> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line);
        read.map_err(Failure::cannot("read what prometheus says"))?;
        serde_json::from_str(&line)
            .map_err(|error| Failure::Unexpected(format!("{error} in {line:?} of prometheus")))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // If it does not end so, it ends with the cluster.
        let _ = self.child.wait();
    }
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
