//! Limits how often an event is repeated.
//!
//! It does not know events: only the object, the text and the time.

use crate::events::About;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long the same text is not repeated for the same object. 30 min: an event is kept for 1 h (`--event-ttl`), so a fault that lasts can always be
/// seen.
const AGAIN: Duration = Duration::from_secs(30 * 60);
/// How many events may follow each other directly: 30, a fault of each pod of a node.
const BURST: u32 = 30;
/// After those, one event in this time. 10 s: six events a minute of each host are no load, and more than a person reads.
const EACH: Duration = Duration::from_secs(10);

/// The events that were written.
#[derive(Debug)]
pub(crate) struct EventRateLimiter {
    /// Those of the last 30 min: at most the burst, and one for each 10 s since.
    written: HashMap<(About, String), Instant>,
    left: u32,
    counted: Instant,
}

impl EventRateLimiter {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            written: HashMap::new(),
            left: BURST,
            counted: now,
        }
    }

    /// Whether `what` may be written about `about` now. If so it counts as written.
    pub(crate) fn may_write(&mut self, about: &About, what: &str, now: Instant) -> bool {
        self.written
            .retain(|_, written| now.saturating_duration_since(*written) < AGAIN);
        let key = (about.clone(), what.to_owned());
        if self.written.contains_key(&key) || !self.takes_one(now) {
            return false;
        }
        self.written.insert(key, now);
        true
    }

    /// The write failed: the next time counts as the first.
    pub(crate) fn not_written(&mut self, about: &About, what: &str) {
        self.written.remove(&(about.clone(), what.to_owned()));
    }

    fn takes_one(&mut self, now: Instant) -> bool {
        while self.left < BURST && now.saturating_duration_since(self.counted) >= EACH {
            self.left += 1;
            self.counted += EACH;
        }
        if self.left == BURST {
            self.counted = now;
        }
        let taken = self.left.checked_sub(1);
        self.left = taken.unwrap_or(0);
        taken.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> About {
        About::node(name)
    }

    #[test]
    fn the_same_is_said_once_in_half_an_hour() {
        let start = Instant::now();
        let mut repeated = EventRateLimiter::new(start);
        let at = |minutes: u64| start + Duration::from_secs(60 * minutes);
        assert!(repeated.may_write(&node("a"), "x", at(0)));
        for minutes in 0..30 {
            assert!(!repeated.may_write(&node("a"), "x", at(minutes)));
        }
        assert!(repeated.may_write(&node("a"), "x", at(30)));
        assert!(repeated.may_write(&node("a"), "y", at(30)), "another fault");
        assert!(
            repeated.may_write(&node("b"), "x", at(30)),
            "another object"
        );
    }

    #[test]
    fn what_did_not_arrive_is_said_again_at_once() {
        let now = Instant::now();
        let mut repeated = EventRateLimiter::new(now);
        assert!(repeated.may_write(&node("a"), "x", now));
        repeated.not_written(&node("a"), "x");
        assert!(repeated.may_write(&node("a"), "x", now));
    }

    #[test]
    fn of_very_many_a_few_are_said_at_once_and_the_rest_slowly() {
        let start = Instant::now();
        let mut repeated = EventRateLimiter::new(start);
        let mut written = |now: Instant| {
            (0..1000)
                .filter(|i| repeated.may_write(&node(&i.to_string()), "x", now))
                .count()
        };
        assert_eq!(written(start), 30);
        assert_eq!(written(start + Duration::from_secs(9)), 0);
        assert_eq!(written(start + Duration::from_secs(10)), 1);
        assert_eq!(written(start + Duration::from_secs(60)), 5);
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let start = Instant::now();
        let mut repeated = EventRateLimiter::new(start);
        let most = u64::from(BURST) + AGAIN.as_secs() / EACH.as_secs();
        for second in 0..2 * AGAIN.as_secs() {
            let now = start + Duration::from_secs(second);
            repeated.may_write(&node(&second.to_string()), "x", now);
            assert!(repeated.written.len() as u64 <= most, "{second}");
        }
    }
}
