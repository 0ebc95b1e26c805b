//! Which host a request reaches: names, addresses, reuse of connections, limits.

use super::server::{Server, answer, answer_with};
use super::*;

#[tokio::test]
async fn an_authority_without_grant_is_refused() {
    let endpoints = open(json!({ "array": { "hosts": ["array.example.com"] } }));
    let refused = send(&endpoints, "GET http://other/a").await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a request to `other` is not granted: it is not in grants.network, which has array; the authority of a request is the name of such an entry"
    );
    let none = send(&Endpoints::default(), "GET http://array/").await;
    assert!(matches!(none, Err(SendError::NotGranted { .. })));
}

#[tokio::test]
async fn a_name_that_leads_to_loopback_is_refused_unless_named() {
    let server = Server::start(|_, _| answer(200, "")).await;
    let host = format!("localhost:{}", server.address.port());
    let closed = open(json!({ "array": { "hosts": [host], "scheme": "http" } }));
    let refused = send(&closed, "GET http://array/").await.unwrap_err();
    assert!(matches!(refused, SendError::Address { .. }), "{refused}");
    assert!(!refused.sent());
    assert_eq!(server.connections(), 0);
    let named = open(json!({
        "array": { "hosts": [host], "scheme": "http", "addresses": ["127.0.0.0/8", "::1/128"] }
    }));
    assert_eq!(status(&named, "GET http://array/").await, 200);
}

#[tokio::test]
async fn a_host_in_a_request_secret_is_within_its_range() {
    let server = Server::start(|_, _| answer(200, "")).await;
    let port = server.address.port();
    let endpoints = open(json!({ "array": {
        "hosts": [format!("127.0.0.0/30:{port}")], "scheme": "http",
        "hostFrom": { "requestSecret": "backend" },
    } }));
    for (value, reached) in [
        (format!("127.0.0.1:{port}"), true),
        (format!("127.0.0.5:{port}"), false),
        (format!("localhost:{port}"), false),
    ] {
        let mut scope = scope();
        scope.request_secrets = Arc::new(Secrets::from_iter([("backend".to_owned(), value)]));
        let outcome = endpoints.send(&scope, request("GET http://array/")).await;
        assert_eq!(outcome.is_ok(), reached, "{outcome:?}");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn the_next_host_is_used_when_one_cannot_be_reached() {
    let server = Server::start(|_, _| answer(200, "")).await;
    // A socket that does not listen refuses connections, and nothing else can take its port.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let refusing = closed.local_addr().unwrap();
    let hosts = [refusing.to_string(), server.address.to_string()];
    let endpoints = open(json!({ "array": { "hosts": hosts, "scheme": "http" } }));
    for _ in 0..3 {
        assert_eq!(status(&endpoints, "POST http://array/").await, 200);
    }
    assert_eq!(server.lines().len(), 3);
    let alone = open(json!({ "array": { "hosts": [refusing.to_string()], "scheme": "http" } }));
    let refused = alone.send(&scope(), request("POST http://array/")).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, SendError::Connect { .. }), "{refused}");
    assert!(!refused.sent());
}

#[tokio::test]
async fn calls_and_versions_share_connections() {
    let server = Server::start(|_, _| answer(200, "")).await;
    let network = Network::new(Vec::new());
    let grants = json!({ "array": { "hosts": [server.address.to_string()], "scheme": "http" } });
    let first = open_in(&network, grants.clone(), &[]).unwrap();
    for _ in 0..20 {
        assert_eq!(status(&first, "GET http://array/").await, 200);
    }
    let second = open_in(&network, grants.clone(), &[]).unwrap();
    drop(first);
    assert_eq!(status(&second, "GET http://array/").await, 200);
    assert_eq!(server.connections(), 1);
    assert_eq!(second.usage()["array"].succeeded, 21);
    // Another grant has its own connections.
    let mut other = grants;
    other["array"]["paths"] = json!(["/"]);
    other["array"]["maxBody"] = json!(1000);
    let third = open_in(&network, other, &[]).unwrap();
    assert_eq!(status(&third, "GET http://array/").await, 200);
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn requests_at_a_time_are_bounded() {
    let now = Arc::new(std::sync::Mutex::new((0_usize, 0_usize)));
    let counted = Arc::clone(&now);
    // The server answers one request at a time on each connection: their number is what is in flight.
    let server = Server::start(move |_, _| {
        let mut counted = counted.lock().unwrap();
        counted.0 += 1;
        answer(200, "")
    })
    .await;
    let endpoints = open(json!({ "array": {
        "hosts": [server.address.to_string()], "scheme": "http", "rate": { "inFlight": 2 },
    } }));
    let all: Vec<_> = (0..40)
        .map(|_| {
            let endpoints = endpoints.clone();
            tokio::spawn(async move { status(&endpoints, "GET http://array/").await })
        })
        .collect();
    for one in all {
        assert_eq!(one.await.unwrap(), 200);
    }
    assert_eq!(now.lock().unwrap().0, 40);
    assert!(server.connections() <= 2, "{}", server.connections());
}

#[tokio::test]
async fn a_request_that_waits_for_its_rate_too_long_is_not_sent() {
    let server = Server::start(|_, _| answer(200, "")).await;
    let endpoints = open(json!({ "array": {
        "hosts": [server.address.to_string()], "scheme": "http",
        "rate": { "perSecond": 1, "burst": 2 },
    } }));
    for _ in 0..2 {
        assert_eq!(status(&endpoints, "POST http://array/").await, 200);
    }
    let soon = within(Duration::from_millis(50));
    let refused = endpoints.send(&soon, request("POST http://array/")).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, SendError::Busy { .. }), "{refused}");
    assert!(!refused.sent());
    assert_eq!(server.lines().len(), 2);
}

#[tokio::test]
async fn redirects_are_followed_within_the_grant_only() {
    let server = Server::start(|seen, _| {
        let to = match seen.line.as_str() {
            "GET /api/a" => "/api/b",
            "GET /api/out" => "/admin",
            "GET /api/other" => "http://127.0.0.1:1/api/b",
            "GET /api/loop" => "/api/loop",
            "POST /api/a" => "/api/b",
            _ => return answer(200, "here"),
        };
        answer_with(302, ("location", to), "")
    })
    .await;
    let endpoints = open(json!({ "array": {
        "hosts": [server.address.to_string()], "scheme": "http", "paths": ["/api/"],
    } }));
    for (line, expected) in [
        ("GET http://array/api/a", 200),
        ("GET http://array/api/out", 302),
        ("GET http://array/api/other", 302),
        ("GET http://array/api/loop", 302),
        ("POST http://array/api/a", 302),
    ] {
        assert_eq!(status(&endpoints, line).await, expected, "{line}");
    }
    let loops = server
        .lines()
        .iter()
        .filter(|line| *line == "GET /api/loop")
        .count();
    assert_eq!(loops, 6);
}
