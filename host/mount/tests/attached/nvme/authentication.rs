//! DH-HMAC-CHAP: the host proves who it is to the controller, and the controller to the host.

use super::target::{Target, assert_nothing_left, states};
use super::volume::{HOST_NQN, Volume, host, uuid};

/// Keys as `nvme gen-dhchap-key` makes them: bytes and their CRC-32.
const HOST_KEY: &str = "DHHC-1:00:R0CuY0ewFywBJU/1W65a/1GZ9ERuf21kPUAYWz9HUUW5xdBr:";
const CONTROLLER_KEY: &str = "DHHC-1:00:wUchNbFMd8i++Y5z9wIIMl+g3PHmvWaK6bManOopX+f0+n1a:";
const OTHER_KEY: &str = "DHHC-1:00:2SmKENGwc1g33EvYXaxkGw887yekfl1TpU8vP1svz/puLdra:";

fn volume(host: Option<&'static str>, controller: Option<&'static str>) -> Volume {
    let mut volume = Volume::of(1);
    volume.keys = [host, controller];
    volume
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_keys_open_a_subsystem_and_are_not_kept() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), 32 << 20);
    target.allow(HOST_NQN, HOST_KEY, CONTROLLER_KEY);
    let host = host();
    for controller in [None, Some(CONTROLLER_KEY)] {
        let volume = volume(Some(HOST_KEY), controller);
        host.stage(&volume).await.unwrap();
        assert_eq!(states(), ["live"]);
        let kept = host.kept();
        assert!(
            kept.contains("host_key") && !kept.contains("DHHC"),
            "{kept}"
        );
        host.unstage(&volume).await.unwrap();
        assert_nothing_left(&host);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_a_wrong_key_opens_nothing_and_is_not_shown() {
    let mut target = Target::start(1);
    target.add(1, &uuid(1), 32 << 20);
    target.allow(HOST_NQN, HOST_KEY, CONTROLLER_KEY);
    let host = host();
    for (host_key, controller_key) in [
        (None, None),
        (Some(OTHER_KEY), None),
        (Some(HOST_KEY), Some(OTHER_KEY)),
        (Some("DHHC-1:00:no key"), None),
    ] {
        let refused = host.stage(&volume(host_key, controller_key)).await;
        let text = refused.unwrap_err().to_string();
        assert!(
            !text.contains("DHHC-1:00:no") && text.contains("key"),
            "{text}"
        );
        for key in [host_key, controller_key].into_iter().flatten() {
            assert!(!text.contains(key) && !host.kept().contains(key));
        }
        assert_nothing_left(&host);
    }
    assert!(
        std::fs::read(target.file(1))
            .unwrap()
            .iter()
            .all(|it| *it == 0)
    );
}
