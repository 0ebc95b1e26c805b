//! Plans that break a rule or go beyond the grants, and steps where there is no plan: nothing is mounted, and the volume can be staged as it
//! should right after.

use crate::misbehave::row::Told::{self, Fault, Words};
use crate::misbehave::row::{Row, hold, rows};
use crate::misbehave::scene::{self, Scene};
use tonic::Code;

/// What the plugin records while a volume is staged, the code, and what is said.
pub(crate) const STAGED: &[(&str, Code, Told)] = &[
    ("no-source", Code::Internal, Fault("it recorded no source")),
    (
        "two-sources",
        Code::Internal,
        Fault("the plan has a source already"),
    ),
    (
        "error-after-source",
        Code::Unavailable,
        Words("changed my mind"),
    ),
    ("missing-source", Code::NotFound, Words("nowhere")),
    (
        "parent-path",
        Code::InvalidArgument,
        Fault("it has a part `.` or `..`"),
    ),
    (
        "absolute-path",
        Code::InvalidArgument,
        Fault("it has an empty part"),
    ),
    (
        "nul-path",
        Code::Internal,
        Fault("a string contains a NUL byte"),
    ),
    (
        "hosts-own-folder",
        Code::InvalidArgument,
        Fault(".wasmount"),
    ),
    ("pool-not-granted", Code::PermissionDenied, Fault("others")),
    (
        "sealed-not-granted",
        Code::PermissionDenied,
        Fault("name a secret of the document in grants.sealing"),
    ),
    (
        "filesystem-not-granted",
        Code::PermissionDenied,
        Fault("nfs4"),
    ),
    ("tmpfs-not-granted", Code::PermissionDenied, Fault("tmpfs")),
    (
        "device-not-granted",
        Code::PermissionDenied,
        Fault("device"),
    ),
    ("any-device", Code::PermissionDenied, Fault("any-device")),
    (
        "nine-alternatives",
        Code::Internal,
        Fault("the list of alternatives has more than 8 sets of facts"),
    ),
    (
        "iscsi-not-granted",
        Code::PermissionDenied,
        Fault("add `{ protocol: iscsi, portals: [\"192.0.2.1:3260\"]"),
    ),
    (
        "nvme-not-granted",
        Code::PermissionDenied,
        Fault("add `{ protocol: nvme-tcp, addresses: [\"192.0.2.1:4420\"]"),
    ),
    (
        "rbd-not-granted",
        Code::PermissionDenied,
        Fault("add `{ protocol: rbd, monitors: [\"192.0.2.1:6789\"], pools: [\"pool\"] }`"),
    ),
    (
        "chap-of-no-secret",
        Code::InvalidArgument,
        Fault("it names a secret that this request does not bring"),
    ),
    (
        "luks-of-no-secret",
        Code::InvalidArgument,
        Fault("it names a secret that this request does not bring"),
    ),
    (
        "luks-of-a-directory",
        Code::Internal,
        Fault("it belongs to a step that is a block device"),
    ),
    (
        "chap-before-its-disk",
        Code::Internal,
        Fault("it belongs to the step `iscsi`, which comes first"),
    ),
    ("option-not-granted", Code::PermissionDenied, Fault("suid")),
    (
        "secret-in-plan",
        Code::Internal,
        Fault("a string contains the value of a secret"),
    ),
    (
        "secret-in-note",
        Code::Internal,
        Fault("a string contains the value of a secret"),
    ),
    (
        "unknown-secret",
        Code::InvalidArgument,
        Fault("it names a secret that this request does not bring"),
    ),
    ("secret-by-name", Code::PermissionDenied, Fault("cifs")),
    (
        "huge-plan",
        Code::Internal,
        Fault("the notes of a volume hold more than 4 KiB"),
    ),
    (
        "huge-files",
        Code::Internal,
        Fault("its files hold more than 1 MiB"),
    ),
    (
        "state-on-node",
        Code::FailedPrecondition,
        Words("state is not available on a node"),
    ),
];

/// Without a plan, and in one for a single pod.
pub(crate) const TABLE: &[Row] = rows! {
    "step-outside" in Create: Internal, Fault("step `directory` is refused: a plan is recorded in node-stage and node-publish only");
    "ignored-step-outside" in Create: Internal, Fault("step `tmpfs` is refused");
    "step-outside" in Delete: Internal, Fault("step `directory` is refused");
    "ignored-step-outside" in GetGroup: Internal, Fault("step `tmpfs` is refused");
    "two-sources" in NodePublish: Internal, Fault("the plan has a source already");
    "parent-path" in NodePublish: InvalidArgument, Fault("it has a part `.` or `..`");
    "pool-not-granted" in NodePublish: PermissionDenied, Fault("others");
    "tmpfs-not-granted" in NodePublish: PermissionDenied, Fault("tmpfs");
};

#[test]
fn privileged_a_plan_that_breaks_a_rule_mounts_nothing() {
    scene::run(async {
        let scene = Scene::with("").await;
        let driver = &scene.driver;
        let volume = driver.volume("behave.planned").await;
        let mut wrong = Vec::new();
        for (behaviour, expected, told) in STAGED.iter().copied() {
            let mut node = driver.orchestrator.clients().node;
            let answer = node
                .node_stage_volume(driver.stage(&volume, behaviour))
                .await;
            let answer = driver.keep(answer);
            let code = wasmount_tests::orchestrator::code(&answer);
            if code != expected || !told.holds(&answer, driver) {
                wrong.push(format!(
                    "{behaviour}: {answer:?}, not {expected:?} {told:?}"
                ));
            }
            let mounts = scene.host.mounts().unwrap();
            assert!(!mounts.contains(&volume.staging), "{behaviour}: {mounts:?}");
            driver.orchestrator.set_up(&volume).await.unwrap();
            driver.orchestrator.unpublish(&volume).await.unwrap();
            driver.orchestrator.unstage(&volume).await.unwrap();
            scene.goes_on(behaviour).await;
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        driver.orchestrator.tear_down(&volume).await.unwrap();
        scene.ends_whole().await;
    });
}

#[test]
fn privileged_steps_where_there_is_no_plan_fail_the_call() {
    scene::run(async {
        let scene = Scene::with("").await;
        hold(&scene, TABLE).await;
        scene.ends_whole().await;
    });
}

#[test]
fn privileged_an_id_that_leads_out_of_the_pool_leads_nowhere() {
    scene::run(async {
        let scene = Scene::with("").await;
        let orchestrator = &scene.driver.orchestrator;
        let volume = orchestrator
            .place("led-astray", "../../../etc".to_owned())
            .unwrap();
        for _ in 0..2 {
            let refused = orchestrator.stage(&volume).await.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
            orchestrator.unstage(&volume).await.unwrap();
            let refused = orchestrator.delete(&volume.id).await.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        }
        scene.goes_on("an id that leads out of the pool").await;
        scene.ends_whole().await;
    });
}
