//! Why a binding of the registration socket ends, the reason of its event, and how long to wait before the next one.

use std::time::Duration;

/// Pause after the first problem; doubled after each further one. 1 s is kubelet's own period between two checks of its plugins.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause, and how long a registration must have lasted for the next problem to be a first one again. 60 s: how long a person who repairs a
/// node waits, and no load for kubelet.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Doublings of the first pause that reach the longest.
const MOST_DOUBLINGS: u32 = 6;

/// Why the socket must be bound again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RegistrationError {
    #[error("kubelet refused it: {0}")]
    Refused(String),
    /// No socket can be bound, or it cannot be served.
    #[error("{0}")]
    NotBound(String),
    #[error("its registration socket was removed")]
    Removed,
    #[error("its registration socket was replaced")]
    Replaced,
    /// kubelet may have missed that the socket appeared.
    #[error("kubelet has not registered it in time, and gives no reason")]
    Silent,
    /// kubelet must query it again, because of the objects in the API server.
    #[error("it is being registered again")]
    Renewed,
}

/// The pauses of one driver.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    troubles: u32,
}

impl RegistrationError {
    /// Reason of the event on the Node, for problems that a person must check.
    pub(super) fn event(&self) -> Option<&'static str> {
        match self {
            Self::Refused(_) => Some("DriverRegistrationRefused"),
            Self::NotBound(_) | Self::Replaced => Some("DriverRegistrationBlocked"),
            Self::Removed | Self::Silent | Self::Renewed => None,
        }
    }
}

impl Pauses {
    /// How long to wait before binding again. `lasted`: how long kubelet had the driver registered.
    pub(super) fn after(&mut self, error: &RegistrationError, lasted: Duration) -> Duration {
        if lasted >= LONGEST_PAUSE {
            self.troubles = 0;
        }
        // The code that requests a renewal has its own pauses, and kubelet's silence was long.
        if matches!(
            error,
            RegistrationError::Renewed | RegistrationError::Silent
        ) {
            return Duration::ZERO;
        }
        let before = self.troubles;
        self.troubles = before.saturating_add(1);
        // Removing the socket by mistake must cost pods nothing; a process that does it repeatedly is not fought.
        if before == 0 && *error == RegistrationError::Removed {
            return Duration::ZERO;
        }
        (FIRST_PAUSE * (1 << before.min(MOST_DOUBLINGS))).min(LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> RegistrationError {
        RegistrationError::Refused("no".to_owned())
    }

    fn seconds(
        pauses: &mut Pauses,
        error: &RegistrationError,
        times: usize,
        lasted: u64,
    ) -> Vec<u64> {
        let lasted = Duration::from_secs(lasted);
        (0..times)
            .map(|_| pauses.after(error, lasted).as_secs())
            .collect()
    }

    #[test]
    fn pauses_double_from_one_second_to_a_minute_and_stay_there() {
        for error in [
            refused(),
            RegistrationError::NotBound(String::new()),
            RegistrationError::Replaced,
        ] {
            let pauses = seconds(&mut Pauses::default(), &error, 9, 0);
            assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60], "{error}");
        }
        let mut tired = Pauses { troubles: u32::MAX };
        assert_eq!(seconds(&mut tired, &refused(), 2, 0), [60, 60]);
    }

    #[test]
    fn a_removed_socket_is_recreated_at_once() {
        let pauses = seconds(&mut Pauses::default(), &RegistrationError::Removed, 5, 59);
        assert_eq!(pauses, [0, 2, 4, 8, 16]);
    }

    #[test]
    fn a_stable_minute_resets_the_registration_backoff() {
        let mut pauses = Pauses::default();
        assert_eq!(seconds(&mut pauses, &refused(), 4, 0), [1, 2, 4, 8]);
        assert_eq!(seconds(&mut pauses, &refused(), 1, 59), [16]);
        assert_eq!(seconds(&mut pauses, &refused(), 1, 60), [1]);
        assert_eq!(
            seconds(&mut pauses, &RegistrationError::Removed, 1, 60),
            [0]
        );
    }

    #[test]
    fn what_is_asked_for_does_not_wait_and_costs_no_pause_later() {
        let mut pauses = Pauses::default();
        for error in [RegistrationError::Renewed, RegistrationError::Silent] {
            assert_eq!(seconds(&mut pauses, &error, 3, 0), [0, 0, 0]);
        }
        assert_eq!(seconds(&mut pauses, &refused(), 1, 0), [1]);
    }

    #[test]
    fn the_message_of_kubelet_is_reported() {
        assert_eq!(refused().to_string(), "kubelet refused it: no");
    }
}
