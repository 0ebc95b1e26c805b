//! Secrets: a guest can read them in their scope, and cannot output them.

use crate::harness::{Fixture, attributes, misbehave, secrets};
use wasmount_core::backend::BackendError;
use wasmount_core::code::Code;
use wasmount_core::document::Limits;

const VALUE: &str = "tr0ub4dor";

async fn fixtures() -> [Fixture; 2] {
    let mut of_request = Fixture::misbehave().await;
    of_request.secrets = secrets(&[("password", VALUE)]);
    let of_backend = secrets(&[("password", VALUE)]);
    [
        of_request,
        Fixture::of(misbehave().await, Limits::default(), of_backend).await,
    ]
}

#[tokio::test]
async fn a_secret_is_read_in_its_scope_only() {
    let [of_request, of_backend] = fixtures().await;
    for (fixture, request, backend) in [(of_request, "9", "none"), (of_backend, "none", "9")] {
        let volume = fixture.create("scopes").await.unwrap();
        assert_eq!(
            volume.context,
            attributes(&[("request", request), ("backend", backend)])
        );
    }
}

#[tokio::test]
async fn a_value_in_a_text_is_replaced() {
    for fixture in fixtures().await {
        let error = fixture.create("secret-in-error").await.unwrap_err();
        assert_eq!(error.to_string(), "login with [redacted] failed");
        let error = fixture
            .create("secret-in-panic")
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("login with [redacted]"), "{error}");
        assert!(!error.contains(VALUE), "{error}");
    }
}

#[tokio::test]
async fn a_value_of_short_lines_does_not_leave_by_a_panic() {
    let mut fixture = Fixture::misbehave().await;
    fixture.secrets = secrets(&[("password", "tr0ub4dor\nhunter22")]);
    let error = fixture.create("secret-in-panic").await.unwrap_err();
    let error = error.to_string();
    assert!(error.contains("[redacted]"), "{error}");
    assert!(
        !error.contains("tr0ub4dor") && !error.contains("hunter22"),
        "{error}"
    );
}

#[tokio::test]
async fn a_value_in_what_clients_store_is_refused() {
    for fixture in fixtures().await {
        for behaviour in ["secret-in-id", "secret-in-context"] {
            let error = fixture.create(behaviour).await.unwrap_err();
            assert!(matches!(error, BackendError::BadAnswer { .. }), "{error}");
            assert!(!error.to_string().contains(VALUE), "{error}");
        }
    }
}

#[tokio::test]
async fn a_value_is_not_stored() {
    for fixture in fixtures().await {
        for behaviour in ["secret-in-state", "secret-in-state-key", "secret-in-pool"] {
            let error = fixture.create(behaviour).await.unwrap_err();
            assert!(matches!(error, BackendError::Refused { .. }), "{error}");
            assert_eq!(error.code(), Code::Internal, "{error}");
            assert!(!error.to_string().contains(VALUE), "{error}");
        }
        assert_eq!(fixture.memory.events(), [""; 0]);
    }
}

/// A panic ends the line within the value.
#[tokio::test]
async fn the_beginning_of_a_value_does_not_leave_by_a_panic() {
    for fixture in fixtures().await {
        let error = fixture.create("half-a-secret-and-trap").await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains("[redacted]"), "{error}");
        assert!(!error.contains(&VALUE[..VALUE.len() / 2]), "{error}");
    }
}
