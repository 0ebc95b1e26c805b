//! How many times a figure of one driver is that of another, and how sure that is. Pure.
//!
//! Two drivers take turns, so what else the machine does affects the rounds of a pair alike. Of each pair the logarithm of the ratio is taken; their
//! mean has a t-interval (Student), and both are turned back into ratios: the geometric mean, and an interval that no ratio below zero is in.

use serde::Serialize;

/// Two-sided 95 % quantiles of Student's t, by degrees of freedom from 1 on.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// For more: a little wider than any of them.
const T_95_BEYOND: f64 = 2.042;

/// The ratio of a figure of the first socket to that of the second.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ratio {
    /// The figure.
    pub what: String,
    /// The geometric mean.
    pub ratio: f64,
    /// The lower end of the interval of 95 %.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Pairs of rounds.
    pub rounds: usize,
}

impl Ratio {
    /// Of pairs of figures; none of fewer than two pairs.
    pub(crate) fn of(what: &str, pairs: &[(f64, f64)]) -> Option<Self> {
        let logarithms: Vec<_> = pairs
            .iter()
            .filter(|(one, other)| *one > 0.0 && *other > 0.0)
            .map(|(one, other)| (one / other).ln())
            .collect();
        let rounds = logarithms.len();
        let freedom = rounds.checked_sub(1).filter(|it| *it > 0)?;
        let mean = logarithms.iter().sum::<f64>() / rounds as f64;
        let squares: f64 = logarithms.iter().map(|it| (it - mean).powi(2)).sum();
        let error = (squares / freedom as f64 / rounds as f64).sqrt();
        let margin = T_95.get(freedom - 1).unwrap_or(&T_95_BEYOND) * error;
        Some(Self {
            what: what.to_owned(),
            ratio: mean.exp(),
            low: (mean - margin).exp(),
            high: (mean + margin).exp(),
            rounds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 1e-3
    }

    #[test]
    fn pairs_that_agree_have_a_narrow_interval() {
        let ratio = Ratio::of("RPC/s", &[(30.0, 10.0), (60.0, 20.0), (3.0, 1.0)]).unwrap();
        assert!(is(ratio.ratio, 3.0) && is(ratio.low, 3.0) && is(ratio.high, 3.0));
        assert_eq!((ratio.what.as_str(), ratio.rounds), ("RPC/s", 3));
    }

    #[test]
    fn the_interval_is_that_of_student() {
        // Logarithms 0 and ln 4: mean ln 2, standard error ln 2, t of one degree of freedom 12.706.
        let ratio = Ratio::of("p50", &[(1.0, 1.0), (4.0, 1.0)]).unwrap();
        assert!(is(ratio.ratio, 2.0));
        assert!(is(ratio.high, 2.0_f64.powf(13.706)) && is(ratio.low, 2.0_f64.powf(-11.706)));
        // The wide interval holds 1: no difference is shown.
        assert!(ratio.low < 1.0 && 1.0 < ratio.high);
    }

    #[test]
    fn one_pair_and_empty_rounds_show_nothing() {
        assert_eq!(Ratio::of("p50", &[(2.0, 1.0)]), None);
        assert_eq!(
            Ratio::of("p50", &[(2.0, 1.0), (0.0, 1.0), (1.0, 0.0)]),
            None
        );
        assert_eq!(Ratio::of("p50", &[]), None);
    }

    #[test]
    fn many_pairs_have_an_interval_too() {
        let pairs: Vec<_> = (0..50).map(|it| (2.0 + f64::from(it % 2), 1.0)).collect();
        let ratio = Ratio::of("p50", &pairs).unwrap();
        assert!(is(ratio.ratio, 6.0_f64.sqrt()) && ratio.low > 2.2 && ratio.high < 2.7);
    }
}
