//! A call that fails after an effect: whatever its code would be, the client is asked to retry, or nothing is left.

use crate::misbehave::row::{Row, hold, rows};
use crate::misbehave::scene::{self, Scene};

pub(crate) const TABLE: &[Row] = rows! {
    "make-and-trap" in Create: Aborted, Fault("after the tree was made");
    // The retry finds the tree, and leaves it again.
    "make-and-trap" in Create: Aborted, Fault("the code of the failure alone: Internal");
    "make-and-exhaust" in Create: Aborted, Words("the code of the failure alone: ResourceExhausted");
    "make-undo-and-exhaust" in Create: ResourceExhausted, Words("no room");
    "write-and-exhaust" in Create: Aborted, Words("the code of the failure alone: ResourceExhausted");
    // Another call's record is there before this one has changed anything.
    "record-once" in Create: Ok, Fine;
    "record-once" in Create: AlreadyExists, Words("it is there");
    "write-undo-and-exhaust" in Create: ResourceExhausted, Words("no room");
};

#[test]
fn privileged_a_code_is_not_final_while_something_is_left() {
    scene::run(async {
        let scene = Scene::with("").await;
        hold(&scene, TABLE).await;
        scene.ends_whole().await;
    });
}
