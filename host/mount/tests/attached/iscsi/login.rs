//! Logins: with CHAP, without the right secret, at portals that do not answer.

use super::target::{CHAP, Lio, MUTUAL, PORTAL, assert_nothing_left, path, sessions};
use super::volume::{Volume, host};
use crate::support::{eventually, silent_address, until};
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmount_core::mounter::MountError;

/// The port of the target.
const PORT: u16 = 3260;
/// Longer than the login of one path may take.
const BOUND: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_chap_lets_the_right_secret_in() {
    for mutual in [None, Some(MUTUAL)] {
        let lio = Lio::start();
        lio.offer(1, 1);
        lio.require_chap(mutual.is_some());
        let host = host();
        let mut volume = Volume::of(1, 1);
        volume.chap = Some(CHAP);
        volume.mutual_chap = mutual;
        host.stage(&volume).await.unwrap();
        // By name alone.
        let kept = host.kept();
        assert!(kept.contains("chap") && !kept.contains("hunter"), "{kept}");
        host.unstage(&volume).await.unwrap();
        assert_nothing_left();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_chap_refuses_a_wrong_or_missing_secret() {
    let lio = Lio::start();
    lio.offer(1, 1);
    lio.require_chap(true);
    let host = host();
    let wrong = Some(["node", "wronghunter22222"]);
    for (chap, mutual) in [(None, None), (wrong, None), (Some(CHAP), wrong)] {
        let mut volume = Volume::of(1, 1);
        volume.chap = chap;
        volume.mutual_chap = mutual;
        let refused = host.stage(&volume).await.unwrap_err();
        assert!(matches!(refused, MountError::Unusable(_)), "{refused}");
        let text = refused.to_string();
        assert!(text.contains("refuses the login"), "{text}");
        assert!(!text.contains("hunter"), "{text}");
        assert_nothing_left();
        assert_eq!(host.journal().len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_two_paths_at_once_need_multipathd() {
    let lio = Lio::start_with_two_paths();
    lio.offer(1, 1);
    let host = host();
    // The kernel has no dm-multipath: tests that load it remove it.
    let mut volume = Volume::of_two_paths(1, 1);
    let refused = host.stage(&volume).await.unwrap_err();
    assert!(matches!(refused, MountError::Unusable(_)), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("start multipathd"), "{text}");
    assert_nothing_left();
    volume.minimum_paths = 1;
    host.stage(&volume).await.unwrap();
    assert_eq!(sessions().len(), 1);
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_silent_portal_ends_in_time() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let silent = silent_address(PORT);
    let host = host();
    let mut volume = Volume::of(1, 1);
    volume.paths = vec![path(&silent, 1)];
    let begin = Instant::now();
    let refused = host.stage(&volume).await.unwrap_err();
    assert!(matches!(refused, MountError::Hung(_)), "{refused}");
    assert!(refused.to_string().contains(&silent), "{refused}");
    assert!(begin.elapsed() < BOUND, "{:?}", begin.elapsed());
    assert_nothing_left();
    // The next path leads there.
    volume.paths.push(path(PORTAL, 1));
    host.stage(&volume).await.unwrap();
    assert_eq!(sessions().len(), 1);
    host.unstage(&volume).await.unwrap();
    assert_nothing_left();
}

/// Whether a login to a portal is under way.
fn logs_in(portal: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap();
    let commands = processes.filter_map(|it| fs::read(it.unwrap().path().join("cmdline")).ok());
    let mut commands = commands.map(|it| String::from_utf8_lossy(&it).replace('\0', " "));
    commands.any(|it| it.contains(portal) && it.contains("--login"))
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_disk_is_recorded_before_its_login() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let silent = silent_address(PORT);
    let host = Arc::new(host());
    let mut volume = Volume::of(1, 1);
    volume.paths = vec![path(&silent, 1)];
    let staging = tokio::spawn({
        let (host, volume) = (host.clone(), volume.clone());
        async move { host.stage(&volume).await }
    });
    // The login fails, and of a volume that failed nothing is kept: a record that is made after it would never be seen beside it.
    let is_seen = || {
        let records = host.journal().into_iter();
        let mut records = records.filter_map(|it| fs::read_to_string(it).ok());
        records.any(|it| it.contains(&silent) && it.contains("Coming")) && logs_in(&silent)
    };
    let is_seen = eventually("a record beside a login", || match is_seen() {
        true => Some(true),
        false => staging.is_finished().then_some(false),
    });
    let refused = staging.await.unwrap().unwrap_err();
    assert!(is_seen, "{refused}");
    assert_nothing_left();
    assert_eq!(host.journal().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_lost_path_is_detached_in_time() {
    let lio = Lio::start();
    lio.offer(1, 1);
    let host = host();
    let volume = Volume::of(1, 1);
    host.stage(&volume).await.unwrap();
    lio.answer(false);
    until("the path is lost", || {
        let states = fs::read_dir("/sys/class/iscsi_session").unwrap();
        let mut states = states.map(|it| fs::read_to_string(it.unwrap().path().join("state")));
        states.any(|state| state.is_ok_and(|state| state.trim() != "LOGGED_IN"))
    });
    let begin = Instant::now();
    let mut unstaged = host.unstage(&volume).await;
    // The unmount may wait for the kernel, which gives up after two minutes; until then the client repeats its call.
    while unstaged.is_err() && begin.elapsed() < Duration::from_secs(180) {
        unstaged = host.unstage(&volume).await;
    }
    assert_eq!(unstaged, Ok(()));
    assert_nothing_left();
}
