//! Secrets that the plugin tells to everybody: a text for people has them blotted out, a word for machines is refused, and at the end they
//! are in no log, no file and no answer.

use crate::misbehave::call::Call;
use crate::misbehave::row::{Row, hold, rows};
use crate::misbehave::scene::{self, Scene};
use futures::future::join_all;
use std::time::Duration;
use tonic::Code;

pub(crate) const TABLE: &[Row] = rows! {
    "secret-in-error" in Create: Unauthenticated, Words("login with [redacted] failed");
    "secret-in-error" in Delete: Unauthenticated, Words("login with [redacted] failed");
    "secret-in-error" in GetGroup: Unauthenticated, Words("login with [redacted] failed");
    // Of a request without secrets: the backend's own.
    "secret-in-error" in Get: Unauthenticated, Words("login with [redacted] failed");
    "secret-in-error" in NodePublish: Unauthenticated, Words("login with [redacted] failed");
    "secret-in-quotes" in Create: Unauthenticated, Words("login with \"[redacted]\" failed");
    "secret-in-huge-error" in Create: Unauthenticated, Words("login with [redacted][redacted]");
    "secret-at-the-end" in Create: Unauthenticated, Words("eee");
    "secret-in-log" in Create: Ok, Fine;
    "secret-in-log-key" in Create: Ok, Fine;
    "secret-in-pieces" in Create: Ok, Fine;
    "secret-in-pieces-and-trap" in Create: Internal, Fault("before the line has ended");
    "half-a-secret-and-trap" in Create: Internal, Fault("trapped in create-volume");
    "secret-in-panic" in Create: Internal, Fault("login with [redacted]");
    "secret-in-panic" in NodePublish: Internal, Fault("login with [redacted]");
    "secret-in-state" in Create: Internal, Fault("a record of the state contains the value of a secret");
    "secret-in-state-key" in Create: Internal, Fault("a record of the state contains the value of a secret");
    "secret-in-pool" in Create: Internal, Fault("a path in a pool contains the value of a secret");
    "secret-in-id" in Create: Internal, Fault("volume_id contains the value of a secret");
    "secret-in-context" in Create: Internal, Fault("volume_context contains the value of a secret");
    "secret-in-context-key" in Create: Internal, Fault("volume_context contains the value of a secret");
    "secret-in-topology" in Create: Internal, Fault("topology contains the value of a secret");
    "secret-in-source" in Create: Internal, Fault("content_source contains the value of a secret");
    "scopes" in Create: Ok, Fine;
    "seal-not-granted" in Create: PermissionDenied, Fault("name a secret of the document in grants.sealing");
    "seal-of-node" in NodePublish: FailedPrecondition, Words("values are sealed in calls of the controller service only");
};

#[test]
fn privileged_a_secret_leaves_the_host_by_no_way() {
    scene::run(async {
        let scene = Scene::with("").await;
        hold(&scene, TABLE).await;
        assert!(scene.host.log().contains("login with [redacted]"));
        scene.ends_whole().await;
    });
}

/// A bundle of certificates, 200 KB in 3,000 lines, beside errors of 4 MiB that repeat it: more calls at once than there are threads.
#[test]
fn privileged_a_large_secret_in_errors_delays_no_call() {
    const AT_ONCE: usize = 4;
    // Some twenty times what they take on a busy machine; line by line they took as many minutes.
    const PATIENCE: Duration = Duration::from_secs(60);
    scene::run(async {
        let lines = (0..3000).map(|number| format!("{number:0>6}-{}", "tr0ub4dor".repeat(6)));
        let password = lines.collect::<Vec<_>>().join("\n");
        let scene = Scene::holding(&password, "").await;
        let call = || Call::Validate.with(&scene.driver, "secret-in-huge-error");
        let calls = join_all((0..AT_ONCE).map(|_| call()));
        let probes = async {
            for _ in 0..AT_ONCE {
                scene.goes_on("a huge error").await;
            }
        };
        let all = async { tokio::join!(calls, probes).0 };
        let answers = tokio::time::timeout(PATIENCE, all).await.unwrap();
        for answer in answers {
            let status = answer.unwrap_err();
            assert_eq!(status.code(), Code::Unauthenticated, "{status}");
            assert_eq!(status.message(), "login with [redacted]…");
        }
    });
}

/// Values that look otherwise in quotes, on a terminal, or line by line.
#[test]
fn privileged_a_secret_leaves_in_no_spelling() {
    scene::run(async {
        for password in [
            "qu\"oted-and-back\\slashed-tr0ub4dor",
            "tr0ub4dor-on-line-1\nhunter22-on-line-2",
            "{\"audience\":{\"token\":\"eyJhbGciOiJSUzI1NiIsImtpZCI6In-tr0ub4dor\"}}",
        ] {
            let scene = Scene::holding(password, "").await;
            for row in TABLE {
                // What is said depends on the value; that it is not said does not.
                let _ = row.1.with(&scene.driver, row.0).await;
            }
            scene.goes_on("secrets").await;
            scene.ends_whole().await;
        }
    });
}
