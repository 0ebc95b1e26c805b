//! Tests with a faulty registry: each request has a clear end, in bounded time, and reveals no secrets.

mod attached;
mod hostile;

use super::*;
use crate::COMPONENT_BYTES;
use crate::access::{Login, TransferLimits, silent};
use crate::attached::Missed;
use crate::manifest::Annotations;
use crate::media_type::{OCI_MANIFEST, WASM_CONFIG, WASM_LAYER};
use crate::pull::{Pulled, Resolved, pull};
use hostile::{Reply, Server};
use std::time::Duration;
use zeroize::Zeroizing;

const WASM: &[u8] = b"\0asm\x0d\0\x01\0";
const TAG: &str = "/v2/x/manifests/1";

fn access() -> Access {
    Access {
        plain_http: true,
        limits: TransferLimits {
            connect: Duration::from_millis(500),
            silence: Duration::from_millis(200),
            total: Duration::from_secs(5),
            attempts: 3,
            first_pause: Duration::from_millis(10),
        },
        ..Access::default()
    }
}

fn with_password() -> Access {
    let login = Login {
        user: "ann".to_owned(),
        password: Zeroizing::new("hunter2".to_owned()),
        found: "a file".to_owned(),
    };
    Access {
        credentials: Some(login),
        ..access()
    }
}

fn connected(host: &str, access: Access) -> Registry {
    let reference = Reference::parse(&format!("{host}/x:1")).unwrap();
    Registry::connect(&reference, access, Arc::new(silent)).unwrap()
}

async fn pulled(host: &str, access: Access) -> Result<Pulled, RegistryError> {
    pull(&connected(host, access)).await
}

fn manifest() -> Vec<u8> {
    manifest_of(WASM.len() as u64)
}

/// The same manifest, with this size of its layer.
fn manifest_of(size: u64) -> Vec<u8> {
    let config = Descriptor::of(WASM_CONFIG, b"{}");
    let layer = Descriptor {
        size,
        ..Descriptor::of(WASM_LAYER, WASM)
    };
    crate::manifest::Manifest::new(config, vec![layer], Annotations::new()).to_bytes()
}

fn blob() -> String {
    format!("/v2/x/blobs/{}", Digest::of(WASM))
}

/// A registry with a complete artifact.
async fn good() -> Server {
    Server::start(|path| match path {
        TAG => Some(Reply::ok(manifest()).typed(OCI_MANIFEST)),
        path if path == blob() => Some(Reply::ok(WASM)),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn a_tag_becomes_a_digest_once_and_the_blob_is_what_it_names() {
    let server = good().await;
    let pulled = pulled(&server.host(), access()).await.unwrap();
    assert_eq!(pulled.wasm, WASM);
    assert_eq!(pulled.digest, Digest::of(WASM));
    let pinned = format!("oci://{}/x@{}", server.host(), Digest::of(&manifest()));
    assert_eq!(pulled.reference.to_string(), pinned);
    assert_eq!(server.request_count(TAG), 1);
}

#[tokio::test]
async fn a_registry_that_is_down_is_tried_again_and_then_named() {
    let host = hostile::closed_port();
    let error = pulled(&host, access()).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, RegistryError::Down { .. }), "{text}");
    assert!(
        text.contains("127.0.0.1") && text.contains("refused"),
        "{text}"
    );
}

#[tokio::test]
async fn a_slow_registry_costs_the_time_that_was_allowed_and_no_more() {
    let server = Server::start(|_| Some(Reply::Silent)).await;
    let error = pulled(&server.host(), access()).await.unwrap_err();
    assert!(matches!(error, RegistryError::Slow { .. }), "{error}");
    assert_eq!(server.request_count(TAG), 3);
    // A byte now and then is never silence: the whole transfer has a limit too.
    let server = Server::start(|_| Some(Reply::Dribble)).await;
    let mut hurried = access();
    hurried.limits.total = Duration::from_millis(600);
    let start = Instant::now();
    let error = pulled(&server.host(), hurried).await.unwrap_err();
    assert!(matches!(error, RegistryError::Slow { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn bytes_of_another_digest_are_refused_and_not_asked_for_again() {
    let server = Server::start(|path| match path {
        TAG => Some(Reply::ok(manifest())),
        _ => Some(Reply::ok(WASM.iter().map(|_| b'x').collect::<Vec<_>>())),
    })
    .await;
    let error = pulled(&server.host(), access()).await.unwrap_err();
    assert!(
        matches!(error, RegistryError::WrongDigest { .. }),
        "{error}"
    );
    assert_eq!(server.request_count(&blob()), 1);
    let registry = connected(&server.host(), access());
    let other = Digest::of(b"other");
    let server_lies = registry.manifest(other.as_str()).await.unwrap_err();
    // The response is not a manifest either, but the error is the wrong digest.
    assert!(
        matches!(server_lies, RegistryError::WrongDigest { .. }),
        "{server_lies}"
    );
}

#[tokio::test]
async fn a_digest_that_the_registry_says_itself_must_be_true() {
    let server = Server::start(|_| {
        let digest = Digest::of(b"other").to_string();
        Some(Reply::ok(manifest()).with("docker-content-digest", &digest))
    })
    .await;
    let error = pulled(&server.host(), access()).await.unwrap_err();
    assert!(
        matches!(error, RegistryError::WrongDigest { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn what_ends_early_is_tried_again_and_then_called_so() {
    let server = Server::start(|path| match path {
        TAG => Some(Reply::ok(manifest())),
        _ => Some(Reply::Raw(
            b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n\0as".to_vec(),
        )),
    })
    .await;
    let error = pulled(&server.host(), access()).await.unwrap_err();
    assert!(
        matches!(error, RegistryError::Truncated { got: 3, .. }),
        "{error}"
    );
    assert_eq!(server.request_count(&blob()), 3);
    // Without a length, only the manifest states the size.
    let server = Server::start(|path| match path {
        TAG => Some(Reply::ok(manifest())),
        _ => Some(Reply::Raw(
            b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n\0as".to_vec(),
        )),
    })
    .await;
    let error = pulled(&server.host(), access()).await.unwrap_err();
    assert!(
        matches!(error, RegistryError::Truncated { got: 3, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_manifest_of_a_gigabyte_is_not_read() {
    // With an announced length, and without one.
    let response = b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n".to_vec();
    let server = Server::start(move |_| Some(Reply::Raw(response.clone()))).await;
    let error = pulled(&server.host(), access()).await.unwrap_err();
    assert!(
        matches!(
            error,
            RegistryError::TooLarge {
                most: MANIFEST_BYTES,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(server.request_count(TAG), 1);
    let server = Server::start(|_| Some(Reply::Endless)).await;
    let error = pulled(&server.host(), access()).await.unwrap_err();
    assert!(matches!(error, RegistryError::TooLarge { .. }), "{error}");
    assert!(server.sent() < 64 << 20, "{} bytes", server.sent());
}

#[tokio::test]
async fn a_component_that_is_said_to_be_too_large_is_not_asked_for() {
    let start = |size| {
        Server::start(move |path| match path {
            TAG => Some(Reply::ok(manifest_of(size))),
            _ => Some(Reply::ok(WASM)),
        })
    };
    let server = start(COMPONENT_BYTES + 1).await;
    // Signatures, which would be requested before it, are not requested either.
    let found = Resolved::find(&connected(&server.host(), access())).await;
    let error = found.unwrap_err();
    let message = error.to_string();
    assert!(
        matches!(error, RegistryError::TooLarge { most, .. } if most == 64 << 20),
        "{message}"
    );
    assert!(message.contains("the component of oci://"), "{message}");
    assert_eq!(
        (server.request_count(TAG), server.request_count(&blob())),
        (1, 0)
    );
    // The largest allowed size is requested; only the response shows that the blob is another.
    let server = start(COMPONENT_BYTES).await;
    let error = pulled(&server.host(), access()).await.unwrap_err();
    assert!(matches!(error, RegistryError::WrongSize { .. }), "{error}");
    assert_eq!(server.request_count(&blob()), 1);
}

#[tokio::test]
async fn a_blob_of_another_size_is_refused() {
    for length in [7, 9] {
        let server = Server::start(move |path| match path {
            TAG => Some(Reply::ok(manifest())),
            _ => Some(Reply::ok(vec![0; length])),
        })
        .await;
        let error = pulled(&server.host(), access()).await.unwrap_err();
        assert!(matches!(error, RegistryError::WrongSize { .. }), "{error}");
    }
}

#[tokio::test]
async fn redirects_are_followed_to_where_blobs_lie_and_not_in_circles() {
    let storage = Server::start(|path| (path == "/b").then(|| Reply::ok(WASM))).await;
    let to = format!("http://{}/b", storage.host());
    let server = Server::start(move |path| match path {
        TAG => Some(Reply::ok(manifest())),
        _ => Some(Reply::redirect(&to)),
    })
    .await;
    assert_eq!(pulled(&server.host(), access()).await.unwrap().wasm, WASM);
    let server = Server::start(|_| Some(Reply::redirect(TAG))).await;
    let error = pulled(&server.host(), access()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("redirected more than 5 times"), "{text}");
    assert_eq!(server.request_count(TAG), 6);
    let server = Server::start(|_| Some(Reply::redirect("file:///etc/passwd"))).await;
    let error = pulled(&server.host(), access()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("redirects to `file:///etc/passwd`"), "{text}");
}

#[tokio::test]
async fn a_password_goes_to_the_registry_and_not_to_where_it_sends_us() {
    let storage = Server::start(|_| Some(Reply::ok(WASM))).await;
    let to = format!("http://{}/b", storage.host());
    let server = Server::challenging(r#"Basic realm="x""#, move |path| match path {
        TAG => Some(Reply::ok(manifest())),
        _ => Some(Reply::redirect(&to)),
    })
    .await;
    pulled(&server.host(), with_password()).await.unwrap();
    assert_eq!(server.authorizations(), ["Basic YW5uOmh1bnRlcjI="; 2]);
    assert_eq!(storage.authorizations(), [""; 0]);
}

#[tokio::test]
async fn a_token_is_fetched_where_the_registry_says() {
    let tokens = Server::start(|path| {
        let expected = "/t?service=s&scope=repository%3Ax%3Apull";
        (path == expected).then(|| Reply::ok(br#"{"token":"abc"}"#))
    })
    .await;
    let realm = format!(r#"Bearer realm="http://{}/t",service="s""#, tokens.host());
    let server = Server::challenging(&realm, |path| match path {
        TAG => Some(Reply::ok(manifest())),
        _ => Some(Reply::ok(WASM)),
    })
    .await;
    pulled(&server.host(), with_password()).await.unwrap();
    assert_eq!(tokens.authorizations(), ["Basic YW5uOmh1bnRlcjI="]);
    assert_eq!(server.authorizations(), ["Bearer abc"; 2]);
}

#[tokio::test]
async fn a_forbidden_request_names_its_user() {
    let refusing = |_: &str| {
        let body = br#"{"errors":[{"code":"DENIED","message":"no such user"}]}"#;
        Some(Reply::status(401, body).with("www-authenticate", "Basic realm=x"))
    };
    let server = Server::start(refusing).await;
    let text = pulled(&server.host(), with_password())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("the user `ann` from a file were sent (`no such user`)"),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
    let text = pulled(&server.host(), access())
        .await
        .unwrap_err()
        .to_string();
    assert!(text.contains("no credentials were sent"), "{text}");
}

#[tokio::test]
async fn retry_after_of_a_busy_registry_is_honoured() {
    let mut busy = access();
    busy.limits.total = Duration::from_secs(30);
    let server = Server::start(|_| Some(Reply::status(429, b"").with("retry-after", "1"))).await;
    let start = Instant::now();
    let error = pulled(&server.host(), busy).await.unwrap_err();
    assert!(
        matches!(
            error,
            RegistryError::Busy {
                status: 429,
                attempts: 3,
                ..
            }
        ),
        "{error}"
    );
    assert!(start.elapsed() >= Duration::from_secs(2));
    // Longer than any client waits.
    let server = Server::start(|_| Some(Reply::status(503, b"").with("retry-after", "3600"))).await;
    let error = pulled(&server.host(), access()).await.unwrap_err();
    assert!(
        matches!(error, RegistryError::Busy { attempts: 1, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn what_is_not_there_is_asked_for_once() {
    let server = Server::start(|_| None).await;
    let error = pulled(&server.host(), access()).await.unwrap_err();
    assert!(matches!(error, RegistryError::NotFound { .. }), "{error}");
    assert_eq!(server.request_count(TAG), 1);
    let registry = connected(&server.host(), access());
    assert_eq!(registry.find_manifest("1").await.unwrap(), None);
    assert_eq!(
        registry.attached(&Digest::of(WASM)).await,
        (Vec::new(), Missed::default())
    );
}

#[tokio::test]
async fn plain_http_is_distinguished_from_an_untrusted_registry() {
    let host = hostile::answering(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let mut tls = access();
    tls.plain_http = false;
    let error = pulled(&host, tls).await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains("is not trusted"), "{message}");
    assert!(message.contains("`registry.plainHttp`"), "{message}");
    assert!(
        message.starts_with(&format!("the registry {host} is")),
        "{message}"
    );
}
