//! csi-sanity, the test suite of the CSI project, against running hosts.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command;
use xtask::failure::Failure;
use xtask::files;
use xtask::tools::Tool;
use xtask::workspace::Workspace;

/// Size of a volume unless a test says otherwise: csi-sanity's own default of 10 GiB is more than a small machine can promise.
const VOLUME_BYTES: u64 = 64 << 20;

/// The message of a spec whose connection was ready too early: `utils.Connect` of csi-test reads the state, then waits for another state; a
/// connection that is ready before the first read never changes, and after a minute counts as failed.
const MISSED_CONNECTION: &str = "Connection timed out";

/// How often the suite runs if it misses its connection, which happens on a busy machine.
const RUNS: u32 = 3;

/// A value in every map of secrets that the suite sends; it must not appear anywhere.
pub const SECRET: &str = "correct-horse-battery-staple";

/// The maps of secrets that the suite supports, one for each RPC; 5.4 does not support the last one and ignores it.
const SECRETS: [&str; 13] = [
    "CreateVolumeSecret",
    "DeleteVolumeSecret",
    "ControllerPublishVolumeSecret",
    "ControllerUnpublishVolumeSecret",
    "ControllerValidateVolumeCapabilitiesSecret",
    "NodeStageVolumeSecret",
    "NodePublishVolumeSecret",
    "CreateSnapshotSecret",
    "DeleteSnapshotSecret",
    "ControllerExpandVolumeSecret",
    "ControllerModifyVolumeSecret",
    "ListSnapshotsSecret",
    "GetSnapshotSecret",
];

/// One run of the suite.
#[derive(Debug)]
pub struct SanityRun<'a> {
    /// The version of the suite.
    pub tool: Tool,
    /// The socket of the driver, or of its node service.
    pub endpoint: &'a Path,
    /// The socket of its controller service, if it differs.
    pub controller_endpoint: Option<&'a Path>,
    /// A directory below a path root of the node: mounts and staging paths are made in it.
    pub directory: &'a Path,
    /// `mount` or `block`.
    pub access_type: &'a str,
    /// Parameters of every volume.
    pub parameters: &'a [(&'a str, &'a str)],
    /// Mutable parameters of volumes that are created with some, or modified.
    pub mutable_parameters: &'a [(&'a str, &'a str)],
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct SanityOutcome {
    /// Specs that passed.
    pub passed: usize,
    /// Specs that failed, with the reason.
    pub failed: Vec<String>,
    /// Specs that skipped themselves, since the driver does not offer the tested service, with the reason.
    pub skipped: Vec<String>,
    /// The whole output.
    pub output: String,
}

impl SanityRun<'_> {
    /// Builds the tool if necessary, runs it, and reads its report. It runs again if a spec missed its connection.
    pub fn run(&self) -> Result<SanityOutcome, Failure> {
        self.run_with(VOLUME_BYTES)
    }

    /// The same with volumes of this many bytes, for storage with a larger unit; they are expanded to twice as many.
    pub fn run_with(&self, volume_bytes: u64) -> Result<SanityOutcome, Failure> {
        let tool = self.tool.build(&Workspace::locate()?)?;
        let mut outcome = self.run_once(&tool, volume_bytes)?;
        for _ in 1..RUNS {
            if !outcome.missed_connection() {
                break;
            }
            outcome = self.run_once(&tool, volume_bytes)?;
        }
        Ok(outcome)
    }

    fn run_once(&self, tool: &Path, volume_bytes: u64) -> Result<SanityOutcome, Failure> {
        let report = self.directory.join("sanity-report.json");
        let output = command::try_read(&mut self.command(tool, &report, volume_bytes)?)?;
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        printed.push_str(&String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(&report).map_err(|error| {
            Failure::Unexpected(format!(
                "csi-sanity wrote no report ({error}); it said:\n{printed}"
            ))
        })?;
        let mut outcome = parse(&text).ok_or_else(|| {
            Failure::Unexpected(format!(
                "csi-sanity's report is not Ginkgo's; it said:\n{printed}"
            ))
        })?;
        outcome.output = printed;
        Ok(outcome)
    }

    fn command(&self, tool: &Path, report: &Path, volume_bytes: u64) -> Result<Command, Failure> {
        let unix = |socket: &Path| format!("unix://{}", socket.display());
        let below = |name: &str| -> PathBuf { self.directory.join(name) };
        let expanded_bytes = volume_bytes.saturating_mul(2);
        let mut command = Command::new(tool);
        command.args(["--csi.endpoint", &unix(self.endpoint)]);
        if let Some(socket) = self.controller_endpoint {
            command.args(["--csi.controllerendpoint", &unix(socket)]);
        }
        command
            .arg("--csi.mountdir")
            .arg(below("sanity-mount"))
            .arg("--csi.stagingdir")
            .arg(below("sanity-staging"))
            .args(["--csi.testvolumesize", &volume_bytes.to_string()])
            .args(["--csi.testvolumeexpandsize", &expanded_bytes.to_string()])
            .args(["--csi.testvolumeaccesstype", self.access_type])
            .arg("--csi.testnodevolumeattachlimit")
            .arg("--csi.testvolumeparameters")
            .arg(self.written("parameters", &map(self.parameters))?)
            .arg("--csi.testvolumemutableparameters")
            .arg(self.written("mutable-parameters", &map(self.mutable_parameters))?)
            .arg("--csi.secrets")
            .arg(self.written("secrets", &secrets())?)
            .arg("--ginkgo.no-color")
            .arg("--ginkgo.json-report")
            .arg(report);
        Ok(command)
    }

    fn written(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.directory.join(format!("sanity-{name}.yaml"));
        files::write(&path, text).map(|()| path)
    }
}

impl SanityOutcome {
    fn missed_connection(&self) -> bool {
        let mut failed = self.failed.iter();
        failed.any(|why| why.contains(MISSED_CONNECTION))
    }
}

/// A YAML map of strings.
fn map(entries: &[(&str, &str)]) -> String {
    let entry = |(key, value): &(&str, &str)| format!("{key}: {value:?}");
    let entries: Vec<_> = entries.iter().map(entry).collect();
    format!("{{{}}}\n", entries.join(", "))
}

fn secrets() -> String {
    let line = |name: &&str| format!("{name}: {{ password: {SECRET:?} }}\n");
    SECRETS.iter().map(line).collect()
}

/// Ginkgo's JSON report: a list of suites, each with its specs. Set-up nodes count only when they fail.
fn parse(text: &str) -> Option<SanityOutcome> {
    let report: Value = serde_json::from_str(text).ok()?;
    let mut outcome = SanityOutcome::default();
    for suite in report.as_array()? {
        for spec in suite.get("SpecReports")?.as_array()? {
            let is_spec = spec.get("LeafNodeType")?.as_str()? == "It";
            match spec.get("State")?.as_str()? {
                "passed" if is_spec => outcome.passed += 1,
                "skipped" if is_spec => outcome.skipped.push(describe(spec)),
                // csi-sanity itself marks these as not to be run.
                "passed" | "skipped" | "pending" => {}
                _ => outcome.failed.push(describe(spec)),
            }
        }
    }
    Some(outcome)
}

/// `ListVolumes > should fail when ..: why`.
fn describe(spec: &Value) -> String {
    let words =
        |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let containers = spec
        .get("ContainerHierarchyTexts")
        .and_then(Value::as_array);
    let mut names: Vec<_> = containers
        .into_iter()
        .flatten()
        .map(|it| words(Some(it)))
        .collect();
    names.push(words(spec.get("LeafNodeText")));
    let why = words(spec.pointer("/Failure/Message"));
    format!("{}: {why}", names.join(" > "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"[{"SpecReports": [
        {"LeafNodeType": "It", "LeafNodeText": "works", "ContainerHierarchyTexts": ["Node"], "State": "passed"},
        {"LeafNodeType": "It", "LeafNodeText": "is offered", "ContainerHierarchyTexts": ["Node"], "State": "skipped",
         "Failure": {"Message": "not offered"}},
        {"LeafNodeType": "It", "LeafNodeText": "pages", "ContainerHierarchyTexts": null, "State": "pending"},
        {"LeafNodeType": "It", "LeafNodeText": "dies", "ContainerHierarchyTexts": ["A", "B"], "State": "panicked",
         "Failure": {"Message": "nil"}},
        {"LeafNodeType": "BeforeSuite", "LeafNodeText": "", "ContainerHierarchyTexts": null, "State": "passed"}
    ]}]"#;

    #[test]
    fn specs_are_counted_by_their_state() {
        let outcome = parse(REPORT).unwrap();
        assert_eq!(outcome.passed, 1);
        assert_eq!(outcome.skipped, ["Node > is offered: not offered"]);
        assert_eq!(outcome.failed, ["A > B > dies: nil"]);
    }

    #[test]
    fn what_is_not_a_report_is_refused() {
        for text in ["", "{}", r#"[{"SpecReports": [{}]}]"#] {
            assert!(parse(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn a_run_that_missed_a_connection_is_repeated() {
        let outcome = |failed: &[&str]| SanityOutcome {
            failed: failed.iter().map(|it| (*it).to_owned()).collect(),
            ..SanityOutcome::default()
        };
        let missed = "Node > works: Unexpected error: Connection timed out";
        assert!(outcome(&[missed]).missed_connection());
        assert!(!outcome(&[]).missed_connection());
        // A spec that fails for another reason fails again.
        assert!(outcome(&[missed, "B > dies: nil"]).missed_connection());
        assert!(!outcome(&["B > dies: nil"]).missed_connection());
    }
}
