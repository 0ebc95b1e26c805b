//! Plots as SVG text: curves, and ratios with their intervals. Pure; every name must be escaped by the caller.

use crate::ratio::Ratio;

/// Size of the drawing, and of the margins that hold the labels.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 210.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 34.0;
/// Distance of two lines of text.
const LINE: f64 = 17.0;
/// The colours of curves, distinct also for most colour-blind people (Okabe and Ito), then darker ones.
const COLOURS: [&str; 12] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#000000", "#999933",
    "#882255", "#44aa99", "#332288", "#aa4499",
];

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    pub(crate) name: String,
    /// In ascending order of x.
    pub(crate) points: Vec<(f64, f64)>,
}

/// An axis: its ends, and the places that are labelled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From zero, with whole numbers.
    pub(crate) fn linear(high: f64) -> Self {
        let high = high.max(1.0);
        let power = 10_f64.powf(high.log10().floor());
        let steps = [power / 10.0, power / 5.0, power / 2.0, power, power * 2.0];
        let fits = |step: &f64| high / step <= 8.0;
        let step = steps.into_iter().find(fits).unwrap_or(power * 2.0);
        let ticks = (0..=8).map(|it| f64::from(it) * step);
        let ticks = ticks.filter(|it| *it <= high * 1.001);
        Self {
            low: 0.0,
            high,
            ticks: ticks.map(|it| (it, number(it))).collect(),
        }
    }

    /// Of logarithms to the base of ten, with whole powers at both ends.
    pub(crate) fn of_powers(values: impl Iterator<Item = f64>) -> Self {
        let ends = values.fold(None, |ends: Option<(f64, f64)>, it| match ends {
            None => Some((it, it)),
            Some((low, high)) => Some((low.min(it), high.max(it))),
        });
        let (low, high) = ends.unwrap_or((0.0, 1.0));
        let (low, high) = (low.floor(), high.ceil().max(low.floor() + 1.0));
        let (first, last) = (low as i32, high as i32);
        let ticks = (first..=last).map(|it| (f64::from(it), number(10_f64.powi(it))));
        Self {
            low,
            high,
            ticks: ticks.collect(),
        }
    }

    /// Where a value lies between two places of the drawing.
    fn place(&self, value: f64, from: f64, to: f64) -> f64 {
        let span = (self.high - self.low).max(f64::MIN_POSITIVE);
        from + ((value - self.low) / span).clamp(0.0, 1.0) * (to - from)
    }
}

/// Curves with their names beside them.
pub(crate) fn curves(x: &Axis, y: &Axis, x_label: &str, y_label: &str, curves: &[Curve]) -> String {
    let bottom = HEIGHT - BOTTOM;
    let mut svg = begin(HEIGHT);
    for (value, label) in &y.ticks {
        let at = y.place(*value, bottom, TOP);
        svg += &grid(LEFT, at, WIDTH - RIGHT, at);
        svg += &text(LEFT - 6.0, at + 4.0, "end", label);
    }
    for (value, label) in &x.ticks {
        let at = x.place(*value, LEFT, WIDTH - RIGHT);
        svg += &grid(at, TOP, at, bottom);
        svg += &text(at, bottom + LINE, "middle", label);
    }
    svg += &text(LEFT, HEIGHT - 2.0, "start", y_label);
    svg += &text(WIDTH - RIGHT, HEIGHT - 2.0, "end", x_label);
    for (number, (curve, colour)) in curves.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let Curve { name, points } = curve;
        let points: Vec<_> = points
            .iter()
            .map(|(at, value)| {
                let at = x.place(*at, LEFT, WIDTH - RIGHT);
                format!("{at:.1},{:.1}", y.place(*value, bottom, TOP))
            })
            .collect();
        let points = points.join(" ");
        svg += &format!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"><title>{name}</title></polyline>\n"
        );
        let (left, at) = (WIDTH - RIGHT + 14.0, TOP + LINE * (number as f64 + 0.5));
        svg += &format!(
            "<rect x=\"{left}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\n",
            at - 9.0
        );
        svg += &text(left + 16.0, at, "start", name);
    }
    svg + "</svg>\n"
}

/// Ratios with their intervals, on an axis of powers, around a line at one.
pub(crate) fn intervals(ratios: &[Ratio]) -> String {
    let ends = ratios.iter().flat_map(|it| [it.low, it.high, 1.0]);
    let x = Axis::of_powers(ends.map(f64::log10));
    let (from, to) = (LEFT + RIGHT, WIDTH - LEFT);
    let height = TOP + BOTTOM + LINE * ratios.len() as f64;
    let mut svg = begin(height);
    for (value, label) in &x.ticks {
        let at = x.place(*value, from, to);
        svg += &grid(at, TOP, at, height - BOTTOM);
        svg += &text(at, height - BOTTOM + LINE, "middle", label);
    }
    let one = x.place(0.0, from, to);
    let bottom = height - BOTTOM;
    svg += &format!(
        "<line x1=\"{one:.1}\" y1=\"{TOP}\" x2=\"{one:.1}\" y2=\"{bottom:.1}\" stroke=\"#666\"/>\n"
    );
    for (number, ratio) in ratios.iter().enumerate() {
        let at = TOP + LINE * (number as f64 + 0.5);
        let place = |value: f64| x.place(value.log10(), from, to);
        let (low, mean, high) = (place(ratio.low), place(ratio.ratio), place(ratio.high));
        svg += &text(from - 10.0, at + 4.0, "end", &ratio.what);
        svg += &format!(
            "<line x1=\"{low:.1}\" y1=\"{at:.1}\" x2=\"{high:.1}\" y2=\"{at:.1}\" stroke=\"#0072b2\" stroke-width=\"3\"/>\n\
             <circle cx=\"{mean:.1}\" cy=\"{at:.1}\" r=\"4\" fill=\"#0072b2\"/>\n"
        );
    }
    svg + "</svg>\n"
}

fn begin(height: f64) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n")
}

fn grid(x1: f64, y1: f64, x2: f64, y2: f64) -> String {
    format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>\n")
}

fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n")
}

/// As short as it can be.
fn number(value: f64) -> String {
    let rounded = format!("{value:.4}");
    let trimmed = rounded.trim_end_matches('0').trim_end_matches('.');
    trimmed.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|it| it.1.as_str()).collect()
    }

    #[test]
    fn axes_have_few_labels_that_people_can_read() {
        assert_eq!(
            labels(&Axis::linear(1.0)),
            ["0", "0.2", "0.4", "0.6", "0.8", "1"]
        );
        assert_eq!(
            labels(&Axis::linear(640.0)),
            ["0", "100", "200", "300", "400", "500", "600"]
        );
        assert_eq!(Axis::linear(0.0).high, 1.0);
        let powers = Axis::of_powers([-0.7, 1.2].into_iter());
        assert_eq!(labels(&powers), ["0.1", "1", "10", "100"]);
        assert_eq!(labels(&Axis::of_powers([].into_iter())), ["1", "10"]);
    }

    #[test]
    fn a_point_lies_where_its_axes_say() {
        let (x, y) = (Axis::linear(10.0), Axis::linear(4.0));
        let curve = Curve {
            name: "Probe".to_owned(),
            points: vec![(0.0, 0.0), (10.0, 4.0)],
        };
        let svg = curves(&x, &y, "s", "RPC/s", &[curve]);
        assert!(svg.contains("points=\"70.0,286.0 550.0,12.0\""), "{svg}");
        assert!(svg.contains(">Probe</text>") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn an_interval_is_drawn_on_its_side_of_one() {
        let ratio = Ratio {
            what: "RPC/s".to_owned(),
            ratio: 2.0,
            low: 1.5,
            high: 2.5,
            rounds: 3,
        };
        let svg = intervals(&[ratio]);
        let one = svg.split("<line x1=\"").nth(3).unwrap();
        let interval = svg.split("<line x1=\"").nth(4).unwrap();
        let x = |line: &str| line.split('"').next().unwrap().parse::<f64>().unwrap();
        assert!(x(interval) > x(one), "{svg}");
    }
}
