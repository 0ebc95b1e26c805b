//! When to try again what was refused.

use crate::refusal::Patience;
use std::time::Duration;

/// Pause after the first refusal; doubled after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause: what a person who mends something will wait for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often an accident may happen. 3: a compiler that was killed twice by chance is not killed a third time.
const ACCIDENTS: u32 = 3;

/// The tries of one wish.
#[derive(Debug, Clone, Default)]
pub(super) struct Retry {
    refusals: u32,
}

impl Retry {
    /// Another refusal: how long to wait; none: until something changes.
    pub(super) fn refused(&mut self, patience: Patience) -> Option<Duration> {
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.refusals));
        self.refusals = self.refusals.saturating_add(1);
        let goes_on = match patience {
            Patience::AsLongAsItTakes => true,
            Patience::AFewTimes => self.refusals < ACCIDENTS,
            Patience::None => false,
        };
        goes_on.then_some(pause.min(LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(patience: Patience, refusals: usize) -> Vec<Option<u64>> {
        let mut retry = Retry::default();
        let pause = |_| retry.refused(patience).map(|pause| pause.as_secs());
        (0..refusals).map(pause).collect()
    }

    #[test]
    fn pauses_double_up_to_what_a_person_waits_for() {
        assert_eq!(
            pauses(Patience::AsLongAsItTakes, 8),
            [1, 2, 4, 8, 16, 30, 30, 30].map(Some)
        );
    }

    #[test]
    fn accidents_are_tried_thrice_and_judgements_not_again() {
        assert_eq!(pauses(Patience::AFewTimes, 3), [Some(1), Some(2), None]);
        assert_eq!(pauses(Patience::None, 1), [None]);
    }

    #[test]
    fn no_number_of_refusals_is_too_many() {
        let mut retry = Retry { refusals: u32::MAX };
        let pause = retry.refused(Patience::AsLongAsItTakes);
        assert_eq!(pause, Some(LONGEST_PAUSE));
    }
}
