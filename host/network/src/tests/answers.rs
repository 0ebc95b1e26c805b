//! Which answer counts: retries, times, sizes, trailers.

use super::server::{Authority, Server, answer, answer_with, cut, endless, stalled, with_trailers};
use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

fn array(server: &Server, keys: Value) -> Endpoints {
    let mut entry = json!({ "hosts": [server.address.to_string()], "scheme": "http" });
    entry
        .as_object_mut()
        .unwrap()
        .extend(keys.as_object().unwrap().clone());
    open(json!({ "array": entry }))
}

#[tokio::test]
async fn a_read_is_repeated_and_a_change_is_not() {
    for (line, requests, sent) in [
        ("GET http://array/", 2, None),
        ("POST http://array/ read", 2, None),
        ("POST http://array/ idempotent", 2, None),
        ("PUT http://array/", 1, Some(true)),
        ("POST http://array/", 1, Some(true)),
        ("DELETE http://array/", 1, Some(true)),
    ] {
        let server = Server::start(|_, number| match number {
            0 => cut(),
            _ => answer(200, ""),
        })
        .await;
        let endpoints = array(&server, json!({}));
        let outcome = send(&endpoints, line).await;
        assert_eq!(outcome.err().map(|error| error.sent()), sent, "{line}");
        assert_eq!(server.lines().len(), requests, "{line}");
        let usage = &endpoints.usage()["array"];
        assert_eq!(usage.retries, u64::from(requests == 2), "{line}");
        assert_eq!(usage.lost, u64::from(sent.is_some()), "{line}");
    }
}

#[tokio::test]
async fn a_rejected_repeat_tells_of_an_unknown_attempt() {
    for (first, second, after_unknown) in [
        (None, 409, true),
        (None, 200, true),
        (Some(502), 409, true),
        (Some(503), 404, true),
        (Some(504), 409, true),
        (Some(429), 409, false),
    ] {
        let server = Server::start(move |_, number| match (number, first) {
            (0, None) => cut(),
            (0, Some(first)) => answer(first, ""),
            _ => answer(second, ""),
        })
        .await;
        let endpoints = array(&server, json!({}));
        let response = send(&endpoints, "POST http://array/ idempotent").await;
        let response = response.unwrap();
        assert_eq!(response.parts.status, second, "{first:?}");
        assert_eq!(response.after_unknown, after_unknown, "{first:?} {second}");
        assert_eq!(server.lines().len(), 2, "{first:?}");
    }
    let server = Server::start(|_, _| answer(409, "")).await;
    let only = send(&array(&server, json!({})), "POST http://array/ idempotent").await;
    assert!(!only.unwrap().after_unknown);
}

#[tokio::test]
async fn a_repeat_that_is_not_sent_does_not_hide_the_first() {
    for (first, outcome) in [("503", Ok(503)), ("429", Err(false)), ("", Err(true))] {
        let authority = Authority::new();
        let (tls, _) = authority.server("localhost", false);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("localhost:{}", listener.local_addr().unwrap().port());
        let mut server = JoinSet::new();
        server.spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = tls.accept(stream).await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            if !first.is_empty() {
                let answer = format!("HTTP/1.1 {first} x\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
            }
            drop(stream);
            // Each later connection ends before its handshake, so no request is sent.
            loop {
                drop(listener.accept().await);
            }
        });
        let grant = json!({
            "hosts": [address], "protocol": "http1", "tls": { "ca": "ca" },
            "addresses": ["127.0.0.0/8", "::1/128"],
        });
        let network = Network::new(Vec::new());
        let values = [("ca", authority.ca.as_str())];
        let endpoints = open_in(&network, json!({ "array": grant }), &values).unwrap();
        let seen = send(&endpoints, "DELETE https://array/ idempotent").await;
        let seen = seen.map(|response| response.parts.status.as_u16());
        assert_eq!(seen.map_err(|error| error.sent()), outcome, "`{first}`");
    }
}

#[tokio::test]
async fn a_busy_system_is_asked_again_within_the_time() {
    let server = Server::start(|_, number| match number {
        0 => answer_with(503, ("retry-after", "0"), ""),
        1 => answer(502, ""),
        _ => answer(200, ""),
    })
    .await;
    assert_eq!(
        status(&array(&server, json!({})), "GET http://array/").await,
        200
    );
    assert_eq!(server.lines().len(), 3);
    let busy = Server::start(|_, _| answer_with(503, ("retry-after", "3600"), "later")).await;
    let endpoints = array(&busy, json!({}));
    assert_eq!(status(&endpoints, "GET http://array/").await, 503);
    assert_eq!(status(&endpoints, "POST http://array/").await, 503);
    assert_eq!(busy.lines().len(), 2);
}

#[tokio::test]
async fn an_answer_that_does_not_come_ends_with_its_time() {
    let server = Server::start(|_, _| stalled()).await;
    let endpoints = array(&server, json!({ "timeouts": { "total": "100ms" } }));
    let late = send(&endpoints, "POST http://array/").await.unwrap_err();
    assert!(
        matches!(late, SendError::Timeout { sent: true, .. }),
        "{late}"
    );
    // A server that accepts and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoints = open(json!({ "array": {
        "hosts": [silent.local_addr().unwrap().to_string()], "scheme": "http",
        "timeouts": { "firstByte": "100ms" },
    } }));
    let late = send(&endpoints, "POST http://array/").await.unwrap_err();
    assert!(
        matches!(late, SendError::Timeout { sent: true, .. }),
        "{late}"
    );
}

#[tokio::test]
async fn bodies_are_bounded_in_both_directions() {
    let server = Server::start(|seen, _| match seen.line.as_str() {
        "GET /endless" => endless(),
        _ => answer(200, &"x".repeat(1000)),
    })
    .await;
    let endpoints = array(&server, json!({ "maxBody": 1000 }));
    let whole = send(&endpoints, "GET http://array/").await.unwrap();
    assert_eq!(whole.body.len(), 1000);
    let large = send(&endpoints, "GET http://array/endless")
        .await
        .unwrap_err();
    assert!(
        matches!(large, SendError::ResponseTooLarge { limit: 1000, .. }),
        "{large}"
    );
    let mut post = request("POST http://array/");
    *post.body_mut() = Bytes::from(vec![0; 1001]);
    let large = endpoints.send(&scope(), post).await.unwrap_err();
    assert!(matches!(large, SendError::RequestTooLarge { .. }) && !large.sent());
    assert_eq!(server.lines().len(), 2);
}

#[tokio::test]
async fn http2_without_tls_carries_trailers() {
    let server = Server::start(|_, _| with_trailers("message", "grpc-status", "0")).await;
    let endpoints = array(&server, json!({ "protocol": "http2" }));
    let response = send(&endpoints, "POST http://array/array.Volumes/Create")
        .await
        .unwrap();
    assert_eq!(response.parts.version, http::Version::HTTP_2);
    assert_eq!(&response.body[..], b"message");
    assert_eq!(response.trailers["grpc-status"], "0");
}

#[tokio::test]
async fn errors_show_neither_path_nor_query() {
    let server = Server::start(|_, _| cut()).await;
    let endpoints = array(&server, json!({}));
    let lost = send(&endpoints, "POST http://array/volumes?key=hidden")
        .await
        .unwrap_err();
    let shown = format!("{lost} {lost:?} {endpoints:?}");
    assert!(
        !shown.contains("hidden") && !shown.contains("volumes"),
        "{shown}"
    );
    assert!(
        lost.to_string()
            .ends_with("the request was sent and may have been executed")
    );
}
