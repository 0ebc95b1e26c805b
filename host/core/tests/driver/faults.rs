//! Faults of the plugin: counted and reported, even if the client has gone.

use crate::common::{bench_without_plugin, create, full, incoming};
use crate::script::{Act, label};
use wasmount_core::backend::BackendError;
use wasmount_core::call::Incoming;
use wasmount_core::call::Origin;
use wasmount_core::code::Code;
use wasmount_core::driver::Role;
use wasmount_core::fault::FaultKind;
use wasmount_core::rpc::Rpc;

fn for_pod() -> Incoming {
    Incoming {
        origin: Origin {
            name: Some("x".to_owned()),
            ..Origin::default()
        },
        ..incoming()
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_call_that_times_out_names_its_client() {
    let bench = full(&[]);
    let mut told = bench.driver.faults();
    let script = &bench.backend.script;
    script.on("create_volume", Act::UntilCancelled);
    let driver = bench.driver.clone();
    let client = tokio::spawn(async move { driver.create_volume(for_pod(), create("x")).await });
    script.arrived("create_volume", 1).await;
    client.abort();
    let fault = told.recv().await.unwrap();
    assert_eq!(
        (fault.rpc, fault.kind),
        (Rpc::CreateVolume, FaultKind::OutOfTime)
    );
    assert_eq!(fault.origin, for_pod().origin);
    assert_eq!(
        bench.driver.fault_counts(),
        [(FaultKind::OutOfTime, 1)].into()
    );
}

#[tokio::test]
async fn faults_are_counted_without_listeners() {
    let bench = full(&[]);
    let script = &bench.backend.script;
    let trapped = BackendError::Trapped {
        plugin: label(),
        function: "create-volume",
        reason: "unreachable".to_owned(),
    };
    script.on("create_volume", Act::Fail(trapped));
    for _ in 0..200 {
        let failed = bench.driver.create_volume(incoming(), create("x")).await;
        assert_eq!(failed.unwrap_err().code(), Code::Internal);
    }
    let answered = BackendError::Answered {
        code: Code::OutOfRange,
        message: "no such size".to_owned(),
    };
    script.on("create_volume", Act::Fail(answered));
    let refused = bench.driver.create_volume(incoming(), create("x")).await;
    assert_eq!(refused.unwrap_err().code(), Code::OutOfRange);
    assert_eq!(
        bench.driver.fault_counts(),
        [(FaultKind::Trapped, 200)].into()
    );
}

#[tokio::test]
async fn the_ten_newest_faults_are_remembered_newest_first() {
    let bench = bench_without_plugin(Role::All, &[]);
    let driver = &bench.driver;
    driver.set_fault("no such file".to_owned());
    let note = |rpc| {
        let refused = driver.serves(rpc).unwrap_err();
        driver.note(rpc, &refused, &Origin::default());
    };
    note(Rpc::CreateVolume);
    assert_eq!(driver.recent_faults().len(), 1);
    for _ in 0..10 {
        note(Rpc::DeleteVolume);
    }
    note(Rpc::ListVolumes);
    let recent = driver.recent_faults();
    let rpcs: Vec<_> = recent.iter().map(|it| it.fault.rpc).collect();
    assert_eq!(rpcs.len(), 10);
    assert_eq!(rpcs[0], Rpc::ListVolumes);
    assert!(rpcs[1..].iter().all(|rpc| *rpc == Rpc::DeleteVolume));
    assert_eq!(driver.last_fault().unwrap().fault.rpc, Rpc::ListVolumes);
}

#[tokio::test]
async fn a_plugin_that_fails_to_load_is_a_fault() {
    let bench = bench_without_plugin(Role::All, &[]);
    let driver = &bench.driver;
    let rpc = Rpc::CreateVolume;
    let origin = Origin::default();
    let early = driver.serves(rpc).unwrap_err();
    driver.note(rpc, &early, &origin);
    assert!(driver.fault_counts().is_empty());
    driver.set_fault("no such file".to_owned());
    let refused = driver.serves(rpc).unwrap_err();
    driver.note(rpc, &refused, &origin);
    assert_eq!(driver.fault_counts(), [(FaultKind::NotLoaded, 1)].into());
}
