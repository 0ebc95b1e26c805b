//! The output of `wasmount status`.

use super::*;
use k8s_openapi::jiff::Timestamp;
use wasmount_control::messages::{
    Draining, DriverStatus, Fault as PluginFault, RefusalKind, RefusedVersion, VersionRecord,
    VersionState,
};

fn driver() -> DriverReport {
    DriverReport {
        driver: "a.wasmount.io".to_owned(),
        backend: "a".to_owned(),
        document: "/etc/a.yaml".to_owned(),
        status: DriverStatus {
            phase: Phase::Serving,
            version: Some(version()),
            ..DriverStatus::default()
        },
        reason: None,
        not_ready: None,
        calls_in_flight: 2,
        volumes_in_use: Some(4),
        faults: 0,
        last_fault: None,
    }
}

fn version() -> VersionRecord {
    VersionRecord {
        number: 3,
        plugin: "directory".to_owned(),
        plugin_version: "0.1.0".to_owned(),
        digest: format!("sha256:{}", "ab".repeat(32)),
        origin: "/a.wasm".to_owned(),
        settings_digest: "00".to_owned(),
        signed_by: Vec::new(),
        since: in_future(),
        until: None,
        reason: None,
        state: VersionState::Serving,
        proven: false,
        is_kept: true,
    }
}

/// A time whose age is known: 0 s.
fn in_future() -> Timestamp {
    "9999-01-01T00:00:00Z".parse().unwrap()
}

fn seen(drivers: Vec<DriverReport>, not_ready: Option<&str>) -> String {
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
    let at = in_future();
    let troubled = DriverReport {
        status: DriverStatus {
            phase: Phase::RolledBack,
            refused: Some(RefusedVersion {
                by_document: true,
                digest: Some("sha256:0123456789abcdef".to_owned()),
                kind: RefusalKind::Signature,
                reason: "it has no signature".to_owned(),
                at,
            }),
            draining: vec![Draining {
                number: 1,
                calls: 1,
            }],
            ..DriverStatus::default()
        },
        reason: Some("held at version 2".to_owned()),
        volumes_in_use: None,
        faults: 7,
        last_fault: Some(PluginFault {
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
         a.wasmount.io: 0123456789ab was rejected 0s ago (signature): it has no signature\n\
         a.wasmount.io: version 1 still has 1 call\n\
         a.wasmount.io: last fault 0s ago: trapped in CreateVolume, by b 1\n"
    );
}

/// The sample in the documentation is the actual output.
#[test]
fn what_docs_show_is_what_is_printed() {
    let docs = include_str!("../../../../../../docs/admin.md");
    let since = Timestamp::now() - Duration::from_secs(12);
    let name = "directory.wasmount.io";
    let reason = "held at version 1 (version 2 had 5 faults within its first calls, the last one in CreateVolume: trapped); `wasmount swap` ends the hold";
    let later = "8f14e45fceea167a5a36dedd4bea2543a0b1c2d3e4f5061728394a5b6c7d8e9f";
    let shown = DriverReport {
        driver: name.to_owned(),
        status: DriverStatus {
            phase: Phase::RolledBack,
            version: Some(VersionRecord {
                number: 1,
                plugin: name.to_owned(),
                digest: format!("sha256:578a10e254d0{}", "0".repeat(52)),
                since,
                ..version()
            }),
            ..DriverStatus::default()
        },
        reason: Some(reason.to_owned()),
        calls_in_flight: 0,
        volumes_in_use: Some(3),
        faults: 5,
        last_fault: Some(PluginFault {
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
