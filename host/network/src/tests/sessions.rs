//! Credentials: what is added to requests, one login for all, renewal, logout.

use super::server::{Answer, Seen, Server, answer, answer_with};
use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A system with one valid token at a time: each login yields the next one.
struct Logins(Arc<AtomicUsize>);

impl Logins {
    fn answer(&self, seen: &Seen) -> Answer {
        let valid = self.0.load(Ordering::SeqCst);
        match seen.line.as_str() {
            "POST /login" => {
                let number = self.0.fetch_add(1, Ordering::SeqCst) + 1;
                answer_with(201, ("x-token", &format!("token-{number}")), "")
            }
            "POST /logout" => answer(204, ""),
            _ if seen
                .headers
                .get("x-token")
                .is_some_and(|it| it == &format!("token-{valid}")) =>
            {
                answer_with(200, ("x-token", "echo"), "")
            }
            _ => answer(401, ""),
        }
    }
}

async fn system() -> (Server, Arc<AtomicUsize>) {
    let number = Arc::new(AtomicUsize::new(0));
    let logins = Logins(Arc::clone(&number));
    let server = Server::start(move |seen, _| logins.answer(seen)).await;
    (server, number)
}

fn with_session(server: &Server) -> Value {
    json!({ "hosts": [server.address.to_string()], "scheme": "http", "auth": { "session": {
        "login": { "path": "/login", "json": { "user": { "secret": "user" }, "keys": [{ "secret": "password" }] } },
        "take": { "header": "X-Token" }, "give": { "header": "X-Token" },
        "logout": { "path": "/logout" },
    } } })
}

#[tokio::test]
async fn fixed_credentials_are_added_and_replace_those_of_the_plugin() {
    let server = Server::start(|_, _| answer(200, "")).await;
    for (auth, header, value) in [
        (
            json!({ "basic": { "username": "user", "password": "password" } }),
            "authorization",
            "Basic dXNlcjpwYXNzd29yZA==",
        ),
        (
            json!({ "bearer": { "token": "token" } }),
            "authorization",
            "Bearer token",
        ),
        (
            json!({ "header": { "name": "X-Api-Key", "value": "token" } }),
            "x-api-key",
            "token",
        ),
    ] {
        let endpoints = open(json!({ "array": {
            "hosts": [server.address.to_string()], "scheme": "http", "auth": auth,
        } }));
        let mut forged = request("GET http://array/");
        forged
            .headers_mut()
            .insert(header, "forged".parse().unwrap());
        endpoints.send(&scope(), forged).await.unwrap();
        let seen = server.seen().pop().unwrap();
        let values: Vec<_> = seen.headers.get_all(header).iter().collect();
        assert_eq!(values, [value]);
    }
}

#[tokio::test]
async fn a_signed_token_has_its_claims_and_is_reused() {
    let server = Server::start(|_, _| answer(200, "")).await;
    let endpoints = open(json!({ "array": {
        "hosts": [server.address.to_string()], "scheme": "http",
        "auth": { "jwt": { "algorithm": "HS256", "key": "key", "claims": { "iss": "wasmount" } } },
    } }));
    for _ in 0..2 {
        assert_eq!(status(&endpoints, "GET http://array/").await, 200);
    }
    use base64::Engine as _;
    let seen = server.seen();
    let shown = |index: usize| {
        seen[index].headers["authorization"]
            .to_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(shown(0), shown(1));
    let token = shown(0).strip_prefix("Bearer ").unwrap().to_owned();
    let parts: Vec<_> = token.split('.').collect();
    let decode = |part: &str| {
        base64::engine::general_purpose::URL_SAFE_NO_PAD
            .decode(part)
            .unwrap()
    };
    let claims: Value = serde_json::from_slice(&decode(parts[1])).unwrap();
    assert_eq!(claims["iss"], "wasmount");
    let lasts = claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap();
    assert_eq!(lasts, 300);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"key");
    let message = format!("{}.{}", parts[0], parts[1]);
    ring::hmac::verify(&key, message.as_bytes(), &decode(parts[2])).unwrap();
    assert!(
        endpoints
            .tokens()
            .iter()
            .any(|known| known.as_str() == token)
    );
}

#[tokio::test]
async fn a_thousand_calls_make_one_login() {
    let (server, logins) = system().await;
    let endpoints = open(json!({ "array": with_session(&server) }));
    let all: Vec<_> = (0..1000)
        .map(|_| {
            let endpoints = endpoints.clone();
            tokio::spawn(async move { status(&endpoints, "GET http://array/a").await })
        })
        .collect();
    for one in all {
        assert_eq!(one.await.unwrap(), 200);
    }
    assert_eq!(logins.load(Ordering::SeqCst), 1);
    let login = server.seen().remove(0);
    assert_eq!(&login.body[..], br#"{"keys":["password"],"user":"user"}"#);
    let usage = &endpoints.usage()["array"];
    assert_eq!((usage.logins, usage.failed_logins), (1, 0));
    assert_eq!(endpoints.tokens()[0].as_str(), "token-1");
}

#[tokio::test]
async fn a_session_that_ended_is_renewed_once_for_all() {
    let (server, logins) = system().await;
    let endpoints = open(json!({ "array": with_session(&server) }));
    assert_eq!(status(&endpoints, "GET http://array/a").await, 200);
    // Somebody else's login: the token is not valid any more.
    logins.fetch_add(1, Ordering::SeqCst);
    let all: Vec<_> = (0..50)
        .map(|_| {
            let endpoints = endpoints.clone();
            tokio::spawn(async move { status(&endpoints, "POST http://array/a").await })
        })
        .collect();
    for one in all {
        assert_eq!(one.await.unwrap(), 200);
    }
    assert_eq!(endpoints.usage()["array"].logins, 2);
    let response = send(&endpoints, "GET http://array/a").await.unwrap();
    assert!(!response.parts.headers.contains_key("x-token"));
}

#[tokio::test]
async fn the_end_of_a_session_may_stand_in_the_body() {
    let server = Server::start(|seen, number| match seen.line.as_str() {
        "GET /login" => answer(200, &format!(r#"{{"data":{{"sid":"s{number}"}}}}"#)),
        "GET /a?_sid=s0" => answer(200, r#"{"error":{"code":119}}"#),
        _ => answer(200, r#"{"error":{"code":105}}"#),
    })
    .await;
    let endpoints = open(json!({ "array": {
        "hosts": [server.address.to_string()], "scheme": "http", "auth": { "session": {
            "login": { "method": "GET", "path": "/login" },
            "take": { "json": "/data/sid" }, "give": { "query": "_sid" },
            "renew": { "json": { "pointer": "/error/code", "values": [119] } },
        } },
    } }));
    let response = send(&endpoints, "GET http://array/a").await.unwrap();
    assert_eq!(&response.body[..], br#"{"error":{"code":105}}"#);
    let expected = [
        "GET /login",
        "GET /a?_sid=s0",
        "GET /login",
        "GET /a?_sid=s2",
    ];
    assert_eq!(server.lines(), expected);
}

#[tokio::test]
async fn a_failed_login_is_not_repeated_at_once() {
    let server = Server::start(|_, _| answer(403, "")).await;
    let grants = json!({ "array": with_session(&server) });
    let values = [("user", "me"), ("password", "open-sesame")];
    let endpoints = open_in(&Network::new(Vec::new()), grants, &values).unwrap();
    for _ in 0..5 {
        let refused = send(&endpoints, "POST http://array/a").await.unwrap_err();
        assert!(matches!(refused, SendError::Login { .. }) && !refused.sent());
        assert_eq!(
            refused.to_string(),
            "no session with `array`: the login was answered with 403 Forbidden: check `password`, `user` in `secrets`, and \
             `grants.network.array.auth.session.login`; the request was not sent"
        );
    }
    assert_eq!(server.lines(), ["POST /login"]);
}

#[tokio::test]
async fn a_login_that_meets_a_busy_system_blames_no_secret() {
    let server = Server::start(|_, _| answer(503, "")).await;
    let endpoints = open(json!({ "array": with_session(&server) }));
    let refused = send(&endpoints, "POST http://array/a").await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no session with `array`: the login was answered with 503 Service Unavailable; the request was not sent"
    );
}

#[tokio::test]
async fn a_login_to_a_system_without_tls_says_so_once() {
    let server = Server::start(|_, _| answer(200, "")).await;
    let mut grant = with_session(&server);
    grant["scheme"] = json!("https");
    let endpoints = open(json!({ "array": grant }));
    let refused = send(&endpoints, "POST http://array/a").await.unwrap_err();
    let text = refused.to_string();
    let expected = format!(
        "no session with `array`: no TLS connection to {}: ",
        server.address
    );
    assert!(text.starts_with(&expected), "{text}");
    assert!(text.ends_with("; the request was not sent"), "{text}");
    assert!(!text.contains("nothing was sent"), "{text}");
    assert!(!text.contains("client error"), "{text}");
}

#[tokio::test]
async fn another_grant_uses_the_same_session() {
    let (server, logins) = system().await;
    let mut user = with_session(&server);
    user["auth"] = json!({ "sessionOf": "keystone" });
    let endpoints = open(json!({ "keystone": with_session(&server), "cinder": user }));
    for authority in ["cinder", "keystone", "cinder"] {
        let line = format!("GET http://{authority}/a");
        assert_eq!(status(&endpoints, &line).await, 200);
    }
    assert_eq!(logins.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_last_version_and_the_end_of_the_host_log_out() {
    let (server, logins) = system().await;
    let network = Network::new(Vec::new());
    let grants = json!({ "array": with_session(&server) });
    let first = open_in(&network, grants.clone(), &[]).unwrap();
    assert_eq!(status(&first, "GET http://array/a").await, 200);
    let second = open_in(&network, grants.clone(), &[]).unwrap();
    drop(first);
    assert_eq!(status(&second, "GET http://array/a").await, 200);
    assert_eq!(logins.load(Ordering::SeqCst), 1);
    network.close().await;
    let out = |server: &Server| {
        server
            .lines()
            .iter()
            .filter(|it| *it == "POST /logout")
            .count()
    };
    assert_eq!(out(&server), 1);
    // Another secret is another session; the one before it ends with its last user.
    assert_eq!(status(&second, "GET http://array/a").await, 200);
    let changed = open_in(&network, grants, &[("password", "new")]).unwrap();
    drop(second);
    assert_eq!(status(&changed, "GET http://array/a").await, 200);
    while out(&server) < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(logins.load(Ordering::SeqCst), 3);
}

#[test]
fn a_secret_without_value_or_use_is_named() {
    let network = Network::new(Vec::new());
    let entry = |auth: Value| json!({ "array": { "hosts": ["a.example.com"], "auth": auth } });
    let jwt = entry(json!({ "jwt": { "algorithm": "RS256", "key": "key" } }));
    let refused = open_in(&network, jwt, &[]).unwrap_err().to_string();
    assert_eq!(
        refused,
        "grants.network.array: the secret `key` is no key for RS256 in PKCS #8, PEM"
    );
    let bearer = entry(json!({ "bearer": { "token": "token" } }));
    let broken = open_in(&network, bearer.clone(), &[("token", "a\nb")]);
    assert!(
        broken
            .unwrap_err()
            .to_string()
            .contains("`token` cannot be sent in a header")
    );
    let missing = network.open(&driver(), &granted(bearer), &Secrets::default());
    assert_eq!(
        missing.unwrap_err().to_string(),
        "grants.network.array: the secret `token` has no value"
    );
}
