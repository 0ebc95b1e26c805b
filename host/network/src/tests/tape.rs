//! A conversation is recorded with a server and replayed without it.

use super::server::{Server, answer, answer_with, cut};
use super::*;
use crate::{Conversation, TapeError};
use http::header::CONTENT_LENGTH;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The password of the document; no tape may hold it.
const PASSWORD: &str = "hunter \"22\"/x";
/// The token of a login; no tape may hold it.
const TOKEN: &str = "token-of-the-array";

/// A grant with a login at this address.
fn grants(address: &str) -> Value {
    json!({ "array": {
        "hosts": [address], "scheme": "http", "paths": ["/api/"],
        "auth": { "session": {
            "login": { "method": "POST", "path": "/login", "json": { "password": { "secret": "password" } } },
            "take": { "json": "/token" },
            "give": { "header": "X-Auth-Token" },
            "logout": { "method": "DELETE", "path": "/login" },
        } },
    } })
}

/// A call with these secrets.
fn calling(request_secrets: &[(&str, &str)]) -> Scope {
    let pairs = request_secrets.iter();
    let pairs = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Scope {
        request_secrets: Arc::new(pairs.collect()),
        ..scope()
    }
}

fn post(target: &str, body: impl Into<Bytes>) -> Request<Bytes> {
    let request = Request::post(format!("http://array{target}"));
    request.body(body.into()).unwrap()
}

fn recording(address: &str) -> Endpoints {
    let values = [("password", PASSWORD)];
    let endpoints = open_in(&Network::new(Vec::new()), grants(address), &values).unwrap();
    endpoints.recording(Arc::new(secrets(&values)))
}

/// Nothing listens at the address, and no secret of the grant has a value.
fn replaying(conversation: Conversation, secrets: Secrets) -> Endpoints {
    let grants = granted(grants("192.0.2.1:9"));
    Endpoints::replaying(&grants, conversation, Arc::new(secrets))
}

fn taped(endpoints: &Endpoints) -> Conversation {
    endpoints.conversation().unwrap().unwrap().0
}

fn difference(endpoints: &Endpoints) -> Option<TapeError> {
    endpoints.conversation().unwrap().unwrap().1
}

/// A tape of two requests.
async fn short_tape() -> Conversation {
    let server = Server::start(|seen, _| match seen.line.as_str() {
        "POST /login" => answer(200, &json!({ "token": TOKEN }).to_string()),
        _ => answer(200, "[]"),
    })
    .await;
    let endpoints = recording(&server.address.to_string());
    send(&endpoints, "GET http://array/api/a").await.unwrap();
    let body = json!({ "a": 1, "b": 2 }).to_string();
    let sent = endpoints.send(&scope(), post("/api/b", body)).await;
    assert_eq!(sent.unwrap().parts.status, 200);
    taped(&endpoints)
}

#[tokio::test]
async fn a_replay_answers_as_the_recorded_server_did() {
    let is_first = AtomicBool::new(true);
    let server = Server::start(move |seen, _| match seen.line.as_str() {
        "POST /login" => answer(200, &json!({ "token": TOKEN }).to_string()),
        "GET /api/json" => answer_with(200, ("x-page", "2"), r#"{ "b": [1], "a": "ü" }"#),
        "GET /api/text" => answer(404, "no such volume"),
        "POST /api/cut" => cut(),
        "DELETE /api/repeated" if is_first.swap(false, Ordering::SeqCst) => cut(),
        "DELETE /api/repeated" => answer(409, "in use"),
        _ => {
            let mut binary = answer(201, "");
            let body = http_body_util::Full::new(Bytes::from_static(b"\xff\x00"));
            *binary.body_mut() = http_body_util::BodyExt::boxed(body);
            binary
        }
    })
    .await;
    let lines = [
        "GET http://array/api/json",
        "GET http://array/api/text",
        "GET http://array/api/binary",
        "POST http://array/api/cut",
        "DELETE http://array/api/repeated idempotent",
    ];
    let mut conversations = Vec::new();
    let recorder = recording(&server.address.to_string());
    let mut answers = Vec::new();
    for line in lines {
        answers.push(send(&recorder, line).await);
    }
    drop(server);
    let file = taped(&recorder).to_json().unwrap();
    let player = replaying(Conversation::parse(&file).unwrap(), Secrets::default());
    for (line, recorded) in lines.into_iter().zip(answers) {
        match (recorded, send(&player, line).await) {
            (Ok(recorded), Ok(replayed)) => {
                assert_eq!(recorded.parts.status, replayed.parts.status, "{line}");
                let is_repeated = line.ends_with("idempotent");
                assert_eq!(recorded.after_unknown, is_repeated, "{line}");
                assert_eq!(replayed.after_unknown, is_repeated, "{line}");
                let json = |body: &Bytes| serde_json::from_slice::<Value>(body).ok();
                assert_eq!(json(&recorded.body), json(&replayed.body), "{line}");
                if json(&recorded.body).is_none() {
                    assert_eq!(recorded.body, replayed.body, "{line}");
                }
                let mut headers = recorded.parts.headers;
                headers.insert(CONTENT_LENGTH, replayed.body.len().into());
                assert_eq!(headers, replayed.parts.headers, "{line}");
            }
            (recorded, replayed) => {
                assert!(recorded.is_err(), "{line}: {replayed:?}");
                assert_eq!(recorded.err(), replayed.err(), "{line}");
            }
        }
        conversations.push(taped(&player).lines().count());
    }
    assert_eq!(conversations, [1, 2, 3, 4, 5]);
    assert_eq!(difference(&player), None);
    assert!(taped(&player).lines().eq(taped(&recorder).lines()));
}

#[tokio::test]
async fn no_credential_and_no_secret_is_on_a_tape() {
    let server = Server::start(|seen, _| match seen.line.as_str() {
        "POST /login" => answer(200, &json!({ "token": TOKEN }).to_string()),
        // A server that repeats what it was sent.
        _ => {
            let body = String::from_utf8(seen.body.to_vec()).unwrap();
            let echo = format!("{} {:?} {body}", seen.line, seen.headers["x-auth-token"]);
            answer_with(200, ("x-echo", TOKEN), &echo)
        }
    })
    .await;
    let recorder = recording(&server.address.to_string());
    let tenant = calling(&[("key", "of the tenant")]);
    let encoded = "/api/a?p=hunter%20%2222%22%2fx&key=of+the%20tenant";
    let text = format!("password={PASSWORD}&key=of+the+tenant");
    let json = json!({ "a": [PASSWORD], "of the tenant": TOKEN }).to_string();
    for (target, body) in [(encoded, text), ("/api/b", json)] {
        let sent = recorder.send(&tenant, post(target, body)).await.unwrap();
        assert_eq!(sent.parts.status, 200);
    }
    assert!(server.lines().iter().any(|line| line == "POST /login"));
    let file = String::from_utf8(taped(&recorder).to_json().unwrap()).unwrap();
    for hidden in ["hunter \\\"22", "of the tenant", "of+the", TOKEN, "login"] {
        assert!(!file.contains(hidden), "{hidden}: {file}");
    }
    for placeholder in ["{secret:password}", "{requestSecret:key}", "{token}"] {
        assert!(file.contains(placeholder), "{placeholder}: {file}");
    }
    assert!(!file.contains("x-auth-token"), "{file}");
}

#[tokio::test]
async fn values_of_a_replay_take_the_place_of_recorded_ones() {
    let server = Server::start(|_, _| answer(200, r#"{ "key": "recorded-key" }"#)).await;
    let entry = json!({ "array": { "hosts": [server.address.to_string()], "scheme": "http" } });
    let recorder = open(entry.clone()).recording(Arc::default());
    let body = |key: &str| json!({ "key": key }).to_string();
    let sent = post("/", body("recorded-key"));
    let call = calling(&[("key", "recorded-key")]);
    recorder.send(&call, sent).await.unwrap();
    let player = Endpoints::replaying(&granted(entry), taped(&recorder), Arc::default());
    let sent = post("/", body("replayed-key"));
    let call = calling(&[("key", "replayed-key")]);
    let replayed = player.send(&call, sent).await.unwrap();
    let replayed: Value = serde_json::from_slice(&replayed.body).unwrap();
    assert_eq!(replayed, json!({ "key": "replayed-key" }));
    assert_eq!(difference(&player), None);
}

#[tokio::test]
async fn another_request_is_rejected_with_both_lines() {
    let tape = short_tape().await;
    let first = || request("GET http://array/api/a");
    for (second, sent) in [
        (
            request("POST http://array/api/b"),
            "POST http://array/api/b",
        ),
        (
            post("/api/b", r#"{"a":1,"b":3}"#),
            r#"POST http://array/api/b {"a":1,"b":3}"#,
        ),
        (
            post("/api/c", r#"{"a":1,"b":2}"#),
            r#"POST http://array/api/c {"a":1,"b":2}"#,
        ),
        (first(), "GET http://array/api/a"),
    ] {
        let player = replaying(tape.clone(), Secrets::default());
        player.send(&scope(), first()).await.unwrap();
        let refused = player.send(&scope(), second).await.unwrap_err();
        assert_eq!(refused, SendError::NotRecorded);
        assert!(!refused.sent());
        let expected = TapeError::Different {
            at: 2,
            recorded: r#"POST http://array/api/b {"a":1,"b":2}"#.to_owned(),
            sent: sent.to_owned(),
        };
        assert_eq!(difference(&player), Some(expected));
        // Even the right one comes too late.
        let right = post("/api/b", r#"{"a":1,"b":2}"#);
        let refused = player.send(&scope(), right).await.unwrap_err();
        assert_eq!(refused, SendError::NotRecorded);
    }
}

#[tokio::test]
async fn a_missing_and_an_additional_request_are_differences() {
    let tape = short_tape().await;
    let player = replaying(tape, Secrets::default());
    let Some(TapeError::Different { at: 1, sent, .. }) = difference(&player) else {
        panic!("nothing is missing");
    };
    assert_eq!(sent, "none");
    send(&player, "GET http://array/api/a").await.unwrap();
    // The order of keys and white space are no difference.
    let right = post("/api/b", r#"{ "b": 2, "a": 1 }"#);
    player.send(&scope(), right).await.unwrap();
    assert_eq!(difference(&player), None);
    let more = send(&player, "GET http://array/api/a").await.unwrap_err();
    assert_eq!(more, SendError::NotRecorded);
    let Some(TapeError::Different {
        at: 3, recorded, ..
    }) = difference(&player)
    else {
        panic!("nothing is too much");
    };
    assert_eq!(recorded, "none");
}

#[tokio::test]
async fn the_grants_decide_in_a_recording_and_in_a_replay() {
    let tape = short_tape().await;
    let player = replaying(tape, Secrets::default());
    let recorder = recording("192.0.2.1:9");
    for endpoints in [&player, &recorder] {
        for line in ["GET http://array/admin", "GET http://other/api/a"] {
            let refused = send(endpoints, line).await.unwrap_err();
            assert!(matches!(refused, SendError::NotGranted { .. }), "{refused}");
        }
    }
    // Neither is part of a conversation.
    assert_eq!(taped(&recorder).lines().count(), 0);
    send(&player, "GET http://array/api/a").await.unwrap();
}

#[tokio::test]
async fn a_request_without_an_end_is_recorded_as_sent() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let entry = json!({ "array": { "hosts": [address], "scheme": "http" } });
    let recorder = open(entry).recording(Arc::default());
    let sending = send(&recorder, "GET http://array/");
    tokio::select! {
        answered = sending => panic!("{answered:?}"),
        accepted = silent.accept() => drop(accepted.unwrap()),
    }
    let lines: Vec<_> = taped(&recorder).lines().collect();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].0, "GET http://array/");
    assert!(lines[0].1.contains("may have been executed"), "{lines:?}");
}

#[tokio::test]
async fn more_than_a_tape_holds_is_an_error() {
    let server = Server::start(|_, _| answer(200, "")).await;
    let keys =
        json!({ "hosts": [server.address.to_string()], "scheme": "http", "maxBody": "16Mi" });
    let recorder = open(json!({ "array": keys })).recording(Arc::default());
    let call = within(Duration::from_secs(600));
    let large = post("/", vec![b'x'; 16 << 20]);
    recorder.send(&call, large).await.unwrap();
    assert!(recorder.conversation().is_ok());
    recorder.send(&scope(), post("/", "x")).await.unwrap();
    assert_eq!(recorder.conversation().unwrap_err(), TapeError::TooLarge);
}

#[tokio::test]
async fn a_file_that_is_no_tape_is_rejected() {
    let good = short_tape().await.to_json().unwrap();
    assert!(Conversation::parse(&good).is_ok());
    let good: Value = serde_json::from_slice(&good).unwrap();
    let answer = "/exchanges/0/outcome/answer";
    for (place, value, part) in [
        ("", json!([]), "it has no `format`"),
        ("/format", json!(2), "has the format 2"),
        ("/format", json!("1"), "it has no `format`"),
        ("/exchanges", json!({}), "is not a recorded conversation"),
        (
            "/exchanges/0/request",
            json!({ "path": "/" }),
            "unknown field `path`",
        ),
        (
            "/exchanges/0/outcome",
            json!({ "error": {} }),
            "unknown variant `error`",
        ),
        (
            answer,
            json!({ "status": 99 }),
            "invalid value: integer `99`",
        ),
        (
            answer,
            json!({ "status": 200, "body": { "hex": "0" } }),
            "Odd number of digits",
        ),
        (
            answer,
            json!({ "status": 200, "headers": { "a b": "" } }),
            "invalid value",
        ),
        (
            answer,
            json!({ "status": 200, "headers": { "a": "\n" } }),
            "failed to parse header value",
        ),
    ] {
        let mut file = good.clone();
        *file.pointer_mut(place).unwrap() = value;
        let message = Conversation::parse(file.to_string().as_bytes())
            .unwrap_err()
            .to_string();
        assert!(message.contains(part), "{place}: {message}");
    }
    let message = Conversation::parse(b"{").unwrap_err().to_string();
    assert!(
        message.contains("is not a recorded conversation"),
        "{message}"
    );
}
