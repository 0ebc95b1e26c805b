//! Kubernetes for real: pods of a whole cluster get volumes from `.wasm` files, through kubelet and the standard sidecars, and give them back,
//! whatever dies in between.
//!
//! One cluster serves all tests of this program: its own `main` starts it, and ends it also when tests panic. Flows run side by side in
//! namespaces of their own; beside them, one by one, faults of hosts that only these tests use. Faults of the whole cluster come last. After each
//! test, nothing may be left of it.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy takes only functions marked as tests for tests"
)]

mod copies;
mod faults;
mod growth;
mod inline;
mod kills;
mod life;
mod managed;
mod network;
mod placement;
mod split;
mod stage;
mod swaps;
mod view;
mod writer;

use clap::Parser;
use libtest_mimic::Arguments;
use stage::{Stage, Test, Turn};
use std::process::ExitCode;
use tokio::runtime::Runtime;

/// Most of a test is waiting for others, so more run than there are processors.
const SIDE_BY_SIDE: usize = 8;

/// What Rust's test runner takes: libtest-mimic takes one filter only.
#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    arguments: Arguments,
    further_filters: Vec<String>,
}

/// A row of the table for each function. One that is not named here is dead code, which the compiler refuses.
macro_rules! tests {
    ($turn:expr => $($module:ident::$name:ident),* $(,)?) => {
        [$(Test {
            name: concat!(stringify!($module), "::", stringify!($name)),
            turn: $turn,
            body: |scene| Box::pin($module::$name(scene)),
        }),*]
    };
}

fn main() -> ExitCode {
    let CommandLine {
        arguments,
        further_filters,
    } = CommandLine::parse();
    let flows = tests![Turn::BesideOthers =>
        inline::privileged_a_running_pod_gets_tokens_it_did_not_start_with,
        network::privileged_volumes_of_cinder_live_and_leave_nothing,
        network::privileged_volumes_of_an_array_live_and_leave_nothing,
        life::privileged_what_one_pod_writes_the_next_one_reads,
        life::privileged_a_volume_is_attached_before_its_pod_and_detached,
        life::privileged_a_pod_reads_and_writes_a_raw_block_device,
        life::privileged_a_second_pod_waits_for_a_claim_of_one_pod,
        life::privileged_a_pod_waits_for_a_node_that_is_not_full,
        life::privileged_files_belong_to_the_group_of_the_pod,
        placement::privileged_a_volume_is_made_and_bound_where_its_first_pod_is,
        placement::privileged_a_pod_waits_when_its_claim_exceeds_the_capacity,
        growth::privileged_ext4_grows_between_two_pods,
        growth::privileged_xfs_grows_under_a_pod_that_runs,
        growth::privileged_an_image_of_the_node_grows_under_a_pod_that_runs,
        copies::privileged_a_snapshot_restores_what_was_there_at_its_time,
        copies::privileged_a_clone_is_another_volume_with_the_same_content,
        copies::privileged_a_group_snapshot_restores_all_its_volumes,
        inline::privileged_an_inline_volume_is_memory_and_goes_with_its_pod,
        inline::privileged_a_pod_finds_who_it_is_in_files_of_its_group,
        view::privileged_kubelet_reports_what_a_volume_has_and_uses,
        view::privileged_kubelet_reports_the_size_of_a_raw_device,
        view::privileged_kubelet_tells_a_pod_that_its_mount_is_lost,
        swaps::privileged_an_object_is_swapped_and_rolled_back_under_pods,
        managed::privileged_the_host_writes_what_kubelet_wrote,
    ];
    let of_the_host = tests![Turn::Faulted =>
        faults::privileged_pods_come_and_go_while_the_host_is_killed,
        faults::privileged_a_pod_writes_on_while_the_host_is_replaced,
        faults::privileged_a_pod_deleted_without_a_host_goes_once_it_is_back,
    ];
    let of_another_host = tests![Turn::Killed =>
        faults::privileged_a_registration_socket_that_is_deleted_comes_back,
        kills::privileged_a_pod_starts_though_a_host_died_while_staging,
        kills::privileged_a_pod_starts_though_a_host_died_while_publishing,
        kills::privileged_a_volume_goes_though_a_host_died_while_unstaging,
    ];
    let of_the_mounter = tests![Turn::Split =>
        kills::privileged_a_pod_starts_though_a_mounter_died_while_staging,
        split::privileged_pods_come_and_go_once_the_mounter_is_back,
        split::privileged_a_pod_goes_though_its_plugin_is_broken,
    ];
    let of_the_cluster = tests![Turn::Alone =>
        // The one that is away longest is the last: its clients remember that they were rejected, and try again late.
        faults::privileged_drift_is_healed_though_etcd_forgot_its_versions,
        faults::privileged_a_pod_writes_on_when_kubelet_is_killed,
        faults::privileged_a_pod_writes_on_without_the_api_server_and_etcd,
    ];
    let tests = flows
        .into_iter()
        .chain(of_the_host)
        .chain(of_another_host)
        .chain(of_the_mounter)
        .chain(of_the_cluster)
        .collect();
    let runtime = Runtime::new().unwrap();
    // On this thread, since everything that is started ends with the thread that started it.
    let at_once = arguments.test_threads.unwrap_or(SIDE_BY_SIDE);
    Stage::new(runtime.handle().clone(), at_once).play(&arguments, &further_filters, tests)
}
