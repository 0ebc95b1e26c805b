//! Where kubelets live, many drivers beside one, and hosts without registration.

use crate::kubelet::process::{Kubelet, node_id};
use crate::kubelet::scene::{READY, Scene};
use std::fs;

#[tokio::test(flavor = "multi_thread")]
async fn privileged_distribution_kubelet_directories_are_supported() {
    // MicroK8s has the longest; k3s has kubeadm's.
    for root in [
        "var/snap/microk8s/common/var/lib/kubelet",
        "var/lib/k0s/kubelet",
        "var/lib/kubelet",
    ] {
        let scene = Scene::of(&["a.b"], root);
        let kubelet = Kubelet::start(scene.kubelet());
        let mut host = scene.host("host", &[]);
        kubelet.takes("a.b").await;
        host.is_ready();
        assert!(host.terminate().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_many_drivers_are_registered_side_by_side() {
    let drivers = ["a.b", "c.d", "e.f", "g.h", "i.j"];
    let scene = Scene::of(&drivers, "kubelet");
    let kubelet = Kubelet::start(scene.kubelet());
    let mut host = scene.host("host", &[]);
    for driver in drivers {
        kubelet.takes(driver).await;
        let endpoint = scene.endpoint(driver).display().to_string();
        assert_eq!(kubelet.endpoint(driver), Some(endpoint));
    }
    let ready = drivers.map(|driver| format!("{driver}: ok\n")).concat();
    host.health.becomes("/readyz", "200", &ready).unwrap();
    assert!(host.terminate().success());
    for driver in drivers {
        kubelet.loses(driver).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_without_kubelet_nothing_is_registered() {
    let scene = Scene::new();
    let mut host = scene.host("host", &["--registration", "auto"]);
    host.serves();
    host.is_ready();
    assert!(!scene.kubelet().join("plugins_registry").exists());
    assert!(host.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_with_registration_off_kubelet_is_untouched() {
    let scene = Scene::new();
    let registry = scene.kubelet().join("plugins_registry");
    fs::create_dir(&registry).unwrap();
    // What another registrar has left is not the host's to repair.
    let left = registry.join("a.b@reg.sock");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
    let mut host = scene.host("host", &["--registration", "off"]);
    host.health.becomes("/readyz/a.b", "200", READY).unwrap();
    assert!(left.exists());
    // What node-driver-registrar and kubelet ask of the CSI socket.
    assert_eq!(
        node_id(&scene.endpoint("a.b")).await.as_deref(),
        Ok("test-node")
    );
    assert!(host.terminate().success());
    let names: Vec<_> = fs::read_dir(&registry).unwrap().collect();
    assert_eq!(names.len(), 1);
}
