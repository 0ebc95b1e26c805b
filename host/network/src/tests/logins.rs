//! Credentials in their other forms: tokens signed with key pairs, logins by form, sessions in cookies.

use super::server::{Server, answer, answer_with};
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey, VerificationAlgorithm,
};
use std::process::Command;

/// What a server got as bearer token under such a grant: the message and its signature.
async fn signed(algorithm: &str, key: &str) -> (String, Vec<u8>) {
    let server = Server::start(|_, _| answer(200, "")).await;
    let grant = json!({
        "hosts": [server.address.to_string()], "scheme": "http",
        "auth": { "jwt": { "algorithm": algorithm, "key": "key", "keyId": "k1" } },
    });
    let network = Network::new(Vec::new());
    let endpoints = open_in(&network, json!({ "array": grant }), &[("key", key)]).unwrap();
    assert_eq!(status(&endpoints, "GET http://array/").await, 200);
    let seen = server.seen().remove(0);
    let token = seen.headers["authorization"].to_str().unwrap().to_owned();
    let (message, signature) = token["Bearer ".len()..].rsplit_once('.').unwrap();
    let header = URL_SAFE_NO_PAD.decode(message.split('.').next().unwrap());
    let header: Value = serde_json::from_slice(&header.unwrap()).unwrap();
    assert_eq!(
        header,
        json!({ "alg": algorithm, "typ": "JWT", "kid": "k1" })
    );
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    (message.to_owned(), signature)
}

fn assert_signed(
    algorithm: &'static dyn VerificationAlgorithm,
    key: &[u8],
    (message, signature): &(String, Vec<u8>),
) {
    let key = UnparsedPublicKey::new(algorithm, key);
    key.verify(message.as_bytes(), signature).unwrap();
    let other = format!("{message}x");
    assert!(key.verify(other.as_bytes(), signature).is_err());
}

#[tokio::test]
async fn a_token_is_signed_with_a_key_of_an_elliptic_curve() {
    let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let random = SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(kind, der.as_ref(), &random).unwrap();
    let key = pem::encode(&pem::Pem::new("PRIVATE KEY", der.as_ref()));
    let token = signed("ES256", &key).await;
    assert_signed(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref(), &token);
}

/// `ring` makes no RSA keys.
#[tokio::test]
async fn a_token_is_signed_with_an_rsa_key() {
    let mut openssl = Command::new("openssl");
    openssl.args(["genpkey", "-quiet", "-algorithm", "RSA"]);
    let made = openssl.output().expect("install the package openssl");
    assert!(made.status.success(), "{made:?}");
    let key = String::from_utf8(made.stdout).unwrap();
    let pair = RsaKeyPair::from_pkcs8(pem::parse(&key).unwrap().contents()).unwrap();
    let token = signed("RS256", &key).await;
    assert_signed(&RSA_PKCS1_2048_8192_SHA256, pair.public().as_ref(), &token);
}

/// A login by form that yields a cookie, beside another one.
async fn form_and_cookie() -> Server {
    Server::start(|seen, _| match seen.line.as_str() {
        "POST /login" if &seen.body[..] == b"pass=p%26ss+w%3D1&user=admin" => {
            let mut answered = answer_with(200, ("set-cookie", "lang=en; Path=/"), "");
            let session = "SID=s-1; Path=/; HttpOnly".parse().unwrap();
            answered.headers_mut().append("set-cookie", session);
            answered
        }
        "GET /a" if seen.headers.get("cookie").is_some_and(|it| it == "SID=s-1") => {
            answer_with(200, ("set-cookie", "SID=s-2"), "")
        }
        _ => answer(403, ""),
    })
    .await
}

#[tokio::test]
async fn a_login_by_form_yields_a_cookie() {
    let server = form_and_cookie().await;
    let grant = |take: &str| {
        json!({ "array": { "hosts": [server.address.to_string()], "scheme": "http", "auth": { "session": {
            "login": { "path": "/login", "form": { "user": "admin", "pass": { "secret": "password" } } },
            "take": { "cookie": take }, "give": { "cookie": "SID" },
        } } } })
    };
    let network = Network::new(Vec::new());
    let password = [("password", "p&ss w=1")];
    let endpoints = open_in(&network, grant("SID"), &password).unwrap();
    let response = send(&endpoints, "GET http://array/a").await.unwrap();
    assert_eq!(response.parts.status, 200);
    assert!(!response.parts.headers.contains_key("set-cookie"));
    let login = server.seen().remove(0);
    assert_eq!(
        login.headers["content-type"],
        "application/x-www-form-urlencoded"
    );
    assert_eq!(endpoints.tokens()[0].as_str(), "s-1");

    let endpoints = open_in(&network, grant("OTHER"), &password).unwrap();
    let refused = send(&endpoints, "GET http://array/a").await.unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("no usable cookie `OTHER`"), "{text}");
    assert!(!refused.sent());
    let endpoints = open_in(&network, grant("SID"), &[("password", "wrong")]).unwrap();
    let refused = send(&endpoints, "GET http://array/a").await.unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("403") && !text.contains("wrong"), "{text}");
}
