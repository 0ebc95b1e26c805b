//! The paths of the requests.

/// GET: [`crate::words::HostStatus`].
pub const STATUS: &str = "/v1/status";
/// GET: [`crate::words::History`].
pub const HISTORY: &str = "/v1/drivers/{driver}/history";
/// GET: [`crate::words::Volumes`].
pub const VOLUMES: &str = "/v1/drivers/{driver}/volumes";
/// POST, [`crate::words::Swap`]: [`crate::words::Done`].
pub const SWAP: &str = "/v1/drivers/{driver}/swap";
/// POST, [`crate::words::Rollback`]: [`crate::words::Done`].
pub const ROLLBACK: &str = "/v1/drivers/{driver}/rollback";
/// POST: [`crate::words::Done`].
pub const PAUSE: &str = "/v1/drivers/{driver}/pause";
/// POST: [`crate::words::Done`].
pub const RESUME: &str = "/v1/drivers/{driver}/resume";
/// POST, [`crate::words::Drain`]: [`crate::words::Drained`].
pub const DRAIN: &str = "/v1/drivers/{driver}/drain";
/// POST, [`crate::words::Delete`]: [`crate::words::Done`].
pub const DELETE: &str = "/v1/drivers/{driver}/delete";

/// One of these paths for one driver.
pub fn of(path: &str, driver: &str) -> String {
    path.replace("{driver}", driver)
}

/// Whether a string can be the name of a driver; otherwise it is not put into a path. CSI: at most 63 characters, letters, digits, `-` and `.`.
pub fn is_driver(word: &str) -> bool {
    /// Longest name (CSI, GetPluginInfo).
    const MOST: usize = 63;
    let may = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    (1..=MOST).contains(&word.len()) && word.bytes().all(may)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_its_driver() {
        assert_eq!(of(SWAP, "a.b"), "/v1/drivers/a.b/swap");
        assert_eq!(of(STATUS, "a.b"), "/v1/status");
    }

    #[test]
    fn what_would_lead_elsewhere_is_no_driver() {
        for word in ["a.b", "A-1"] {
            assert!(is_driver(word), "{word}");
        }
        for word in ["", "a/b", "a b", "a?b", "a#b", "é", &"a".repeat(64)] {
            assert!(!is_driver(word), "{word}");
        }
    }
}
