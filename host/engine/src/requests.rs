//! The HTTP requests of one call, and what they may have left on a storage system.
//!
//! Each request runs in a task of its own, so the call shares this with its tasks.

use http::{HeaderMap, Method, StatusCode};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use wasmount_core::blame::Blame;
use wasmount_core::mutex::lock;
use wasmount_network::Marks;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It changes nothing.
    Reading,
    /// It may change something.
    Changing,
    /// It undoes what the call sent before it.
    Undoing,
}

/// A request that the grants do not allow.
#[derive(Debug, Clone)]
pub(crate) struct Denial {
    /// What is denied, and the lines of the document that would allow it.
    pub(crate) text: String,
    pub(crate) blame: Blame,
}

/// The requests of one call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests(Arc<Mutex<Ledger>>);

#[derive(Debug, Default)]
struct Ledger {
    begun: u64,
    denied: u64,
    /// Requests without an outcome, by their number.
    under_way: BTreeMap<u64, Kind>,
    /// The newest request whose change may remain.
    left: Option<u64>,
    denial: Option<Denial>,
    is_withheld: bool,
    is_closed: bool,
}

/// A request under way. If it is dropped without an outcome, it may still be executed.
#[derive(Debug)]
pub(crate) struct Request {
    requests: Requests,
    number: u64,
    kind: Kind,
}

impl Kind {
    /// The kind, by the method and by the guest's own marks.
    pub(crate) fn of(method: &Method, headers: &HeaderMap) -> Self {
        let marks = Marks::of(headers);
        if marks.undo {
            Self::Undoing
        } else if method.is_safe() || marks.read {
            Self::Reading
        } else {
            Self::Changing
        }
    }
}

impl Requests {
    /// Registers a request that may leave from now on; none: the call has ended.
    pub(crate) fn begin(&self, kind: Kind) -> Option<Request> {
        let mut ledger = lock(&self.0);
        if ledger.is_closed {
            return None;
        }
        ledger.begun += 1;
        let number = ledger.begun;
        ledger.under_way.insert(number, kind);
        Some(Request {
            requests: self.clone(),
            number,
            kind,
        })
    }

    /// Registers a request that was denied; the last one counts.
    pub(crate) fn deny(&self, denial: Denial) {
        let mut ledger = lock(&self.0);
        ledger.denied += 1;
        ledger.denial = Some(denial);
    }

    /// Whether the call has asked a storage system for something.
    pub(crate) fn have_begun(&self) -> bool {
        let ledger = lock(&self.0);
        ledger.begun > ledger.denied
    }

    /// The last denied request.
    pub(crate) fn denial(&self) -> Option<Denial> {
        lock(&self.0).denial.clone()
    }

    /// Registers a request of a version that does not serve yet.
    pub(crate) fn withhold(&self) {
        lock(&self.0).is_withheld = true;
    }

    /// Whether a request was withheld because the version does not serve yet.
    pub(crate) fn were_withheld(&self) -> bool {
        lock(&self.0).is_withheld
    }

    /// Whether the call waits for the network now.
    pub(crate) fn are_under_way(&self) -> bool {
        !lock(&self.0).under_way.is_empty()
    }

    /// Ends the requests of the call: none begins any more. Returns whether a change may remain; one under way counts, since it may be executed.
    pub(crate) fn close(&self) -> bool {
        let mut ledger = lock(&self.0);
        ledger.is_closed = true;
        let is_change = |kind: &Kind| *kind != Kind::Reading;
        ledger.left.is_some() || ledger.under_way.values().any(is_change)
    }
}

impl Request {
    /// It was answered. `after_unknown`: an earlier attempt of it may have been executed, so no answer is a rejection of the whole.
    pub(crate) fn answered(self, status: StatusCode, after_unknown: bool) {
        let mut ledger = lock(&self.requests.0);
        if ledger.under_way.remove(&self.number).is_none() {
            return;
        }
        match self.kind {
            Kind::Undoing if status.is_success() || status == StatusCode::NOT_FOUND => {
                ledger.left = ledger.left.filter(|newest| *newest > self.number);
            }
            Kind::Changing | Kind::Undoing if after_unknown || may_remain(status) => {
                ledger.leave(self.number);
            }
            _ => {}
        }
    }

    /// It was not answered. `sent`: it may have been executed.
    pub(crate) fn failed(self, sent: bool) {
        // One that may have been executed counts as dropped without an outcome.
        if !sent {
            lock(&self.requests.0).under_way.remove(&self.number);
        }
    }
}

/// The guest dropped it, or the call ended.
impl Drop for Request {
    fn drop(&mut self) {
        let mut ledger = lock(&self.requests.0);
        let known = ledger.under_way.remove(&self.number);
        if known.is_some_and(|kind| kind != Kind::Reading) {
            ledger.leave(self.number);
        }
    }
}

impl Ledger {
    fn leave(&mut self, number: u64) {
        self.left = self.left.max(Some(number));
    }
}

/// Whether a change that was answered with this status may exist. A status of the class 4xx is a rejection; after one of the class 5xx, the storage
/// system may have executed it in part.
fn may_remain(status: StatusCode) -> bool {
    !status.is_client_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: StatusCode = StatusCode::OK;

    fn after(steps: &[(Kind, StatusCode)]) -> bool {
        let requests = Requests::default();
        for (kind, status) in steps {
            requests.begin(*kind).unwrap().answered(*status, false);
        }
        requests.close()
    }

    #[test]
    fn a_change_remains_unless_it_was_rejected_or_undone() {
        use Kind::{Changing, Reading, Undoing};
        let missing = StatusCode::NOT_FOUND;
        for (steps, is_left) in [
            (
                &[(Reading, OK), (Reading, StatusCode::BAD_GATEWAY)][..],
                false,
            ),
            (&[(Changing, OK)], true),
            (&[(Changing, StatusCode::ACCEPTED)], true),
            (&[(Changing, StatusCode::SEE_OTHER)], true),
            (&[(Changing, StatusCode::INTERNAL_SERVER_ERROR)], true),
            (&[(Changing, StatusCode::CONFLICT)], false),
            (&[(Changing, StatusCode::TOO_MANY_REQUESTS)], false),
            (&[(Changing, OK), (Undoing, OK)], false),
            (&[(Changing, OK), (Changing, OK), (Undoing, missing)], false),
            (&[(Changing, OK), (Undoing, StatusCode::CONFLICT)], true),
            (&[(Undoing, StatusCode::BAD_GATEWAY)], true),
            (&[(Changing, OK), (Undoing, OK), (Changing, OK)], true),
        ] {
            assert_eq!(after(steps), is_left, "{steps:?}");
        }
    }

    #[test]
    fn a_change_without_an_answer_remains_if_it_was_sent() {
        for (kind, sent, is_left) in [
            (Kind::Changing, true, true),
            (Kind::Changing, false, false),
            (Kind::Undoing, true, true),
            (Kind::Reading, true, false),
        ] {
            let requests = Requests::default();
            requests.begin(kind).unwrap().failed(sent);
            assert_eq!(requests.close(), is_left, "{kind:?} {sent}");
        }
    }

    #[test]
    fn a_change_remains_if_an_earlier_attempt_is_unknown() {
        for (kind, status, after_unknown, is_left) in [
            (Kind::Changing, StatusCode::CONFLICT, true, true),
            (Kind::Changing, StatusCode::CONFLICT, false, false),
            (Kind::Changing, StatusCode::TOO_MANY_REQUESTS, true, true),
            (Kind::Undoing, StatusCode::CONFLICT, true, true),
            // What it removes is gone, whichever attempt removed it.
            (Kind::Undoing, StatusCode::NOT_FOUND, true, false),
            (Kind::Reading, StatusCode::CONFLICT, true, false),
        ] {
            let requests = Requests::default();
            let request = requests.begin(kind).unwrap();
            request.answered(status, after_unknown);
            assert_eq!(requests.close(), is_left, "{kind:?} {status}");
        }
    }

    #[test]
    fn a_change_that_is_dropped_remains() {
        let requests = Requests::default();
        let change = requests.begin(Kind::Changing).unwrap();
        assert!(requests.are_under_way() && requests.close());
        drop(change);
        assert!(!requests.are_under_way() && requests.close());
        let requests = Requests::default();
        drop(requests.begin(Kind::Reading).unwrap());
        assert!(!requests.close());
    }

    #[test]
    fn an_undo_leaves_what_was_sent_after_it() {
        let requests = Requests::default();
        requests.begin(Kind::Changing).unwrap().answered(OK, false);
        let undo = requests.begin(Kind::Undoing).unwrap();
        requests.begin(Kind::Changing).unwrap().answered(OK, false);
        undo.answered(OK, false);
        assert!(requests.close());
    }

    #[test]
    fn the_kind_is_told_by_method_and_marks() {
        for (method, mark, kind) in [
            (Method::GET, None, Kind::Reading),
            (Method::HEAD, None, Kind::Reading),
            (Method::OPTIONS, None, Kind::Reading),
            (Method::POST, None, Kind::Changing),
            (Method::DELETE, None, Kind::Changing),
            (Method::POST, Some("read"), Kind::Reading),
            (Method::POST, Some("idempotent"), Kind::Changing),
            (Method::DELETE, Some("undo, idempotent"), Kind::Undoing),
        ] {
            let mark =
                mark.map(|mark| ("wasmount-request".parse().unwrap(), mark.parse().unwrap()));
            let headers: HeaderMap = mark.into_iter().collect();
            assert_eq!(Kind::of(&method, &headers), kind, "{method} {headers:?}");
        }
    }

    #[test]
    fn a_denied_request_asks_no_storage_system() {
        let requests = Requests::default();
        assert!(!requests.have_begun());
        requests.begin(Kind::Reading).unwrap().failed(false);
        assert!(requests.have_begun());
        requests.deny(Denial {
            text: String::new(),
            blame: Blame::argument("other"),
        });
        assert!(!requests.have_begun());
        requests.begin(Kind::Reading).unwrap().failed(false);
        assert!(requests.have_begun());
    }

    #[test]
    fn no_request_begins_after_the_end_of_its_call() {
        let requests = Requests::default();
        assert!(requests.begin(Kind::Changing).is_some());
        assert!(requests.close());
        assert!(requests.begin(Kind::Changing).is_none());
    }
}
