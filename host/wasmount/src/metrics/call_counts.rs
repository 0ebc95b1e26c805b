//! Numbers of calls and their durations, by driver and method, read from the text of the histograms: the library shows them in no other way.

use super::table::CSI_CALL_DURATION;
use serde::Serialize;
use std::collections::BTreeMap;

/// Calls that have ended since the start of the host.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CallCounts {
    /// The upper bounds of the buckets, in seconds.
    pub(crate) bounds: Vec<f64>,
    /// By driver and method.
    pub(crate) methods: BTreeMap<String, BTreeMap<String, MethodCounts>>,
}

/// Calls of one method.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MethodCounts {
    /// All.
    pub(crate) calls: u64,
    /// Those that were not answered with OK.
    pub(crate) failed: u64,
    /// Those that took at most as long as each bound.
    pub(crate) within: Vec<u64>,
}

/// A sample of the histogram.
struct Sample<'a> {
    driver: &'a str,
    method: &'a str,
    code: &'a str,
    /// The upper bound; none: a count of all calls.
    bound: Option<&'a str>,
    count: u64,
}

impl CallCounts {
    pub(super) fn of(text: &str) -> Self {
        let mut counts = Self::default();
        for sample in text.lines().filter_map(sample) {
            let bound = match sample.bound.map(str::parse::<f64>) {
                None => None,
                Some(Ok(bound)) if bound.is_finite() => Some(bound),
                // The bucket without a bound counts all calls once more.
                Some(_) => continue,
            };
            let of_driver = counts.methods.entry(sample.driver.to_owned()).or_default();
            let of_method = of_driver.entry(sample.method.to_owned()).or_default();
            let Some(bound) = bound else {
                of_method.calls += sample.count;
                if sample.code != "OK" {
                    of_method.failed += sample.count;
                }
                continue;
            };
            let at = match counts.bounds.iter().position(|known| *known == bound) {
                Some(at) => at,
                None => {
                    counts.bounds.push(bound);
                    counts.bounds.len() - 1
                }
            };
            if of_method.within.len() <= at {
                of_method.within.resize(at + 1, 0);
            }
            if let Some(within) = of_method.within.get_mut(at) {
                *within += sample.count;
            }
        }
        counts
    }
}

/// A line such as `wasmount_csi_call_duration_seconds_bucket{le="0.1",driver="a.b",method="Probe",code="OK"} 1`. No value of its labels has a quote.
fn sample(line: &str) -> Option<Sample<'_>> {
    let rest = line.strip_prefix(CSI_CALL_DURATION.name)?;
    let (kind, rest) = rest.split_once('{')?;
    let (labels, count) = rest.split_once("} ")?;
    let labels: BTreeMap<&str, &str> = labels
        .split("\",")
        .filter_map(|label| label.trim_end_matches('"').split_once("=\""))
        .collect();
    let bound = match kind {
        "_bucket" => Some(*labels.get("le")?),
        "_count" => None,
        _ => return None,
    };
    Some(Sample {
        driver: labels.get("driver")?,
        method: labels.get("method")?,
        code: labels.get("code")?,
        bound,
        count: count.split(' ').next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: &str, labels: &str, value: &str) -> String {
        format!("{}{kind}{{{labels}}} {value}\n", CSI_CALL_DURATION.name)
    }

    #[test]
    fn samples_of_all_codes_are_one_method() {
        let of = |code: &str| format!("driver=\"a.b\",method=\"Probe\",code=\"{code}\"");
        let mut text = "# TYPE wasmount_csi_call_duration_seconds histogram\n".to_owned();
        for (code, within, calls) in [("OK", [1, 3], 4), ("Aborted", [0, 2], 2)] {
            let of = of(code);
            text += &line("_sum", &of, "0.5");
            text += &line("_count", &of, &calls.to_string());
            for (bound, count) in ["0.1", "1.0"].iter().zip(within) {
                text += &line(
                    "_bucket",
                    &format!("le=\"{bound}\",{of}"),
                    &count.to_string(),
                );
            }
            text += &line("_bucket", &format!("le=\"+Inf\",{of}"), &calls.to_string());
        }
        text += "wasmount_csi_calls_in_flight{driver=\"a.b\"} 1\n";
        let counts = CallCounts::of(&text);
        assert_eq!(counts.bounds, [0.1, 1.0]);
        let probe = MethodCounts {
            calls: 6,
            failed: 2,
            within: vec![1, 5],
        };
        let methods = BTreeMap::from([("Probe".to_owned(), probe)]);
        assert_eq!(
            counts.methods,
            BTreeMap::from([("a.b".to_owned(), methods)])
        );
    }

    #[test]
    fn lines_of_other_kinds_are_no_samples() {
        for text in [
            "",
            "# EOF",
            "other_count{driver=\"a\"} 1",
            "wasmount_csi_call_duration_seconds_count 1",
        ] {
            assert_eq!(CallCounts::of(text), CallCounts::default(), "{text}");
        }
    }
}
