//! The report of a benchmark for people.

use crate::cli::show::{Table, Tone, bytes, harmless};
use crate::visible;
use wasmount_bench::report::{Fact, Report, Target, milliseconds};

/// Width of the column of names, and of each column of figures.
const NAME: usize = 26;
const FIGURE: usize = 10;

/// The text.
pub(super) fn of(report: &Report) -> String {
    let mut text = String::new();
    for target in &report.targets {
        text += &facts(report, target).print();
        text.push('\n');
        text += &durations(target);
        text.push('\n');
    }
    if !report.ratios.is_empty() {
        text += &line("first / second", &["ratio", "from", "to"], Tone::Heading);
        for it in &report.ratios {
            let figures = [it.ratio, it.low, it.high].map(|it| format!("{it:.3}"));
            text += &line(&it.what, &figures, Tone::Plain);
        }
    }
    text
}

fn facts(report: &Report, target: &Target) -> Table {
    let mut table = Table::default();
    let driver = format!("{} {}", target.driver, target.version);
    table.row("driver", harmless(&driver));
    table.row("socket", harmless(&target.socket.display().to_string()));
    let connections = match report.connections {
        "kubelet" => "a new connection for each Node RPC",
        _ => "one connection",
    };
    let (mix, at_once) = (report.mix, report.concurrency);
    table.row("mix", format!("{mix}, {at_once} at a time, {connections}"));
    if report.existing > 0 || report.published > 0 {
        let (existing, published) = (report.existing, report.published);
        let beside = format!("{existing} existing volumes, {published} published volumes");
        table.row("beside", beside);
    }
    let repetitions = (target.repetitions, target.repetitions_per_second);
    table.row(
        "repetitions",
        format!(
            "{} in {:.1} s: {:.1}/s, {:.1} RPC/s",
            repetitions.0, target.seconds, repetitions.1, target.rpcs_per_second
        ),
    );
    if report.interrupted {
        table.row("interrupted", Tone::Bad.paint("yes"));
    }
    table.row(
        "server",
        match &target.server {
            Fact::Known(server) => {
                let written = server.written_bytes_per_repetition;
                let written = written.map(|it| format!(", {} written", bytes(it as u64)));
                format!(
                    "{:.2} ms CPU{} a repetition; {} resident, peak {}",
                    server.cpu_ms_per_repetition,
                    written.unwrap_or_default(),
                    bytes(server.resident_bytes),
                    bytes(server.peak_resident_bytes)
                )
            }
            Fact::Unknown(reason) => format!("unknown: {}", harmless(reason)),
        },
    );
    table.row(
        "durable waits",
        match &target.durable_waits {
            Fact::Known(waits) => format!(
                "{:.1} a repetition ({}, {} one at a time)",
                waits.per_repetition, waits.source, waits.repetitions
            ),
            Fact::Unknown(reason) => format!("unknown: {}", harmless(reason)),
        },
    );
    if let Some(disk) = &report.disk {
        table.row(
            "disk",
            format!(
                "fdatasync of 4 KiB: {} ms (median of {}, {})",
                milliseconds(disk.fdatasync_p50_us),
                disk.appends,
                harmless(&disk.directory.display().to_string())
            ),
        );
    }
    // Whole: the paths and ids in them are needed.
    let whole = |texts: &[String]| texts.iter().map(|it| visible::line(it)).collect();
    table.rows("errors", whole(&target.errors));
    table.rows("left", whole(&target.left));
    table
}

fn durations(target: &Target) -> String {
    let heads = ["answered", "failed", "p50", "p90", "p99", "p99.9", "max"];
    let mut text = line("ms", &heads, Tone::Heading);
    for times in target.rpcs.iter().chain(&target.whole) {
        let mut cells = vec![times.count.to_string(), times.failed.to_string()];
        cells.extend(times.milliseconds());
        let tone = if times.failed > 0 {
            Tone::Bad
        } else {
            Tone::Plain
        };
        text += &line(times.rpc, &cells, tone);
    }
    text
}

fn line(name: &str, figures: &[impl AsRef<str>], tone: Tone) -> String {
    let mut line = format!("{name:NAME$}");
    for figure in figures {
        line += &format!("{:>FIGURE$}", figure.as_ref());
    }
    tone.paint(line.trim_end()) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use wasmount_bench::report::Times;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_report_is_a_table_and_foreign_texts_are_harmless() {
        let times = Times {
            rpc: "Probe",
            count: 20,
            failed: 1,
            p50_us: 170.0,
            p90_us: 200.9,
            p99_us: 1500.0,
            p999_us: 2000.0,
            max_us: 12_000.0,
            curve: Vec::new(),
        };
        let unanswered = Times {
            rpc: "DeleteVolume",
            count: 0,
            ..times.clone()
        };
        let target = Target {
            socket: PathBuf::from("/a/csi.sock"),
            driver: "a\u{1b}[2J".to_owned(),
            version: "1".to_owned(),
            seconds: 2.0,
            repetitions: 20,
            repetitions_per_second: 10.0,
            rpcs_per_second: 10.0,
            rpcs: vec![times, unanswered],
            whole: None,
            per_second: Vec::new(),
            failed: 1,
            errors: vec!["Probe: Internal: x".to_owned()],
            left: vec!["the volume v".to_owned()],
            server: Fact::Unknown("no peer".to_owned()),
            durable_waits: Fact::Unknown("not counted".to_owned()),
        };
        let report = Report {
            mix: "probe",
            connections: "one",
            concurrency: 8,
            existing: 10,
            published: 2,
            interrupted: true,
            disk: None,
            targets: vec![target],
            ratios: Vec::new(),
        };
        assert_eq!(
            plain(&of(&report)),
            "\
driver         a\\u{1b}[2J 1
socket         /a/csi.sock
mix            probe, 8 at a time, one connection
beside         10 existing volumes, 2 published volumes
repetitions    20 in 2.0 s: 10.0/s, 10.0 RPC/s
interrupted    yes
server         unknown: no peer
durable waits  unknown: not counted
errors         Probe: Internal: x
left           the volume v

ms                          answered    failed       p50       p90       p99     p99.9       max
Probe                             20         1     0.170     0.201     1.500     2.000    12.000
DeleteVolume                       0         1         -         -         -         -         -

"
        );
    }
}
