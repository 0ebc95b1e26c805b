//! How long is waited for a registry, and what is tried again.

use std::time::Duration;

/// How long for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Patience {
    /// Until a connection stands.
    pub connect: Duration,
    /// Until a request is answered, and between two pieces of an answer.
    pub silence: Duration,
    /// For everything that is asked of one registry.
    pub total: Duration,
    /// Attempts at one request, the first one with them.
    pub attempts: u32,
    /// Before the second attempt; doubled after each.
    pub first_pause: Duration,
}

/// Whether a failure may pass by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// It cannot: another attempt would end alike.
    Never,
    /// It may.
    Soon,
    /// It may, and not before this: the registry said so (RFC 9110, "Retry-After").
    After(Duration),
}

/// The longest that a registry may make us wait: a longer wish ends the attempt, so that somebody learns of it.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            silence: Duration::from_secs(30),
            // Ten minutes: the largest component at 1 Mbit/s.
            total: Duration::from_secs(600),
            // Pauses of 1/2, 1, 2 and 4 s: a registry that restarts is back by then.
            attempts: 5,
            first_pause: Duration::from_millis(500),
        }
    }
}

impl Patience {
    /// The pause before the next attempt, if there is to be one. `made` counts attempts, `left` is what remains of the total.
    pub(crate) fn pause(&self, made: u32, again: Again, left: Duration) -> Option<Duration> {
        if made >= self.attempts {
            return None;
        }
        let doubled = made.saturating_sub(1).min(u32::BITS - 1);
        let own = self.first_pause.saturating_mul(1 << doubled);
        let pause = match again {
            Again::Never => return None,
            Again::Soon => own.min(LONGEST_PAUSE),
            Again::After(wished) => wished.max(own),
        };
        (pause <= LONGEST_PAUSE && pause < left).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn pauses(again: Again) -> Vec<u64> {
        let patience = Patience::default();
        (1..)
            .map_while(|made| patience.pause(made, again, LONG))
            .map(|pause| u64::try_from(pause.as_millis()).unwrap())
            .collect()
    }

    #[test]
    fn what_may_pass_is_tried_again_with_growing_pauses() {
        assert_eq!(pauses(Again::Soon), [500, 1000, 2000, 4000]);
        let after = Again::After(Duration::from_secs(3));
        assert_eq!(pauses(after), [3000, 3000, 3000, 4000]);
    }

    #[test]
    fn what_cannot_pass_is_not_tried_again() {
        assert_eq!(pauses(Again::Never), [0; 0]);
    }

    #[test]
    fn nobody_waits_for_ever() {
        assert_eq!(pauses(Again::After(LONG)), [0; 0]);
        let patience = Patience::default();
        let left = Duration::from_millis(500);
        assert_eq!(patience.pause(1, Again::Soon, left), None);
        let many = Patience {
            attempts: u32::MAX,
            ..patience
        };
        assert_eq!(
            many.pause(4_000_000, Again::Soon, LONG),
            Some(LONGEST_PAUSE)
        );
    }
}
