//! The directory plugin in C and in Go: built on demand, held to the answers of the one in Rust, and to csi-sanity for the services that all
//! three offer.

use wasmount_tests::directory_life::{self, Build};
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::root::needs_root;
use wasmount_tests::sanity::SanityRun;
use xtask::tools::CSI_SANITY_5_4;
use xtask::workspace::Workspace;
use xtask_guests::language::{self, Language};

/// Specs of csi-sanity 5.4.0 for what the directory plugin exports, and those for what it does not: the same as for the one in Rust.
const OFFERED: usize = 45;
const NOT_OFFERED: usize = 46;

/// A host that serves the plugin of a language by its own document.
async fn serving(language: Language) -> Host {
    needs_root();
    let workspace = Workspace::locate().unwrap();
    language::build(&workspace, language).unwrap();
    let host = Host::start(HostOptions {
        backends: vec![workspace.backend_document(language.plugin())],
        any_paths: true,
        ..HostOptions::default()
    });
    host.unwrap()
}

async fn passes_csi_sanity(language: Language) {
    let host = serving(language).await;
    host.client().await.unwrap();
    let outcome = SanityRun {
        tool: CSI_SANITY_5_4,
        endpoint: host.socket(),
        controller_endpoint: None,
        directory: &host.paths(),
        access_type: "mount",
        parameters: &[],
        mutable_parameters: &[],
    }
    .run()
    .unwrap();
    let failed = &outcome.failed;
    assert!(failed.is_empty(), "{failed:#?}\n{}", outcome.output);
    let counts = (outcome.passed, outcome.skipped.len());
    assert_eq!(counts, (OFFERED, NOT_OFFERED), "{:#?}", outcome.skipped);
}

async fn lives_as_the_one_in_rust(language: Language) {
    let host = serving(language).await;
    let orchestrator = host.orchestrator().await.unwrap();
    directory_life::live(&host, &orchestrator, Build::Now)
        .await
        .unwrap();
}

#[tokio::test]
async fn privileged_the_plugin_in_c_passes_csi_sanity() {
    passes_csi_sanity(Language::C).await;
}

#[tokio::test]
async fn privileged_the_plugin_in_go_passes_csi_sanity() {
    passes_csi_sanity(Language::Go).await;
}

#[tokio::test]
async fn privileged_the_plugin_in_c_lives_as_the_one_in_rust() {
    lives_as_the_one_in_rust(Language::C).await;
}

#[tokio::test]
async fn privileged_the_plugin_in_go_lives_as_the_one_in_rust() {
    lives_as_the_one_in_rust(Language::Go).await;
}

#[tokio::test]
async fn privileged_the_plugin_in_rust_lives_so_too() {
    needs_root();
    let host = Host::start(HostOptions::default()).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    directory_life::live(&host, &orchestrator, Build::Now)
        .await
        .unwrap();
}

/// What was built from the same sources by the same tools is not built again.
#[test]
fn privileged_a_guest_is_built_once() {
    needs_root();
    let workspace = Workspace::locate().unwrap();
    let first = language::build(&workspace, Language::C).unwrap();
    let made = || first.component.metadata().unwrap().modified().unwrap();
    let time = made();
    assert_eq!(language::build(&workspace, Language::C).unwrap(), first);
    assert_eq!(made(), time);
}
