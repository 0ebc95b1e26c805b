//! A request: where it goes, what it carries, and what the host may do with it.

use crate::attributes::AttributesExt;
use crate::error::{Code, Error};
use crate::http::Response;
use crate::imports;
use crate::volume::PageRequest;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// What stays as it is in a segment of a path or in a query: RFC 3986, unreserved characters.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The header by which a request tells the host what may be done with it. The host removes it.
const MARKS: &str = "wasmount-request";

/// A method of HTTP, of those that a grant can allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the words are HTTP's")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

/// A request, which [`Request::send`] sends as often as it is called.
#[derive(Clone)]
#[must_use = "a request does nothing until `send`"]
pub struct Request {
    method: Method,
    grant: String,
    path: String,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    marks: Vec<&'static str>,
    /// Why it cannot be sent.
    unusable: Option<Error>,
}

impl Method {
    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

impl Request {
    /// A request of any method. `path` begins with `/`, and may hold a query; parts that come from elsewhere, such as ids, are appended by
    /// [`Request::segment`].
    pub fn new(method: Method, grant: &str, path: &str) -> Self {
        Self {
            method,
            grant: grant.to_owned(),
            path: path.to_owned(),
            query: Vec::new(),
            headers: Vec::new(),
            body: Vec::new(),
            marks: Vec::new(),
            unusable: None,
        }
    }

    /// Appends `/` and a segment to the path, percent-encoded: an id leads to no other path, whatever it holds. An empty one, `.` and `..` make
    /// `send` answer `invalid-argument`, and any after a query that the path holds `internal`.
    pub fn segment(mut self, segment: &str) -> Self {
        if matches!(segment, "" | "." | "..") {
            let what = format!("`{segment}` names nothing in `{}`", self.grant);
            self.unusable = Some(Error::invalid_argument(what));
        }
        // Behind the query it would leave a request for all that the path names.
        if self.path.contains('?') {
            let what = format!("{self:?} has a query: append segments before the query");
            self.unusable = Some(Error::internal(what));
        }
        self.path.push('/');
        self.path.extend(utf8_percent_encode(segment, RESERVED));
        self
    }

    /// Sets a parameter of the query, percent-encoded.
    pub fn query(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.query.retain(|(other, _)| other != name);
        self.query.push((name.to_owned(), value.to_string()));
        self
    }

    /// The same if there is a value.
    pub fn query_some(self, name: &str, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// Asks for a page of a list, by the parameters of the query that are its size and the token of the page.
    pub fn page(self, page: &PageRequest, size: &str, token: &str) -> Self {
        let request = self.query_some(size, page.max_entries);
        request.query_some(token, page.starting_token.as_ref())
    }

    /// Adds a header. Those that belong to the host, such as `host`, and `authorization` where the grant has credentials, are refused there.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers
            .push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// Sets the body to a value as JSON.
    pub fn json<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(bytes) => self.body("application/json", bytes),
            Err(error) => {
                let what = format!("the body of {self:?} cannot be written as JSON: {error}");
                self.unusable = Some(Error::internal(what));
                self
            }
        }
    }

    /// Sets the body.
    pub fn body(mut self, content_type: &str, bytes: Vec<u8>) -> Self {
        self.body = bytes;
        self.header("content-type", content_type)
    }

    /// It changes nothing, though its method is POST: allowed in calls that only read, such as `list-volumes`, repeated by the host, and no effect.
    pub fn read(self) -> Self {
        self.mark("read")
    }

    /// It takes back what this call has done so far: after 2xx or 404, an error of the call may be final again.
    pub fn undo(self) -> Self {
        self.mark("undo")
    }

    /// Its repetition changes nothing more, so the host repeats it after a lost connection and after 502, 503 and 504. GET, HEAD and
    /// [`Request::read`] need not say so.
    pub fn idempotent(self) -> Self {
        self.mark("idempotent")
    }

    /// Sends it and returns the answer, of whatever status. An error says why there is none, and whether the request may have been carried out:
    /// `unavailable` and `deadline-exceeded` (the caller retries), `permission-denied` (not granted), `internal` (the answer is too large).
    pub fn send(&self) -> Result<Response, Error> {
        if let Some(error) = &self.unusable {
            return Err(error.clone());
        }
        let answer = imports::http::send(self);
        answer
            .map(|answer| answer.to(self))
            .map_err(|failure| failure.into_error(self))
    }

    /// Sends it, and reads the body of a success as a value: [`Response::must_succeed`], then [`Response::json`].
    pub fn load<T: DeserializeOwned>(&self) -> Result<T, Error> {
        self.load_as(&[])
    }

    /// The same with other codes for some statuses: [`Response::must_succeed_as`].
    pub fn load_as<T: DeserializeOwned>(&self, codes: &[(u16, Code)]) -> Result<T, Error> {
        self.send()?.must_succeed_as(codes)?.json()
    }

    /// Sends a deletion, which may be repeated: [`Request::idempotent`], then [`Response::deleted`].
    pub fn send_deletion(self) -> Result<(), Error> {
        self.idempotent().send()?.deleted()
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The grant that it names.
    pub fn grant(&self) -> &str {
        &self.grant
    }

    /// The path, percent-encoded, without the query.
    pub fn path(&self) -> &str {
        self.path
            .split_once('?')
            .map_or(&self.path, |(path, _)| path)
    }

    /// The value of a parameter that [`Request::query`] set.
    pub fn query_value(&self, name: &str) -> Option<&str> {
        self.query.value(name)
    }

    /// The value of a header.
    pub fn header_value(&self, name: &str) -> Option<&str> {
        self.headers.value(&name.to_ascii_lowercase())
    }

    /// The body.
    pub fn read_body(&self) -> &[u8] {
        &self.body
    }

    /// The body as a value; `None` if it is another.
    pub fn read_json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Path and query as on the wire.
    pub fn path_with_query(&self) -> String {
        let mut target = self.path.clone();
        for (name, value) in &self.query {
            target.push(if target.contains('?') { '&' } else { '?' });
            target.extend(utf8_percent_encode(name, RESERVED));
            target.push('=');
            target.extend(utf8_percent_encode(value, RESERVED));
        }
        target
    }

    /// All headers, with the one that tells the host what may be done with the request.
    pub fn headers(&self) -> Vec<(String, String)> {
        let marks = (!self.marks.is_empty()).then(|| (MARKS.to_owned(), self.marks.join(",")));
        self.headers.iter().cloned().chain(marks).collect()
    }

    /// The same request for another path with its query.
    pub(crate) fn at(&self, path_with_query: String) -> Self {
        Self {
            path: path_with_query,
            query: Vec::new(),
            ..self.clone()
        }
    }

    fn mark(mut self, mark: &'static str) -> Self {
        if !self.marks.contains(&mark) {
            self.marks.push(mark);
        }
        self
    }
}

/// Without query, headers and body: an author may have put anything there.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, path) = (self.method.as_str(), self.path());
        write!(f, "{method} {path} of `{}`", self.grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{http, testing};

    #[test]
    fn a_request_is_on_the_wire_as_it_was_built() {
        let request = http::post("array", "/api/volumes")
            .segment("a/b c")
            .query("marker", 7)
            .query("name", "x&y=z")
            .query_some("marker", Some(8))
            .query_some("limit", None::<u64>)
            .header("X-Trace", "1")
            .json(&[1, 2])
            .idempotent()
            .undo();
        assert_eq!(request.path(), "/api/volumes/a%2Fb%20c");
        assert_eq!(
            request.path_with_query(),
            "/api/volumes/a%2Fb%20c?name=x%26y%3Dz&marker=8"
        );
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            request.headers(),
            [
                header("x-trace", "1"),
                header("content-type", "application/json"),
                header("wasmount-request", "idempotent,undo"),
            ]
        );
        assert_eq!(request.read_json(), Some([1, 2]));
        assert_eq!(request.header_value("x-TRACE"), Some("1"));
        assert_eq!(request.query_value("marker"), Some("8"));
    }

    #[test]
    fn a_page_is_asked_for_by_size_and_token() {
        let page = |max_entries, token: Option<&str>| {
            let page = PageRequest {
                max_entries,
                starting_token: token.map(str::to_owned),
            };
            let request = http::get("array", "/list").page(&page, "limit", "marker");
            request.path_with_query()
        };
        assert_eq!(page(None, None), "/list");
        assert_eq!(page(Some(5), Some("a")), "/list?limit=5&marker=a");
    }

    #[test]
    fn a_status_is_the_code_that_the_plugin_gave_it() {
        testing::reset();
        testing::http(|request| match request.method() {
            Method::Get => http::Response::new(200).with_json(&7),
            _ => http::Response::new(423),
        });
        let codes = &[(423, Code::FailedPrecondition)];
        assert_eq!(http::get("array", "/a").load_as(codes), Ok(7));
        let refused = http::put("array", "/a").load_as::<u64>(codes);
        let code = refused.map_err(|error| error.code);
        assert_eq!(code, Err(Code::FailedPrecondition));
    }

    #[test]
    fn what_is_gone_is_deleted_and_what_is_in_use_is_not() {
        for (status, expected) in [
            (204, Ok(())),
            (404, Ok(())),
            (409, Err(Code::FailedPrecondition)),
            (503, Err(Code::Unavailable)),
        ] {
            testing::reset();
            testing::http(move |request| {
                assert_eq!(
                    request.headers(),
                    [(MARKS.to_owned(), "idempotent".to_owned())]
                );
                http::Response::new(status)
            });
            let deleted = http::delete("array", "/a").send_deletion();
            assert_eq!(deleted.map_err(|error| error.code), expected, "{status}");
        }
    }

    #[test]
    fn a_query_of_the_path_is_continued() {
        let request = http::get("array", "/list?all=true").query("page", 2);
        assert_eq!(request.path_with_query(), "/list?all=true&page=2");
        assert_eq!(request.path(), "/list");
        assert_eq!(request.headers(), []);
    }

    #[test]
    fn a_segment_never_leads_to_another_path() {
        testing::reset();
        testing::http(|_| http::Response::new(200));
        for (path, segment, refused) in [
            ("/api/volumes", "", Code::InvalidArgument),
            ("/api/volumes", ".", Code::InvalidArgument),
            ("/api/volumes", "..", Code::InvalidArgument),
            ("/api/volumes?force=true", "a", Code::Internal),
        ] {
            let request = http::delete("array", path).segment(segment);
            let code = request.send().map(drop).map_err(|error| error.code);
            assert_eq!(code, Err(refused), "{path} {segment:?}");
        }
        assert_eq!(testing::requests(), [""; 0]);
        let request = http::delete("array", "/api/volumes").segment("../hosts?a#b");
        assert_eq!(request.path(), "/api/volumes/..%2Fhosts%3Fa%23b");
        assert!(request.send().is_ok());
    }

    #[test]
    fn what_shows_a_request_hides_its_content() {
        let request = http::put("array", "/login?password=hunter2")
            .header("x-token", "hunter2")
            .body("text/plain", b"hunter2".to_vec());
        assert_eq!(format!("{request:?}"), "PUT /login of `array`");
    }
}
