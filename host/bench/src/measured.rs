//! What was measured: durations, failures, and what could not be undone.

use hdrhistogram::{AdditionError, CreationError, Histogram};
use std::collections::BTreeMap;
use std::time::Duration;
use tonic::Status;
use wasmount_core::rpc::Rpc;
use wasmount_core::text::shortened;

/// The longest duration that is told apart from longer ones, in nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;
/// Significant decimal digits of a duration.
const DIGITS: u8 = 3;
/// Error texts that are kept: the first ones, which later ones mostly repeat.
const ERRORS: usize = 5;
/// Most bytes of one.
const ERROR_BYTES: usize = 600;

/// The figures of a phase, or of several.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// Durations of answered RPCs, in nanoseconds.
    pub(crate) rpcs: BTreeMap<Rpc, Histogram<u64>>,
    /// Durations of whole repetitions.
    pub(crate) repetitions: Histogram<u64>,
    /// Failed RPCs, also those before and after the measurement.
    pub(crate) failed: BTreeMap<Rpc, u64>,
    /// The first errors.
    pub(crate) errors: Vec<String>,
    /// Volumes and paths that could not be removed.
    pub(crate) left: Vec<String>,
    /// Answered RPCs in each second of all phases together.
    pub(crate) per_second: Vec<u64>,
    pub(crate) elapsed: Duration,
    /// How long earlier phases took.
    earlier: Duration,
    /// Of an RPC that was not answered.
    pub(crate) empty: Histogram<u64>,
}

impl Measured {
    /// Of a phase that follows others, which took so long.
    pub(crate) fn after(earlier: Duration) -> Result<Self, CreationError> {
        let empty = Histogram::new_with_max(LONGEST, DIGITS)?;
        Ok(Self {
            rpcs: BTreeMap::new(),
            repetitions: empty.clone(),
            failed: BTreeMap::new(),
            errors: Vec::new(),
            left: Vec::new(),
            per_second: Vec::new(),
            elapsed: Duration::ZERO,
            earlier,
            empty,
        })
    }

    /// An RPC was answered, so long after the start of the phase.
    pub(crate) fn answered(&mut self, rpc: Rpc, took: Duration, at: Duration) {
        let times = self.rpcs.entry(rpc);
        let times = times.or_insert_with(|| self.empty.clone());
        times.saturating_record(nanoseconds(took));
        let second = (self.earlier + at).as_secs();
        self.add_to_second(usize::try_from(second).unwrap_or(usize::MAX), 1);
    }

    /// All RPCs of a repetition were answered.
    pub(crate) fn repeated(&mut self, took: Duration) {
        self.repetitions.saturating_record(nanoseconds(took));
    }

    /// An RPC failed.
    pub(crate) fn failed(&mut self, rpc: Rpc, status: &Status) {
        *self.failed.entry(rpc).or_default() += 1;
        let (code, message) = (status.code(), status.message());
        self.error(format!("{rpc}: {code:?}: {message}"));
    }

    /// Keeps an error, if it is one of the first.
    pub(crate) fn error(&mut self, error: String) {
        if self.errors.len() < ERRORS {
            self.errors.push(shortened(error, ERROR_BYTES));
        }
    }

    /// Adds the figures of a later phase.
    pub(crate) fn add(&mut self, later: Self) -> Result<(), AdditionError> {
        self.add_faults(&later);
        for (rpc, times) in later.rpcs {
            let all = self.rpcs.entry(rpc);
            all.or_insert_with(|| self.empty.clone()).add(&times)?;
        }
        self.repetitions.add(&later.repetitions)?;
        for (second, count) in later.per_second.into_iter().enumerate() {
            self.add_to_second(second, count);
        }
        self.elapsed += later.elapsed;
        Ok(())
    }

    /// Adds only what went wrong in another phase.
    pub(crate) fn add_faults(&mut self, other: &Self) {
        for (rpc, count) in &other.failed {
            *self.failed.entry(*rpc).or_default() += count;
        }
        for error in &other.errors {
            self.error(error.clone());
        }
        self.left.extend(other.left.iter().cloned());
    }

    fn add_to_second(&mut self, second: usize, count: u64) {
        if self.per_second.len() <= second {
            self.per_second.resize(second.saturating_add(1), 0);
        }
        if let Some(sum) = self.per_second.get_mut(second) {
            *sum += count;
        }
    }

    /// Answered RPCs.
    pub(crate) fn count(&self) -> u64 {
        self.rpcs.values().map(Histogram::len).sum()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn phase(rpc: Rpc, milliseconds: std::ops::Range<u32>, earlier: Duration) -> Measured {
        let mut measured = Measured::after(earlier).unwrap();
        for time in milliseconds {
            measured.answered(rpc, MS * time, MS * 1500);
        }
        measured.elapsed = MS * 1700;
        measured
    }

    #[test]
    fn figures_of_two_phases_are_those_of_all_their_calls() {
        let mut all = phase(Rpc::Probe, 1..501, Duration::ZERO);
        all.add(phase(Rpc::Probe, 501..1001, all.elapsed)).unwrap();
        all.add(phase(Rpc::DeleteVolume, 7..8, all.elapsed))
            .unwrap();
        let probe = &all.rpcs[&Rpc::Probe];
        assert_eq!((probe.len(), all.count()), (1000, 1001));
        // Three digits: within a thousandth.
        let median = probe.value_at_quantile(0.5) as f64 / 1e6;
        assert!((499.5..=500.5).contains(&median), "{median}");
        assert_eq!(all.rpcs[&Rpc::DeleteVolume].len(), 1);
        // After 1.5, 3.2 and 4.9 s of all phases together.
        assert_eq!(all.per_second, [0, 500, 0, 500, 1]);
        assert_eq!(all.elapsed, MS * 5100);
    }

    #[test]
    fn faults_of_a_warm_up_count_and_its_times_do_not() {
        let mut warm_up = phase(Rpc::Probe, 1..11, Duration::ZERO);
        warm_up.failed(Rpc::Probe, &Status::internal("broken"));
        warm_up.left.push("volume a".to_owned());
        let mut all = Measured::after(Duration::ZERO).unwrap();
        all.add_faults(&warm_up);
        assert_eq!((all.count(), all.failed[&Rpc::Probe]), (0, 1));
        assert_eq!(all.errors, ["Probe: Internal: broken"]);
        assert_eq!(all.left, ["volume a"]);
    }

    #[test]
    fn the_first_errors_are_kept_and_all_are_counted() {
        let mut measured = Measured::after(Duration::ZERO).unwrap();
        for number in 0..9 {
            let status = Status::aborted(format!("{number}{}", "x".repeat(1000)));
            measured.failed(Rpc::CreateVolume, &status);
        }
        assert_eq!(measured.failed[&Rpc::CreateVolume], 9);
        assert_eq!(measured.errors.len(), ERRORS);
        assert!(measured.errors[4].starts_with("CreateVolume: Aborted: 4x"));
        assert!(measured.errors.iter().all(|it| it.len() < ERROR_BYTES + 4));
    }

    #[test]
    fn a_time_beyond_the_longest_is_the_longest() {
        let mut measured = Measured::after(Duration::ZERO).unwrap();
        measured.repeated(Duration::from_secs(1 << 20));
        let max = measured.repetitions.max() as f64 / LONGEST as f64;
        assert!((1.0..1.01).contains(&max), "{max}");
    }
}
