//! Which calls are served in which role, with which hidden capabilities, and without a plugin.

use crate::common::*;
use wasmount_core::code::Code;
use wasmount_core::driver::Role;
use wasmount_core::error::Error;
use wasmount_core::rpc::Rpc;
use wasmount_core::services::Service;

fn refusal(bench: &Bench, rpc: Rpc) -> Option<Code> {
    bench.driver.serves(rpc).err().map(|error| error.code())
}

fn in_1_13_without(hidden: &str) -> Bench {
    let bench = without_plugin(in_1_13(config(Role::All, &[hidden])));
    with_backend(bench, Service::ALL, &[])
}

#[test]
fn a_controller_without_its_plugin_does_not_speak_for_the_node() {
    for (role, expected) in [
        (Role::Controller, Some(Code::Unavailable)),
        (Role::Node, None),
    ] {
        let bench = bench_without_plugin(role, &[]);
        assert_eq!(refusal(&bench, Rpc::NodeGetCapabilities), expected);
    }
}

#[test]
fn a_role_serves_its_own_services() {
    for (role, controller, node) in [
        (Role::All, None, None),
        (Role::Controller, None, Some(Code::Unimplemented)),
        (Role::Node, Some(Code::Unimplemented), None),
    ] {
        let bench = without_plugin(in_1_13(config(role, &[])));
        bench
            .driver
            .activate(bench.backend.clone(), bench.policy.clone());
        for rpc in Rpc::ALL {
            let expected = match rpc.service() {
                "Identity" => None,
                // external-resizer calls it on the controller.
                "Node" if *rpc == Rpc::NodeGetCapabilities => None,
                "Node" => node,
                _ => controller,
            };
            assert_eq!(refusal(&bench, *rpc), expected, "{role:?} {rpc}");
        }
    }
}

#[test]
fn without_a_plugin_its_calls_are_unavailable() {
    let bench = without_plugin(in_1_13(config(Role::All, &[])));
    for rpc in Rpc::ALL {
        let expected = match rpc.service() {
            "Node" => None,
            _ if matches!(rpc, Rpc::GetPluginInfo | Rpc::Probe) => None,
            _ => Some(Code::Unavailable),
        };
        assert_eq!(refusal(&bench, *rpc), expected, "{rpc}");
    }
    let info = bench.driver.plugin_info();
    assert_eq!(info.name.as_str(), "fake.example.com");
    assert_eq!(info.vendor_version, "unknown");
}

#[test]
fn the_health_calls_are_of_csi_1_13_and_unimplemented_before() {
    let health_calls = [
        Rpc::ControllerListVolumeHealth,
        Rpc::ControllerGetVolumeHealth,
        Rpc::NodeGetVolumeHealth,
        Rpc::NodeGetStorageHealth,
    ];
    let without = bench_without_plugin(Role::All, &[]);
    for bench in [&full(&[]), &without] {
        for rpc in health_calls {
            assert_eq!(refusal(bench, rpc), Some(Code::Unimplemented), "{rpc}");
        }
    }
    let newer = full_in_1_13(&[]);
    assert!(
        health_calls
            .into_iter()
            .all(|rpc| refusal(&newer, rpc).is_none())
    );
    let rest = Rpc::ALL.iter().filter(|rpc| !health_calls.contains(rpc));
    for rpc in rest {
        assert_eq!(refusal(&full(&[]), *rpc), None, "{rpc}");
    }
}

#[tokio::test]
async fn what_is_hidden_is_not_served() {
    let bench = bench_without_plugin(Role::All, &["GET_SNAPSHOT", "STAGE_UNSTAGE_VOLUME"]);
    bench
        .driver
        .activate(bench.backend.clone(), bench.policy.clone());
    let refused = bench
        .driver
        .get_snapshot(incoming(), snapshot_id("s"))
        .await;
    assert!(matches!(
        &refused,
        Err(Error::NotServed {
            rpc: Rpc::GetSnapshot,
            ..
        })
    ));
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
    let staged = bench.driver.node_stage_volume(incoming(), stage("v")).await;
    assert_eq!(staged.unwrap_err().code(), Code::Unimplemented);
    assert_eq!(bench.backend.script.calls(), Vec::<String>::new());
    // A volume that an earlier configuration staged can be torn down.
    let unstage = bench
        .driver
        .node_unstage_volume(incoming(), volume_id("v"), path("/staging"));
    unstage.await.unwrap();
}

#[tokio::test]
async fn the_list_of_health_is_hidden_with_the_health_of_one_volume() {
    for hidden in ["GET_VOLUME_HEALTH", "LIST_VOLUME_HEALTH"] {
        let bench = in_1_13_without(hidden);
        let refused = bench.driver.serves(Rpc::ControllerListVolumeHealth);
        let reason = refused.unwrap_err().to_string();
        assert!(
            reason.contains("csi.hideCapabilities"),
            "{hidden}: {reason}"
        );
    }
    let bench = in_1_13_without("LIST_VOLUME_HEALTH");
    assert_eq!(refusal(&bench, Rpc::ControllerGetVolumeHealth), None);
}

#[tokio::test]
async fn a_swap_shows_in_the_next_call() {
    let bench = full(&[]);
    assert_eq!(bench.driver.plugin_info().vendor_version, "1.2.3");
    assert!(bench.driver.serves(Rpc::GetCapacity).is_ok());
    let poorer = crate::backend::FakeBackend::new(Default::default());
    bench
        .driver
        .activate(std::sync::Arc::new(poorer), bench.policy.clone());
    assert_eq!(refusal(&bench, Rpc::GetCapacity), Some(Code::Unimplemented));
}
