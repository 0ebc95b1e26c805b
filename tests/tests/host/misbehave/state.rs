//! The store of records: what is too large or too much is refused, one backend's records do not fill the disk of all, and there is a way back.

use crate::misbehave::call::Call;
use crate::misbehave::row::{Row, hold, rows};
use crate::misbehave::scene::{self, LIMITS, Scene};
use std::fs;

pub(crate) const TABLE: &[Row] = rows! {
    "write-state" in Create: Ok, Fine;
    "read-state" in Create: Ok, Fine;
    // The record was there: this call has changed nothing.
    "write-state-and-trap" in Create: Internal, Fault("after a write");
    "write-and-remove" in Delete: Ok, Fine;
    "empty-key" in Create: Internal, Fault("a key of the state is empty");
    "big-key" in Create: Internal, Fault("the key is 1025 bytes long, at most 1024");
    "big-value" in Create: Internal, Fault("the value is 1048577 bytes long, at most 1048576");
    "state-on-node" in NodePublish: FailedPrecondition, Words("state is not available on a node");
    "million-keys" in Create: Aborted, Fault("limits.stateBytes (262144 bytes)");
    // Full is full: not only for the call that made it so.
    "one-more-key" in Create: ResourceExhausted, Fault("limits.stateBytes (262144 bytes)");
    "million-keys-at-any-price" in Create: Aborted, Fault("limits.cpu (0.2 s)");
    "one-more-key" in DeleteSnapshot: ResourceExhausted, Fault("limits.stateBytes (262144 bytes)");
    // And there is a way back.
    "remove-keys" in Create: Ok, Fine;
    "write-state" in Create: Ok, Fine;
    "write-and-remove" in Delete: Ok, Fine;
};

/// What the store may take of the disk when the backend's 256 KiB are full, in bytes: redb's own start is 1.5 MiB, and it copies what it
/// changes.
const STORE_BYTES: u64 = 16 << 20;

#[test]
fn privileged_a_million_keys_do_not_fill_the_disk_of_all() {
    scene::run(async {
        assert!(LIMITS.contains("stateBytes: 256Ki"));
        let scene = Scene::with("").await;
        hold(&scene, TABLE).await;
        let store = fs::metadata(scene.host.data().join("state.redb"))
            .unwrap()
            .len();
        assert!(store < STORE_BYTES, "{store} bytes");
        scene.ends_whole().await;
    });
}

#[test]
fn privileged_a_full_store_survives_restart_and_can_shrink() {
    scene::run(async {
        let mut scene = Scene::with("").await;
        let full = rows! { "million-keys" in Create: Aborted, Fault("limits.stateBytes"); };
        hold(&scene, full).await;
        scene.restarts().await;
        let still =
            rows! { "one-more-key" in Create: ResourceExhausted, Fault("limits.stateBytes"); };
        hold(&scene, still).await;
        let emptied = Call::Create.with(&scene.driver, "remove-keys").await;
        emptied.unwrap();
        let room =
            rows! { "write-state" in Create: Ok, Fine; "write-and-remove" in Delete: Ok, Fine; };
        hold(&scene, room).await;
        scene.ends_whole().await;
    });
}
