//! The output of `wasmount status`.

use super::*;
use wasmount_control::messages::{Draining, Fault as FaultWords, Refused, Version};

fn driver() -> DriverStatus {
    DriverStatus {
        driver: "a.wasmount.io".to_owned(),
        backend: "a".to_owned(),
        document: "/etc/a.yaml".to_owned(),
        phase: Phase::Serving,
        paused: false,
        reason: None,
        not_ready: None,
        version: Some(Version {
            number: 3,
            plugin: "directory 0.1.0".to_owned(),
            digest: format!("sha256:{}", "ab".repeat(32)),
            origin: "/a.wasm".to_owned(),
            settings_digest: "00".to_owned(),
            signed_by: Vec::new(),
            // Replaced, so that the age is known.
            since: "9999-01-01T00:00:00Z".to_owned(),
        }),
        refused: None,
        drained_since: None,
        calls_in_flight: 2,
        draining: Vec::new(),
        volumes_in_use: Some(4),
        faults: 0,
        last_fault: None,
    }
}

fn seen(drivers: Vec<DriverStatus>, not_ready: Option<&str>) -> String {
    let status = HostStatus {
        version: "0.1.0".to_owned(),
        node: "n".to_owned(),
        role: "all".to_owned(),
        not_ready: not_ready.map(str::to_owned),
        drivers,
    };
    anstream::adapter::strip_str(&text(&status)).to_string()
}

#[test]
fn a_driver_that_serves_is_one_row() {
    assert_eq!(
        seen(vec![driver()], None),
        "DRIVER         PHASE    VERSION  PLUGIN           DIGEST        SINCE  CALLS  VOLUMES  FAULTS\n\
         a.wasmount.io  serving  3        directory 0.1.0  abababababab  0s     2      4        0\n"
    );
}

#[test]
fn what_is_not_as_it_should_be_has_a_line_of_its_own() {
    let at = "9999-01-01T00:00:00Z".to_owned();
    let troubled = DriverStatus {
        phase: Phase::RolledBack,
        reason: Some("held at version 2".to_owned()),
        refused: Some(Refused {
            digest: Some("sha256:0123456789abcdef".to_owned()),
            kind: "signature".to_owned(),
            reason: "nobody has signed it".to_owned(),
            at: at.clone(),
        }),
        version: None,
        volumes_in_use: None,
        draining: vec![Draining {
            number: 1,
            calls: 1,
        }],
        faults: 7,
        last_fault: Some(FaultWords {
            at,
            rpc: "CreateVolume".to_owned(),
            kind: "trapped".to_owned(),
            plugin: Some("b 1".to_owned()),
        }),
        ..driver()
    };
    assert_eq!(
        seen(vec![troubled], Some("it starts")),
        "the host is not ready: it starts\n\
         DRIVER         PHASE        VERSION  PLUGIN  DIGEST  SINCE  CALLS  VOLUMES  FAULTS\n\
         a.wasmount.io  rolled back  -        -       -       -      2      -        7\n\
         a.wasmount.io: held at version 2\n\
         a.wasmount.io: 0123456789ab was refused 0s ago (signature): nobody has signed it\n\
         a.wasmount.io: version 1 still has 1 call\n\
         a.wasmount.io: last fault 0s ago: trapped in CreateVolume, by b 1\n"
    );
}

/// The sample in the documentation is the actual output.
#[test]
fn what_docs_show_is_what_is_printed() {
    let docs = include_str!("../../../../../../docs/admin.md");
    let since = (k8s_openapi::jiff::Timestamp::now() - Duration::from_secs(12)).to_string();
    let name = "directory.wasmount.io";
    let reason = "held at version 1 (version 2 had 5 faults within its first calls, the last one in CreateVolume: trapped); `wasmount swap` lifts it";
    let later = "8f14e45fceea167a5a36dedd4bea2543a0b1c2d3e4f5061728394a5b6c7d8e9f";
    let shown = DriverStatus {
        driver: name.to_owned(),
        phase: Phase::RolledBack,
        reason: Some(reason.to_owned()),
        version: Some(Version {
            number: 1,
            plugin: name.to_owned(),
            digest: format!("sha256:578a10e254d0{}", "0".repeat(52)),
            since: since.clone(),
            ..driver().version.unwrap()
        }),
        calls_in_flight: 0,
        volumes_in_use: Some(3),
        faults: 5,
        last_fault: Some(FaultWords {
            at: since,
            rpc: "CreateVolume".to_owned(),
            kind: "trapped".to_owned(),
            plugin: Some(format!("plugin {name} 0.2.0 (sha256:{later})")),
        }),
        ..driver()
    };
    // The age changes each second.
    let printed = seen(vec![shown], None).replace("13s", "12s");
    assert!(
        docs.contains(&format!("# wasmount status\n{printed}")),
        "{printed}"
    );
}

#[test]
fn a_host_without_drivers_says_so() {
    assert_eq!(seen(Vec::new(), None), "no driver is served\n");
}
