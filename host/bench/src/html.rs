//! The page: one HTML file that loads nothing. Texts of drivers are escaped, and its policy forbids scripts and every request.

use crate::plot::{Axis, Curve, curves, intervals};
use crate::report::{Fact, Report, Target, Times, milliseconds};
use std::fmt::Display;

const HEAD: &str = r##"<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>CSI benchmark</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; max-width: 860px; margin: 2em auto; padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse; margin: .6em 0 } td, th { padding: .15em .8em .15em 0; text-align: right }
td:first-child, th:first-child { text-align: left } tr + tr { border-top: 1px solid #eee }
svg { width: 100%; height: auto } svg text { font-size: 12px; fill: #333 } .bad { color: #b00 } code { overflow-wrap: anywhere }
</style></head><body>
<h1>CSI benchmark</h1>
"##;
/// Nines of the quantile at the right end of a plot.
const LEAST_NINES: f64 = 2.0;

/// The page of a report.
pub fn page(report: &Report) -> String {
    let mut page = HEAD.to_owned();
    let connections = match report.connections {
        "kubelet" => "a new connection for each Node RPC, one for all others",
        _ => "one connection",
    };
    page += &format!(
        "<p>Mix <code>{}</code>, {} at a time, {connections}.</p>\n",
        report.mix, report.concurrency
    );
    if report.existing > 0 || report.published > 0 {
        let (existing, published) = (report.existing, report.published);
        page +=
            &format!("<p>Beside {existing} existing volumes and {published} published ones.</p>\n");
    }
    if report.interrupted {
        page += "<p class=\"bad\">The run was interrupted.</p>\n";
    }
    if let Some(disk) = &report.disk {
        page += &format!(
            "<p>The disk of <code>{}</code>: an append of 4 KiB with fdatasync takes {} ms (median of {}).</p>\n",
            escaped(disk.directory.display()),
            milliseconds(disk.fdatasync_p50_us),
            disk.appends
        );
    }
    if let [one, other] = report.targets.as_slice()
        && !report.ratios.is_empty()
    {
        page += &format!(
            "<h2>{} by {}</h2>\n<p>Ratios of the first to the second, with intervals of 95 %.</p>\n",
            escaped(&one.driver),
            escaped(&other.driver)
        );
        page += "<table><tr><th>figure</th><th>ratio</th><th>from</th><th>to</th></tr>\n";
        for it in &report.ratios {
            page += &format!(
                "<tr><td>{}</td><td>{:.2}</td><td>{:.2}</td><td>{:.2}</td></tr>\n",
                it.what, it.ratio, it.low, it.high
            );
        }
        page += "</table>\n";
        page += &intervals(&report.ratios);
    }
    for target in &report.targets {
        page += &section(target);
    }
    page + "</body></html>\n"
}

fn section(target: &Target) -> String {
    let mut html = format!(
        "<h2>{} {}</h2>\n<p><code>{}</code>: {} repetitions in {:.1} s, {:.1}/s; {:.1} RPC/s.</p>\n",
        escaped(&target.driver),
        escaped(&target.version),
        escaped(target.socket.display()),
        target.repetitions,
        target.seconds,
        target.repetitions_per_second,
        target.rpcs_per_second
    );
    html += &match &target.server {
        Fact::Known(server) => format!(
            "<p>Server: {:.2} ms of CPU time for a repetition, {:.1} MiB resident (peak {:.1} MiB).</p>\n",
            server.cpu_ms_per_repetition,
            mib(server.resident_bytes),
            mib(server.peak_resident_bytes)
        ),
        Fact::Unknown(reason) => format!("<p>Server: unknown ({}).</p>\n", escaped(reason)),
    };
    html += &match &target.durable_waits {
        Fact::Known(waits) => format!(
            "<p>Durable waits: {:.1} for a repetition ({}, {} one at a time).</p>\n",
            waits.per_repetition, waits.source, waits.repetitions
        ),
        Fact::Unknown(reason) => format!("<p>Durable waits: unknown ({}).</p>\n", escaped(reason)),
    };
    html += "<table><tr><th>RPC (ms)</th><th>answered</th><th>failed</th><th>p50</th><th>p90</th><th>p99</th><th>p99.9</th><th>max</th></tr>\n";
    for times in target.rpcs.iter().chain(&target.whole) {
        let cells = times
            .milliseconds()
            .map(|it| format!("<td>{it}</td>"))
            .concat();
        html += &format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td>{cells}</tr>\n",
            times.rpc, times.count, times.failed
        );
    }
    html += "</table>\n";
    for text in target.errors.iter().chain(&target.left) {
        html += &format!("<p class=\"bad\">{}</p>\n", escaped(text));
    }
    html + &latency(target) + &throughput(target)
}

/// Each RPC's durations over its quantiles, in nines: 90 %, 99 %, 99.9 %.
fn latency(target: &Target) -> String {
    let answered = || target.rpcs.iter().filter(|it| it.count > 0);
    let drawn: Vec<_> = answered().map(curve).collect();
    if drawn.is_empty() {
        return String::new();
    }
    let nines = answered().map(|it| (it.count as f64).log10().ceil());
    let high = nines.fold(LEAST_NINES, f64::max);
    let ticks = ["0 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"];
    let ticks = ticks
        .iter()
        .enumerate()
        .map(|(at, it)| (at as f64, (*it).to_owned()));
    let x = Axis {
        low: 0.0,
        high,
        ticks: ticks.filter(|(at, _)| *at <= high).collect(),
    };
    let values = drawn
        .iter()
        .flat_map(|it| it.points.iter().map(|(_, it)| *it));
    let y = Axis::of_powers(values);
    curves(&x, &y, "quantile", "ms", &drawn)
}

fn curve(times: &Times) -> Curve {
    let count = (times.count as f64).max(1.0);
    let points = times.curve.iter().filter_map(|(quantile, us)| {
        // The maximum is the quantile that so many calls show; smaller differences would be invented.
        let rest = (1.0 - quantile).max(1.0 / count);
        let is_shown = *quantile >= 1.0 || 1.0 - quantile >= 1.0 / count;
        is_shown.then(|| (-rest.log10(), (us / 1e3).max(1e-6).log10()))
    });
    Curve {
        name: times.rpc.to_owned(),
        points: points.collect(),
    }
}

/// Answered RPCs of each second.
fn throughput(target: &Target) -> String {
    // The last second is not a whole one.
    let counts = target.per_second.iter().enumerate();
    let counts = counts.take_while(|(at, _)| (*at + 1) as f64 <= target.seconds);
    let points: Vec<_> = counts.map(|(at, it)| (at as f64, *it as f64)).collect();
    if points.len() < 2 {
        return String::new();
    }
    let x = Axis::linear((points.len() - 1) as f64);
    let y = Axis::linear(points.iter().map(|it| it.1).fold(0.0, f64::max));
    let curve = Curve {
        name: "answered".to_owned(),
        points,
    };
    curves(&x, &y, "s", "RPC/s", &[curve])
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// As text of HTML, also within quotes.
fn escaped(text: impl Display) -> String {
    let mut html = String::new();
    for character in text.to_string().chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ratio::Ratio;
    use crate::report::{DurableWaits, ServerFacts};
    use hdrhistogram::Histogram;
    use std::path::PathBuf;

    fn report() -> Report {
        let mut times = Histogram::new(3).unwrap();
        (1..=1000).for_each(|it| times.record(it * 10_000).unwrap());
        let target = Target {
            socket: PathBuf::from("/a/csi.sock"),
            driver: "<script>alert(1)</script>".to_owned(),
            version: "1 & \"2\"".to_owned(),
            seconds: 3.0,
            repetitions: 1000,
            repetitions_per_second: 333.3,
            rpcs_per_second: 333.3,
            rpcs: vec![Times::of("Probe", &times, 2)],
            whole: None,
            per_second: vec![300, 400, 300],
            failed: 2,
            errors: vec!["Probe: Internal: <b>".to_owned()],
            left: Vec::new(),
            server: Fact::Known(ServerFacts {
                pids: vec![1],
                cpu_seconds: 1.0,
                cpu_ms_per_repetition: 1.0,
                resident_bytes: 1 << 20,
                peak_resident_bytes: 2 << 20,
                written_bytes_per_repetition: None,
            }),
            durable_waits: Fact::Known(DurableWaits {
                per_repetition: 4.0,
                repetitions: 10,
                source: "strace",
            }),
        };
        Report {
            mix: "probe",
            connections: "one",
            concurrency: 8,
            existing: 0,
            published: 0,
            interrupted: false,
            disk: None,
            targets: vec![target.clone(), target],
            ratios: vec![Ratio {
                what: "RPC/s".to_owned(),
                ratio: 1.0,
                low: 0.9,
                high: 1.1,
                rounds: 10,
            }],
        }
    }

    #[test]
    fn the_page_loads_nothing_and_shows_texts_as_texts() {
        let page = page(&report());
        for foreign in [
            "http:", "https:", "src=", "href=", "url(", "@import", "<script", "<b>",
        ] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt; 1 &amp; &quot;2&quot;"));
        assert!(page.contains("Probe: Internal: &lt;b&gt;"));
        // One of ratios, and of each socket one of durations and one of throughput.
        assert_eq!(page.matches("<svg").count(), 5);
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }

    #[test]
    fn a_curve_ends_at_the_longest_call_and_invents_none() {
        let mut times = Histogram::new(3).unwrap();
        (1..=10).for_each(|it| times.record(it * 1_000_000).unwrap());
        let points = curve(&Times::of("Probe", &times, 0)).points;
        let (nines, power) = points[points.len() - 1];
        assert!(
            (nines - 1.0).abs() < 1e-6 && (power - 1.0).abs() < 1e-3,
            "{points:?}"
        );
        assert!(
            points.iter().all(|(nines, _)| *nines <= 1.0 + 1e-6),
            "{points:?}"
        );
        assert!(points.is_sorted_by(|one, other| one.0 <= other.0));
    }

    #[test]
    fn a_report_in_json_says_what_is_unknown_and_why() {
        let mut report = report();
        assert!(!report.is_well());
        report.targets[0].server = Fact::Unknown("no peer".to_owned());
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["targets"][0]["server"]["unknown"], "no peer");
        assert_eq!(
            json["targets"][0]["durableWaits"]["known"]["perRepetition"],
            4.0
        );
        let median = json["targets"][1]["rpcs"][0]["p50Us"].as_f64().unwrap();
        assert!((5000.0..5005.0).contains(&median), "{median}");
        assert_eq!(json["ratios"][0]["high"], 1.1);
    }

    #[test]
    fn a_run_is_well_without_failures_leaks_and_interrupts() {
        let mut report = report();
        report.targets.iter_mut().for_each(|it| it.failed = 0);
        assert!(report.is_well());
        report.interrupted = true;
        assert!(!report.is_well());
        report.interrupted = false;
        report.targets[1].left.push("a".to_owned());
        assert!(!report.is_well());
    }
}
