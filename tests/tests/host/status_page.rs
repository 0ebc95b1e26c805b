//! The status page in a real browser: what it shows while the host works, that texts of a plugin stay texts, and the picture in the documentation.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use wasmount_csi::wire::csi::v1::CreateVolumeRequest;
use wasmount_tests::browser::Browser;
use wasmount_tests::builds::{build_of, put};
use wasmount_tests::documents;
use wasmount_tests::health::Health;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::idle::until_it_rests;
use wasmount_tests::orchestrator::Orchestrator;
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;
use xtask::workspace::Workspace;

/// The flag.
const FLAG: &str = "--listen-status-page";
/// The version that a plugin gives itself.
const MARKUP: &str = "<img src=x onerror=document.title='owned'>";
/// Where the picture goes, if it is to be made again.
const PICTURE: &str = "WASMOUNT_PICTURE";
/// Most bytes of the picture.
const PICTURE_BYTES: usize = 100_000;

/// A host with the page, and the page's address.
fn start(backends: Vec<PathBuf>) -> (Host, Health) {
    needs_root();
    let address = Health::at_a_free_port().unwrap();
    let host = Host::start(HostOptions {
        backends,
        more: [FLAG.into(), address.address().into()].into(),
        ..HostOptions::default()
    });
    (host.unwrap(), address)
}

fn open(address: &Health) -> Browser {
    let mut browser = Browser::open(&format!("http://{}/", address.address())).unwrap();
    let live = "document.getElementById('state')?.textContent === 'live'";
    browser.until(live).unwrap();
    browser
}

/// The expression: some row of a table has this text.
fn row_with(key: &str, text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!(
        "[...document.querySelectorAll('tbody[data-key={key}] tr')].some(it => it.innerText.includes({text}))"
    )
}

/// The expression: the row of this RPC has these numbers of calls that ended and that failed, and durations.
fn calls_of(rpc: &str, ended: u32, failed: u32) -> String {
    format!(
        "[...document.querySelectorAll('tbody[data-key=calls] tr')].some(row => {{
            const [name, , , p50, p99, ended, failed] = [...row.cells].map(it => it.innerText);
            return name === '{rpc}' && /[0-9]/.test(p50) && /[0-9]/.test(p99) && ended === '{ended}' && failed === '{failed}';
        }})"
    )
}

/// The document of a plugin that misbehaves as its setting says.
fn misbehaving(folder: &Path, behaviour: &str) -> PathBuf {
    let component = Workspace::locate().unwrap().component("misbehave");
    let document = documents::of_component(folder, "hostile.example", &component).unwrap();
    let text = fs::read_to_string(&document).unwrap();
    let aside = folder.join("aside");
    fs::write(
        &aside,
        format!("{text}  settings: {{ behaviour: {behaviour} }}\n"),
    )
    .unwrap();
    fs::rename(&aside, &document).unwrap();
    document
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_the_page_follows_a_host_and_shows_texts_as_texts() {
    let folder = tempfile::tempdir().unwrap();
    let document = misbehaving(folder.path(), "behave");
    let (host, address) = start(vec![document]);
    let orchestrator = host.orchestrator().await.unwrap();
    let mut browser = open(&address);
    browser.until(&row_with("history", "serving")).unwrap();
    let text = browser.text().unwrap();
    for shown in [
        "hostile.example",
        "misbehave.wasmount.io 0.1.0",
        "test-node",
    ] {
        assert!(text.contains(shown), "{shown} in:\n{text}");
    }

    let volume = orchestrator.created("behave.shown").await.unwrap();
    orchestrator.stage(&volume).await.unwrap();
    browser.until(&row_with("volumes", &volume.id)).unwrap();
    let staging = volume.staging.to_str().unwrap();
    browser.until(&row_with("volumes", staging)).unwrap();
    browser.until(&calls_of("NodeStageVolume", 1, 0)).unwrap();
    browser.until(&calls_of("CreateVolume", 1, 0)).unwrap();

    // A fault while the page is open.
    let trap = CreateVolumeRequest {
        parameters: [("behaviour".to_owned(), "trap".to_owned())].into(),
        ..requests::create("behave.never", 1 << 20)
    };
    orchestrator.create(trap).await.unwrap_err();
    browser.until(&row_with("faults", "trapped")).unwrap();
    browser.until(&calls_of("CreateVolume", 2, 1)).unwrap();

    // A swap while the page is open, to a version with a text that would run in a careless page.
    misbehaving(folder.path(), "markup-in-version");
    browser.until(&row_with("history", MARKUP)).unwrap();
    let plugin = format!("misbehave.wasmount.io {MARKUP}");
    assert!(browser.text().unwrap().contains(&plugin));
    assert_eq!(browser.value("document.title").unwrap(), "Wasmount");
    assert_eq!(browser.value("document.images.length").unwrap(), 0);
    browser.until(&row_with("history", "replaced")).unwrap();

    // The policy is the browser's too: neither markup nor a script gets in, whoever tries.
    for attempt in [
        "document.body.innerHTML = '<b>x</b>'",
        "document.body.insertAdjacentHTML('beforeend', '<b>x</b>')",
    ] {
        let blocked = format!(
            "(() => {{ try {{ {attempt}; return false }} catch (it) {{ return it instanceof TypeError }} }})()"
        );
        assert_eq!(browser.value(&blocked).unwrap(), true, "{attempt}");
    }
    drop(browser);
    orchestrator.tear_down(&volume).await.unwrap();
    assert!(!host.log().contains("reachable from other machines"));
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_the_page_returns_after_a_restart_of_its_host() {
    let (mut host, address) = start(Vec::new());
    let mut browser = open(&address);
    host.kill_9().unwrap();
    let state = "document.getElementById('state').textContent";
    browser
        .until(&format!("{state}.startsWith('connection lost')"))
        .unwrap();
    host.restart().unwrap();
    browser.until(&format!("{state} === 'live'")).unwrap();
    browser.until(&row_with("history", "serving")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_page_for_other_machines_is_warned_of() {
    needs_root();
    let host = Host::start(HostOptions {
        more: [FLAG, "0.0.0.0:0"].map(Into::into).into(),
        ..HostOptions::default()
    });
    let log = host.unwrap().log();
    assert!(
        log.contains("the status page is reachable from other machines"),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_page_that_nobody_looks_at_does_not_wake() {
    let (host, address) = start(Vec::new());
    host.orchestrator().await.unwrap().capacity().await.unwrap();
    drop(open(&address));
    until_it_rests(host.id()).unwrap();
}

/// The picture in the README: `WASMOUNT_PICTURE=$PWD/docs/status-page.png cargo test -p wasmount-tests --test host picture_of_the_page`.
#[tokio::test(flavor = "multi_thread")]
async fn privileged_the_picture_of_the_page_is_small_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (document, component) =
        documents::directory_of_its_own(folder.path(), "directory.wasmount.io").unwrap();
    let (host, address) = start(vec![document]);
    let orchestrator = host.orchestrator().await.unwrap();
    let mut browser = open(&address);
    for number in 0..2 {
        let name = format!("pvc-{number}");
        let volume = orchestrator.created(&name).await.unwrap();
        orchestrator.set_up(&volume).await.unwrap();
    }
    live(&orchestrator, 12).await;
    put(&build_of("directory", "two").unwrap(), &component).unwrap();
    browser.until(&row_with("history", "replaced")).unwrap();
    live(&orchestrator, 30).await;
    browser
        .until("document.querySelector('polyline').points.length > 8")
        .unwrap();
    let picture = browser.picture(900, 600).unwrap();
    assert!(
        picture.starts_with(b"\x89PNG\r\n"),
        "{:?}",
        picture.get(..8)
    );
    assert!(picture.len() < PICTURE_BYTES, "{} bytes", picture.len());
    if let Some(path) = env::var_os(PICTURE) {
        fs::write(path, &picture).unwrap();
    }
    drop(browser);
    for number in 0..2 {
        let volume = orchestrator
            .created(&format!("pvc-{number}"))
            .await
            .unwrap();
        orchestrator.tear_down(&volume).await.unwrap();
    }
}

/// Lives of volumes, one after the other, with a look at the statistics of each.
pub(crate) async fn live(orchestrator: &Orchestrator, times: u32) {
    for number in 0..times {
        let volume = orchestrator
            .created(&format!("life-{number}"))
            .await
            .unwrap();
        orchestrator.set_up(&volume).await.unwrap();
        let stats = orchestrator.stats(&volume.id, &volume.target);
        stats.await.unwrap();
        orchestrator.tear_down(&volume).await.unwrap();
    }
}
