//! The dashboard over a running host: Prometheus answers the query of each panel, and the picture in the documentation shows what Grafana draws of it.

use crate::metrics::monitoring;
use crate::status_page::live;
use serde_json::Value;
use std::env;
use std::fs;
use wasmount_csi::wire::csi::v1::CreateVolumeRequest;
use wasmount_tests::browser::Browser;
use wasmount_tests::builds::{build_of, put};
use wasmount_tests::documents;
use wasmount_tests::health::Health;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::orchestrator::Orchestrator;
use wasmount_tests::prometheus::{Curve, Recording};
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;
use xtask::workspace::Workspace;

/// Where the picture goes, if it is to be made again.
const PICTURE: &str = "WASMOUNT_PICTURE";
/// Most bytes of the picture.
const PICTURE_BYTES: usize = 200_000;

/// Of a drawing and of the plot inside of it.
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 190.0;
const PLOT: [f64; 4] = [52.0, 30.0, 392.0, 132.0];
/// Columns of a dashboard: gridPos counts in them (grafana.com, "Dashboard JSON model").
const COLUMNS: f64 = 24.0;
/// Curves that are in the legend, and the letters of a name there.
const LEGEND: usize = 6;
const LETTERS: usize = 34;
/// Lives of volumes before and after the swap; of a picture, that takes two minutes.
const LIVES: [u32; 2] = [30, 60];
const LIVES_OF_PICTURE: [u32; 2] = [400, 800];
const COLOURS: [&str; 6] = [
    "#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#b877d9",
];

/// A panel of the dashboard with what its queries answer.
struct Panel {
    title: String,
    unit: String,
    /// Columns from the left, and lines from the top.
    place: (f64, f64),
    /// The names in the legend.
    curves: Vec<(String, Curve)>,
}

/// The queries of all panels for all drivers.
fn queries(dashboard: &Value) -> Vec<String> {
    let targets = panels(dashboard).flat_map(|it| it["targets"].as_array().unwrap());
    targets
        .map(|it| it["expr"].as_str().unwrap().replace("$driver", ".+"))
        .collect()
}

fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    dashboard["panels"].as_array().unwrap().iter()
}

/// The panels, with the answers to their queries in the order of [`queries`].
fn answered(dashboard: &Value, answers: Vec<Vec<Curve>>) -> Vec<Panel> {
    let mut answers = answers.into_iter();
    panels(dashboard)
        .map(|panel| {
            let text = |pointer: &str| panel.pointer(pointer).unwrap().as_str().unwrap().to_owned();
            let number = |pointer: &str| panel.pointer(pointer).unwrap().as_f64().unwrap();
            let targets = panel["targets"].as_array().unwrap().iter();
            let curves = targets.flat_map(|target| {
                let legend = target["legendFormat"].as_str().unwrap();
                let named = |curve: Curve| {
                    let fill = |legend: String, (label, value): (&String, &String)| {
                        legend.replace(&format!("{{{{{label}}}}}"), value)
                    };
                    (curve.labels.iter().fold(legend.to_owned(), fill), curve)
                };
                answers.next().unwrap().into_iter().map(named)
            });
            Panel {
                title: text("/title"),
                unit: text("/fieldConfig/defaults/unit"),
                curves: curves.collect(),
                place: (number("/gridPos/x"), number("/gridPos/y")),
            }
        })
        .collect()
}

/// As Grafana shortens it: with two digits.
fn shown(value: f64, unit: &str) -> String {
    let (value, unit) = match unit {
        "s" if value < 0.001 => (value * 1e6, " µs"),
        "s" if value < 1.0 => (value * 1e3, " ms"),
        "s" => (value, " s"),
        "bytes" => (value / f64::from(1 << 20), " MiB"),
        "percentunit" => (value * 100.0, "%"),
        "reqps" => (value, " req/s"),
        _ => (value, ""),
    };
    match value {
        value if value >= 10.0 || value == 0.0 => format!("{value:.0}{unit}"),
        value if value >= 1.0 => format!("{value:.1}{unit}"),
        value => format!("{value:.2}{unit}"),
    }
}

/// A panel as SVG.
fn drawn(panel: &Panel, seconds: f64) -> String {
    let [left, top, right, bottom] = PLOT;
    let values = panel.curves.iter().flat_map(|(_, it)| &it.points);
    let most = values
        .map(|(_, value)| *value)
        .fold(f64::MIN_POSITIVE, f64::max)
        * 1.1;
    let mut svg = format!("<text x='10' y='18' class='title'>{}</text>", panel.title);
    for part in [0.0, 0.5, 1.0] {
        let y = bottom - part * (bottom - top);
        svg += &format!(
            "<line x1='{left}' x2='{right}' y1='{y}' y2='{y}'/><text x='{}' y='{}' class='axis'>{}</text>",
            left - 4.0,
            y + 3.0,
            shown(part * most, &panel.unit)
        );
    }
    for (number, ((name, curve), colour)) in
        panel.curves.iter().zip(COLOURS.iter().cycle()).enumerate()
    {
        let points = curve.points.iter().map(|(at, value)| {
            let x = left + at / seconds * (right - left);
            format!("{x:.1},{:.1}", bottom - value / most * (bottom - top))
        });
        let points = points.collect::<Vec<_>>().join(" ");
        svg += &format!("<polyline points='{points}' stroke='{colour}'/>");
        if number < LEGEND {
            let name: String = name.chars().take(LETTERS).collect();
            let (x, y) = (
                10.0 + 195.0 * (number % 2) as f64,
                bottom + 18.0 + 14.0 * (number / 2) as f64,
            );
            svg += &format!(
                "<rect x='{x}' y='{}' width='10' height='3' fill='{colour}'/><text x='{}' y='{y}'>{name}</text>",
                y - 5.0,
                x + 14.0
            );
        }
    }
    format!("<svg width='{WIDTH}' height='{HEIGHT}'>{svg}</svg>")
}

/// All panels at their places, dark as Grafana is by default.
fn page(panels: &[Panel], seconds: f64) -> String {
    let style = "body { background: #111217; margin: 0 } svg { position: absolute; background: #181b1f } \
        text { font: 9.5px sans-serif; fill: #ccccdc } .title { font-size: 12px; font-weight: 600 } \
        .axis { text-anchor: end; fill: #8e8e9b } line { stroke: #2c3235 } polyline { fill: none; stroke-width: 1.5 }";
    let mut all = String::new();
    for panel in panels {
        let (x, y) = panel.place;
        let (x, y) = (x / COLUMNS * 3.0 * (WIDTH + 6.0), y / 8.0 * (HEIGHT + 6.0));
        let svg = drawn(panel, seconds);
        all += &svg.replacen(
            "<svg ",
            &format!("<svg style='left:{x:.0}px;top:{y:.0}px' "),
            1,
        );
    }
    format!("<!doctype html><meta charset=utf-8><style>{style}</style>{all}")
}

/// The picture in the docs: `WASMOUNT_PICTURE=$PWD/docs/dashboard.png cargo test -p wasmount-tests --test host panel_of_the_dashboard`.
#[tokio::test(flavor = "multi_thread")]
async fn privileged_each_panel_of_the_dashboard_has_data() {
    needs_root();
    let folder = tempfile::tempdir().unwrap();
    let [good, hostile, broken] = ["good", "hostile", "broken"].map(|name| {
        let folder = folder.path().join(name);
        fs::create_dir(&folder).unwrap();
        folder
    });
    let (document, component) =
        documents::directory_of_its_own(&good, "directory.wasmount.io").unwrap();
    let workspace = Workspace::locate().unwrap();
    let hostile = documents::of_component(
        &hostile,
        "hostile.example",
        &workspace.component("misbehave"),
    );
    let missing = broken.join("missing.wasm");
    let health = Health::at_a_free_port().unwrap();
    let mut host = Host::start(HostOptions {
        backends: vec![document, hostile.unwrap()],
        ..HostOptions::default()
    })
    .unwrap();
    let options = host.options();
    options.health = health.address();
    options
        .backends
        .push(documents::of_component(&broken, "missing.example", &missing).unwrap());
    host.restart().unwrap();

    let text = fs::read_to_string(monitoring("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let url = format!("http://{}/metrics", health.address());
    let recording = Recording::start(&url, &queries(&dashboard)).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    let kept = orchestrator.created("kept").await.unwrap();
    orchestrator.set_up(&kept).await.unwrap();
    let picture = env::var_os(PICTURE);
    let [before, after] = match picture {
        Some(_) => LIVES_OF_PICTURE,
        None => LIVES,
    };
    live(&orchestrator, before).await;
    // Sockets are in the order of the drivers' names.
    let kubelet = host.kubelet();
    let other = Orchestrator::connect(&host.sockets()[1], &kubelet);
    let other = other.await.unwrap();
    let trap = CreateVolumeRequest {
        parameters: [("behaviour".to_owned(), "trap".to_owned())].into(),
        ..requests::create("never", 1 << 20)
    };
    other.create(trap).await.unwrap_err();
    put(&build_of("directory", "two").unwrap(), &component).unwrap();
    live(&orchestrator, after).await;
    let answers = recording.end().unwrap();

    let panels = answered(&dashboard, answers);
    for panel in &panels {
        assert!(!panel.curves.is_empty(), "{}", panel.title);
        let names = panel.curves.iter().map(|(name, _)| name);
        let unfilled: Vec<_> = names.filter(|it| it.contains("{{")).collect();
        assert!(unfilled.is_empty(), "{}: {unfilled:?}", panel.title);
    }
    let of = |title: &str| panels.iter().find(|it| it.title == title).unwrap();
    let last = |panel: &Panel, name: &str| {
        let (_, curve) = panel.curves.iter().find(|(it, _)| it == name).unwrap();
        curve.points.last().unwrap().1
    };
    let names: Vec<_> = of("Drivers that are not ready")
        .curves
        .iter()
        .map(|(it, _)| it.as_str())
        .collect();
    assert!(
        names.iter().any(|it| it.contains("missing.example")),
        "{names:?}"
    );
    assert!(last(of("Faults of the plugin"), "hostile.example trapped") > 0.0);

    let points = panels
        .iter()
        .flat_map(|it| &it.curves)
        .flat_map(|(_, it)| &it.points);
    let seconds = points.map(|(at, _)| *at).fold(1.0, f64::max);
    let file = folder.path().join("dashboard.html");
    fs::write(&file, page(&panels, seconds)).unwrap();
    let mut browser = Browser::open(&format!("file://{}", file.display())).unwrap();
    browser
        .until(&format!(
            "document.querySelectorAll('svg').length === {}",
            panels.len()
        ))
        .unwrap();
    let drawing = browser.picture(1218, 1176).unwrap();
    assert!(drawing.starts_with(b"\x89PNG\r\n"));
    assert!(drawing.len() < PICTURE_BYTES, "{} bytes", drawing.len());
    if let Some(path) = picture {
        fs::write(path, &drawing).unwrap();
    }
    orchestrator.tear_down(&kept).await.unwrap();
}
