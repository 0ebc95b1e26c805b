//! Time, memory, stack, handles, the log: each has a bound, and over it one call ends.

use crate::misbehave::row::{Row, hold, rows};
use crate::misbehave::scene::{self, Scene};

pub(crate) const TABLE: &[Row] = rows! {
    "spin" in Create: ResourceExhausted, Fault("limits.cpu (0.2 s)");
    "spin" in Delete: ResourceExhausted, Fault("limits.cpu (0.2 s)");
    "sleep" in Create: DeadlineExceeded, Fault("within 5 s");
    "sleep" in NodePublish: DeadlineExceeded, Fault("within 5 s");
    "allocate" in Create: ResourceExhausted, Fault("limits.memory (50331648 bytes)");
    "allocate" in Get: ResourceExhausted, Fault("limits.memory (50331648 bytes)");
    "hold-memory" in Create: DeadlineExceeded, Fault("within 5 s");
    "recurse" in Create: Internal, Fault("call stack exhausted");
    "trap" in Create: Internal, Fault("as asked");
    "exit" in Create: Internal, Fault("exited with status");
    "flood" in Create: Ok, Fine;
    "leak-handles" in Create: ResourceExhausted, Fault("limits.handles (100)");
    "big-host-call" in Create: ResourceExhausted, Fault("limits.hostCallBytes (4194304)");
    "global" in Create: Ok, Fine;
    "global" in Create: Ok, Fine;
};

/// Bytes of the log that a flood may leave: its own bound is 64 KiB a call; the rest is what the lives beside it say at `trace`.
const FLOODED_BYTES: usize = 4 << 20;

#[test]
fn privileged_unbounded_use_costs_a_plugin_one_call() {
    scene::run(async {
        let scene = Scene::with("").await;
        hold(&scene, TABLE).await;
        let lines = scene.host.log();
        let lines: Vec<_> = lines
            .lines()
            .filter(|line| line.contains("wasmount::guest"))
            .collect();
        let bytes: usize = lines.iter().map(|line| line.len()).sum();
        assert!(
            bytes < FLOODED_BYTES,
            "{bytes} bytes in {} lines",
            lines.len()
        );
        assert!(lines.iter().all(|line| !line.contains('\u{1b}')));
        scene.ends_whole().await;
    });
}
