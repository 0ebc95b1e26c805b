//! A request over `wasi:http/outgoing-handler`. A component imports it only if it sends something.

use super::failure::Failure;
use super::{Method, Request, Response};
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingResponse, Method as WireMethod, OutgoingBody,
    OutgoingRequest, Scheme,
};
use wasip2::io::streams::StreamError;

/// What one write may take: `blocking-write-and-flush` of `wasi:io/streams`.
const WRITE_BYTES: usize = 4096;

/// What one read may return.
const READ_BYTES: u64 = 64 << 10;

/// Sends a request and reads the whole answer.
pub(crate) fn send(request: &Request) -> Result<Response, Failure> {
    let headers = request.headers().into_iter();
    let headers: Vec<_> = headers
        .map(|(name, value)| (name, value.into_bytes()))
        .collect();
    let headers = Fields::from_list(&headers).map_err(|_| not_sent("a header is not allowed"))?;
    let outgoing = OutgoingRequest::new(headers);
    let method = outgoing.set_method(&method(request.method()));
    let target = outgoing.set_path_with_query(Some(&request.path_with_query()));
    // The scheme is the grant's.
    let scheme = outgoing.set_scheme(Some(&Scheme::Https));
    let authority = outgoing.set_authority(Some(request.grant()));
    method
        .and(target)
        .and(scheme)
        .and(authority)
        .map_err(|()| not_sent("its path or the name of its grant is not valid"))?;
    let body = outgoing.body().map_err(|()| not_sent("no body"))?;
    // First, since the host may read the body while it is written.
    let answer = handle(outgoing, None).map_err(failure)?;
    write(body, request.read_body());
    answer.subscribe().block();
    match answer.get() {
        Some(Ok(Ok(answer))) => read(&answer),
        Some(Ok(Err(code))) => Err(failure(code)),
        // Taken once, and it is ready: a host answers neither.
        Some(Err(())) | None => Err(Failure::Lost("the host has no answer".to_owned())),
    }
}

/// If the host stops reading, the answer says why.
fn write(body: OutgoingBody, bytes: &[u8]) {
    if let Ok(stream) = body.write() {
        let mut pieces = bytes.chunks(WRITE_BYTES);
        let _ = pieces.try_for_each(|piece| stream.blocking_write_and_flush(piece));
    }
    let _ = OutgoingBody::finish(body, None);
}

fn read(answer: &IncomingResponse) -> Result<Response, Failure> {
    let cut = || Failure::Lost("the answer ended early".to_owned());
    let body = answer.consume().map_err(|()| cut())?;
    let mut bytes = Vec::new();
    {
        let stream = body.stream().map_err(|()| cut())?;
        loop {
            match stream.blocking_read(READ_BYTES) {
                Ok(piece) => bytes.extend_from_slice(&piece),
                Err(StreamError::Closed) => break,
                Err(StreamError::LastOperationFailed(_)) => return Err(cut()),
            }
        }
    }
    let read = Response::new(answer.status()).with_body(bytes);
    let read =
        fields(&answer.headers()).fold(read, |it, (name, value)| it.with_header(&name, &value));
    let trailers = IncomingBody::finish(body);
    trailers.subscribe().block();
    match trailers.get() {
        Some(Ok(Ok(Some(trailers)))) => {
            Ok(fields(&trailers).fold(read, |it, (name, value)| it.with_trailer(&name, &value)))
        }
        Some(Ok(Err(_))) => Err(cut()),
        _ => Ok(read),
    }
}

fn fields(fields: &Fields) -> impl Iterator<Item = (String, String)> {
    let text = |(name, value): (String, Vec<u8>)| (name, String::from_utf8_lossy(&value).into());
    fields.entries().into_iter().map(text)
}

fn method(method: Method) -> WireMethod {
    match method {
        Method::Get => WireMethod::Get,
        Method::Head => WireMethod::Head,
        Method::Post => WireMethod::Post,
        Method::Put => WireMethod::Put,
        Method::Patch => WireMethod::Patch,
        Method::Delete => WireMethod::Delete,
    }
}

fn not_sent(why: &str) -> Failure {
    Failure::NotSent(why.to_owned())
}

fn failure(code: ErrorCode) -> Failure {
    match code {
        ErrorCode::HttpRequestDenied => Failure::NotGranted,
        ErrorCode::ConfigurationError => Failure::NotServing,
        ErrorCode::DnsTimeout | ErrorCode::DnsError(_) => not_sent("its host has no address"),
        ErrorCode::DestinationNotFound
        | ErrorCode::DestinationUnavailable
        | ErrorCode::DestinationIpUnroutable
        | ErrorCode::ConnectionRefused
        | ErrorCode::ConnectionTimeout => not_sent("no connection"),
        ErrorCode::DestinationIpProhibited => not_sent("the address of its host is not granted"),
        ErrorCode::TlsProtocolError
        | ErrorCode::TlsCertificateError
        | ErrorCode::TlsAlertReceived(_) => not_sent("no TLS connection"),
        ErrorCode::ConnectionLimitReached => not_sent("too many requests are under way"),
        ErrorCode::HttpRequestBodySize(_) => not_sent("its body is larger than `maxBody`"),
        ErrorCode::HttpResponseTimeout
        | ErrorCode::ConnectionReadTimeout
        | ErrorCode::ConnectionWriteTimeout => Failure::TimedOut,
        ErrorCode::HttpResponseBodySize(_)
        | ErrorCode::HttpResponseHeaderSize(_)
        | ErrorCode::HttpResponseHeaderSectionSize(_) => Failure::TooLarge,
        ErrorCode::InternalError(Some(why)) => Failure::Other(why),
        ErrorCode::ConnectionTerminated => Failure::Lost("the connection ended".to_owned()),
        other => Failure::Lost(other.to_string()),
    }
}
