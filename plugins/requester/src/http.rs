//! Requests by `wasi:http` itself.

use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingBody, Method, OutgoingBody, OutgoingRequest,
    Scheme,
};
use wasip2::io::streams::StreamError;
use wasmount_guest::Error;

/// The header that says what a request does.
const MARKS: &str = "wasmount-request";
/// Bytes that are written or read at a time: what `blocking-write-and-flush` takes at most.
const STEP: usize = 4096;

/// A request.
pub struct Request<'a> {
    pub method: &'a str,
    pub authority: &'a str,
    pub path: &'a str,
    pub marks: Option<&'a str>,
    pub body: Vec<u8>,
}

/// An answer.
#[derive(Default)]
pub struct Answer {
    status: u16,
    body: Vec<u8>,
    trailers: Vec<(String, Vec<u8>)>,
}

impl Answer {
    /// An answer without a status.
    pub fn of(text: &str) -> Self {
        Self {
            body: text.as_bytes().to_owned(),
            ..Self::default()
        }
    }

    /// Its status, its body, and its trailers.
    pub fn text(&self) -> String {
        let mut text = format!("{} {}", self.status, String::from_utf8_lossy(&self.body));
        for (name, value) in &self.trailers {
            text += &format!(" {name}={}", String::from_utf8_lossy(value));
        }
        text
    }
}

/// Sends a request.
pub fn begin(request: &Request<'_>) -> Result<FutureIncomingResponse, Error> {
    let headers = Fields::new();
    if let Some(marks) = request.marks {
        let set = headers.append(MARKS, marks.as_bytes());
        set.map_err(|error| Error::internal(format!("{error:?}")))?;
    }
    let outgoing = OutgoingRequest::new(headers);
    let set = outgoing
        .set_method(&Method::Other(request.method.to_owned()))
        .and_then(|()| outgoing.set_scheme(Some(&Scheme::Https)))
        .and_then(|()| outgoing.set_authority(Some(request.authority)))
        .and_then(|()| outgoing.set_path_with_query(Some(request.path)));
    set.map_err(|()| Error::invalid_argument("it is no request"))?;
    let body = outgoing.body().map_err(|()| again("the body"))?;
    let answer = outgoing_handler::handle(outgoing, None).map_err(failed)?;
    write(body, &request.body)?;
    Ok(answer)
}

/// Waits for the whole answer.
pub fn answer(answer: &FutureIncomingResponse) -> Result<Answer, Error> {
    answer.subscribe().block();
    let response = match answer.get() {
        Some(Ok(response)) => response.map_err(failed)?,
        _ => return Err(again("the answer")),
    };
    let incoming = response.consume().map_err(|()| again("the body"))?;
    let body = read(&incoming)?;
    let trailers = IncomingBody::finish(incoming);
    trailers.subscribe().block();
    let trailers = match trailers.get() {
        Some(Ok(trailers)) => trailers.map_err(failed)?,
        _ => return Err(again("the trailers")),
    };
    Ok(Answer {
        status: response.status(),
        body,
        trailers: trailers.map(|fields| fields.entries()).unwrap_or_default(),
    })
}

fn write(body: OutgoingBody, bytes: &[u8]) -> Result<(), Error> {
    let stream = body.write().map_err(|()| again("the stream"))?;
    for step in bytes.chunks(STEP) {
        // The host stops reading where it refuses the request: its answer says why.
        if stream.blocking_write_and_flush(step).is_err() {
            break;
        }
    }
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
    Ok(())
}

fn read(incoming: &IncomingBody) -> Result<Vec<u8>, Error> {
    let stream = incoming.stream().map_err(|()| again("the stream"))?;
    let mut body = Vec::new();
    loop {
        match stream.blocking_read(u64::MAX) {
            Ok(bytes) => body.extend_from_slice(&bytes),
            Err(StreamError::Closed) => return Ok(body),
            Err(StreamError::LastOperationFailed(error)) => {
                return Err(Error::unavailable(error.to_debug_string()));
            }
        }
    }
}

/// What the host says becomes what the client reads.
fn failed(error: ErrorCode) -> Error {
    match error {
        ErrorCode::HttpRequestDenied => Error::permission_denied("the request was denied"),
        error => Error::unavailable(format!("{error:?}")),
    }
}

fn again(what: &str) -> Error {
    Error::internal(format!("{what} was taken twice"))
}
