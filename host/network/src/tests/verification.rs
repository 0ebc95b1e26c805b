//! TLS: which systems are trusted, and how the host identifies itself.

use super::server::{Authority, Server, answer};
use super::*;
use sha2::{Digest, Sha256};

/// A server for `name` on the name `localhost`, and the keys that every grant to it has.
async fn system(authority: &Authority, name: &str, client: bool) -> (Server, Value, String) {
    let (tls, certificate) = authority.server(name, client);
    let server = Server::with(Some(tls), |_, _| answer(200, "")).await;
    let keys = json!({
        "hosts": [format!("localhost:{}", server.address.port())],
        "addresses": ["127.0.0.0/8", "::1/128"],
    });
    (server, keys, hex::encode(Sha256::digest(certificate)))
}

async fn outcome(mut keys: Value, tls: Value, values: &[(&str, &str)]) -> Result<u16, SendError> {
    keys["tls"] = tls;
    let endpoints = open_in(&Network::new(Vec::new()), json!({ "array": keys }), values).unwrap();
    let response = send(&endpoints, "GET https://array/").await?;
    assert_eq!(response.parts.version, http::Version::HTTP_2);
    Ok(response.parts.status.as_u16())
}

fn is_refused(outcome: &Result<u16, SendError>) -> bool {
    matches!(outcome, Err(error @ SendError::Tls { .. }) if !error.sent())
}

#[tokio::test]
async fn a_system_is_verified_by_its_own_authority() {
    let authority = Authority::new();
    let (server, keys, _) = system(&authority, "localhost", false).await;
    let ca = [("ca", authority.ca.as_str())];
    let own = outcome(keys.clone(), json!({ "ca": "ca" }), &ca).await;
    assert_eq!(own, Ok(200));
    for (tls, values) in [
        (json!({}), ca),
        (
            json!({ "ca": "ca" }),
            [("ca", Authority::new().ca.as_str())],
        ),
    ] {
        let refused = outcome(keys.clone(), tls, &values).await;
        assert!(is_refused(&refused), "{refused:?}");
    }
    assert_eq!(
        outcome(keys, json!({ "skipVerify": true }), &ca).await,
        Ok(200)
    );
    assert_eq!(server.lines().len(), 2);
}

#[tokio::test]
async fn a_certificate_has_the_name_that_the_grant_says() {
    let authority = Authority::new();
    let (_server, keys, _) = system(&authority, "array.example.com", false).await;
    let ca = [("ca", authority.ca.as_str())];
    let refused = outcome(keys.clone(), json!({ "ca": "ca" }), &ca).await;
    assert!(is_refused(&refused), "{refused:?}");
    let named = json!({ "ca": "ca", "serverName": "array.example.com" });
    assert_eq!(outcome(keys, named, &ca).await, Ok(200));
}

#[tokio::test]
async fn a_pinned_certificate_is_the_only_one() {
    let authority = Authority::new();
    let (_server, keys, digest) = system(&authority, "localhost", false).await;
    let ca = [("ca", authority.ca.as_str())];
    let pinned = json!({ "ca": "ca", "pinSha256": [digest] });
    assert_eq!(outcome(keys.clone(), pinned, &ca).await, Ok(200));
    let other = json!({ "skipVerify": true, "pinSha256": ["0".repeat(64)] });
    let refused = outcome(keys, other, &ca).await;
    assert!(is_refused(&refused), "{refused:?}");
}

#[tokio::test]
async fn a_client_certificate_is_presented() {
    let authority = Authority::new();
    let (server, keys, _) = system(&authority, "localhost", true).await;
    let (certificate, key) = authority.issue("wasmount");
    let values = [
        ("ca", authority.ca.as_str()),
        ("certificate", certificate.as_str()),
        ("key", key.as_str()),
    ];
    let with = json!({ "ca": "ca", "clientCertificate": "certificate", "clientKey": "key" });
    assert_eq!(outcome(keys.clone(), with, &values).await, Ok(200));
    assert!(
        outcome(keys.clone(), json!({ "ca": "ca" }), &values)
            .await
            .is_err()
    );
    assert_eq!(server.lines().len(), 1);
}
