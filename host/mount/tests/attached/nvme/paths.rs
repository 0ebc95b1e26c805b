//! Two paths to one namespace, of which one is lost or both are.

use super::target::{Target, assert_nothing_left, controllers, states};
use super::volume::{Volume, host, uuid};
use crate::support::{Writer, eventually, silent_address, until};
use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;

const BYTES: u64 = 64 << 20;
/// The port of the first address.
const PORT: u16 = 4420;
/// Longer than a connect to one address may take, and the search afterwards.
const BOUND: Duration = Duration::from_secs(40);

fn two_paths() -> Volume {
    let mut volume = Volume::of(1);
    volume.addresses = vec![Target::address(0), Target::address(1)];
    volume.minimum_paths = 2;
    volume
}

fn set_all(attribute: &str, value: &str) {
    for controller in controllers() {
        fs::write(controller.join(attribute), value).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_writer_does_not_notice_a_lost_path() {
    let mut target = Target::start(2);
    target.add(1, &uuid(1), BYTES);
    let host = host();
    let volume = two_paths();
    host.stage(&volume).await.unwrap();
    assert_eq!(states(), ["live", "live"]);
    set_all("reconnect_delay", "1");
    let writer = Writer::start(host.staging(&volume).join("file"));
    for index in [0, 1] {
        target.pause(index);
        until("a lost path", || states() == ["connecting", "live"]);
        target.resume(index);
        until("both paths", || states() == ["live", "live"]);
    }
    writer.end();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_too_few_paths_are_told_by_state() {
    let mut target = Target::start(2);
    target.add(1, &uuid(1), BYTES);
    target.pause(1);
    let host = host();
    let mut volume = two_paths();
    let refused = host.stage(&volume).await.unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("1 of 2 paths carry requests") && text.contains("127.0.0.1:4421: "),
        "{text}"
    );
    assert_nothing_left(&host);
    // One is enough for others.
    volume.minimum_paths = 1;
    host.stage(&volume).await.unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_lost_array_gives_errors_in_time() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), BYTES);
    let host = host();
    let volume = Volume::of(1);
    host.stage(&volume).await.unwrap();
    // As the host sets it, with a time that a test can wait for.
    let [controller] = controllers().try_into().unwrap();
    let wait = fs::read_to_string(controller.join("fast_io_fail_tmo")).unwrap();
    assert_eq!(wait.trim(), "600");
    set_all("fast_io_fail_tmo", "2");
    let mut file = fs::File::create(host.staging(&volume).join("file")).unwrap();
    target.pause(0);
    until("a lost path", || states() == ["connecting"]);
    let begin = Instant::now();
    let lost = file.write_all(&[1; 1 << 20]).and_then(|()| file.sync_all());
    assert!(lost.is_err());
    drop(file);
    host.unstage(&volume).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(60));
    assert_nothing_left(&host);
    // Nor is an array that is away waited for without end.
    let refused = host.stage(&volume).await.unwrap_err();
    assert!(!matches!(refused, MountError::NotFound(_)), "{refused}");
    assert_nothing_left(&host);
    target.resume(0);
    host.stage(&volume).await.unwrap();
    host.unstage(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_silent_address_ends_in_time() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), BYTES);
    let silent = silent_address(PORT);
    let host = Arc::new(host());
    let mut volume = Volume::of(1);
    volume.addresses = vec![silent.clone()];
    let begin = Instant::now();
    let staging = tokio::spawn({
        let (host, volume) = (host.clone(), volume.clone());
        async move { host.stage(&volume).await }
    });
    // The connect fails, so that records which are made after it would never be seen.
    let record = eventually("a record of the connection before it is made", || {
        let [record] = host.connections().try_into().ok()?;
        (host.journal().len() == 1).then_some(record)
    });
    assert!(record.ends_with(&silent), "{record:?}");
    let refused = staging.await.unwrap().unwrap_err();
    assert!(matches!(refused, MountError::Hung(_)), "{refused}");
    assert!(refused.to_string().contains(&silent), "{refused}");
    assert!(begin.elapsed() < BOUND, "{:?}", begin.elapsed());
    assert_nothing_left(&host);
    // The next address leads there.
    volume.addresses.push(Target::address(0));
    host.stage(&volume).await.unwrap();
    assert_eq!(states(), ["live"]);
    host.unstage(&volume).await.unwrap();
    assert_nothing_left(&host);
}
