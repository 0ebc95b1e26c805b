//! The network in memory: the storage system is a function of the test, which may be lost to its caller.

use super::{attempt, with};
use crate::error::Error;
use crate::http::{Failure, Request, Response};
use std::cell::RefCell;
use std::rc::Rc;

type Answer = Rc<RefCell<dyn FnMut(&Request) -> Response>>;

/// What requests meet.
#[derive(Default)]
pub(super) struct Network {
    answer: Option<Answer>,
    /// The answers that still arrive; `None`: all.
    pub(super) arriving: Option<usize>,
    requests: Vec<String>,
}

/// Answers each request by a function, as the storage system of every grant ([`Request::grant`]) would. Without it nothing is granted, and a
/// request is answered `permission-denied`.
pub fn http(answer: impl FnMut(&Request) -> Response + 'static) {
    with(|host| host.network.answer = Some(Rc::new(RefCell::new(answer))));
}

/// The answers to the next `requests` requests arrive. Each request after them is carried out and its answer is lost, as by a broken connection: its
/// caller gets `unavailable`. [`super::mend`] ends it. So a test can end a call after any of its effects on the storage system.
pub fn lose_answer_after(requests: usize) {
    with(|host| host.network.arriving = Some(requests));
}

/// The requests that were carried out, in order: `GET array/api/volumes?name=a`.
pub fn requests() -> Vec<String> {
    with(|host| host.network.requests.clone())
}

/// The function `handle` of `wasi:http/outgoing-handler`.
pub(crate) fn send(request: &Request) -> Result<Response, Failure> {
    let granted = attempt(|host| Ok(host.network.answer.clone()));
    let granted = granted.map_err(|Error { message, .. }| Failure::NotSent(message))?;
    let answer = granted.ok_or(Failure::NotGranted)?;
    with(|host| {
        let (method, grant) = (request.method().as_str(), request.grant());
        let line = format!("{method} {grant}{}", request.path_with_query());
        host.network.requests.push(line);
    });
    // Not within `with`: the function may use this host, too.
    let response = (*answer.borrow_mut())(request);
    with(|host| match &mut host.network.arriving {
        None => Ok(response),
        Some(0) => Err(Failure::Lost("the connection ended".to_owned())),
        Some(left) => {
            *left -= 1;
            Ok(response)
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::error::{Code, Error};
    use crate::{http, testing};

    fn codes(requests: usize) -> Vec<Option<Code>> {
        let send = |_| http::post("array", "/api").send();
        let codes = (0..requests).map(send);
        codes.map(|it| it.err().map(|error| error.code)).collect()
    }

    #[test]
    fn nothing_is_granted_unless_the_test_answers() {
        testing::reset();
        assert_eq!(codes(1), [Some(Code::PermissionDenied)]);
        assert_eq!(testing::requests(), [""; 0]);
        testing::http(|request| {
            let status = if request.grant() == "array" { 200 } else { 404 };
            http::Response::new(status)
        });
        assert_eq!(codes(1), [None]);
        assert_eq!(testing::requests(), ["POST array/api"]);
    }

    #[test]
    fn a_lost_answer_is_uncertain_and_was_carried_out() {
        testing::reset();
        testing::http(|_| http::Response::new(200));
        testing::lose_answer_after(2);
        let lost = Some(Code::Unavailable);
        assert_eq!(codes(4), [None, None, lost, lost]);
        assert_eq!(testing::requests().len(), 4);
        testing::mend();
        assert_eq!(codes(1), [None]);
    }

    #[test]
    fn a_failed_host_call_sends_nothing() {
        testing::reset();
        testing::http(|_| http::Response::new(200));
        testing::fail_after(1, Error::unavailable("power cut"));
        assert_eq!(codes(2), [None, Some(Code::Unavailable)]);
        assert_eq!(testing::requests().len(), 1);
    }
}
