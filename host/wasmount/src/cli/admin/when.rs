//! How long ago something was, as a person says it.

use k8s_openapi::jiff::Timestamp;

/// Seconds of a minute, an hour and a day.
const UNITS: [(i64, &str); 3] = [(86_400, "d"), (3_600, "h"), (60, "m")];
/// A unit is named from so many of it on: `119s` says more than `1m`.
const FROM: i64 = 2;

/// Until now.
pub(super) fn ago(time: &str) -> String {
    at(time, Timestamp::now())
}

fn at(time: &str, now: Timestamp) -> String {
    let Ok(time) = time.parse::<Timestamp>() else {
        return time.to_owned();
    };
    // Clocks of one machine may be set back.
    let seconds = now.duration_since(time).as_secs().max(0);
    for (unit, word) in UNITS {
        if seconds >= FROM * unit {
            return format!("{}{word}", seconds / unit);
        }
    }
    format!("{seconds}s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_the_largest_unit_that_still_says_something() {
        let now: Timestamp = "2026-01-03T00:00:00Z".parse().unwrap();
        for (time, said) in [
            ("2026-01-02T23:59:59Z", "1s"),
            ("2026-01-02T23:58:01Z", "119s"),
            ("2026-01-02T23:58:00Z", "2m"),
            ("2026-01-02T22:00:00Z", "2h"),
            ("2026-01-01T00:00:00Z", "2d"),
            ("2026-01-03T00:00:05Z", "0s"),
            ("soon", "soon"),
        ] {
            assert_eq!(at(time, now), said, "{time}");
        }
    }
}
