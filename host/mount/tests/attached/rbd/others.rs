//! Images and maps of others: what has another identity is never written to, and what others mapped stays.

use super::cluster::{Cluster, Image, assert_nothing_left, host, host_of, mapped};
use std::fs;
use wasmount_core::mounter::MountError;

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_another_image_of_ceph_is_not_touched() {
    let cluster = Cluster::start();
    let host = host();
    let before = cluster.create("replaced");
    cluster.remove("replaced");
    let image = cluster.create("replaced");
    let refused = host.stage(&before).await.unwrap_err();
    assert!(matches!(refused, MountError::Unusable(_)), "{refused}");
    assert!(refused.to_string().contains(&image.id), "{refused}");
    assert_nothing_left(&host);
    assert!(cluster.content("replaced").iter().all(|byte| *byte == 0));
    // The one that is meant.
    host.stage(&image).await.unwrap();
    host.unstage(&image).await.unwrap();
    assert_nothing_left(&host);
    cluster.remove("replaced");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_an_image_of_ceph_needs_name_and_key() {
    let cluster = Cluster::start();
    let host = host();
    let image = cluster.create("named");
    let missing = Image {
        name: "missing".to_owned(),
        ..image.clone()
    };
    let refused = host.stage(&missing).await.unwrap_err();
    assert!(matches!(refused, MountError::NotFound(_)), "{refused}");
    let other_key = cluster.ceph.key_of("client.admin").unwrap();
    let keyless = Image {
        key: other_key.clone(),
        ..image
    };
    let refused = host.stage(&keyless).await.unwrap_err();
    assert!(
        refused.to_string().contains("Ceph refuses its user"),
        "{refused}"
    );
    assert!(!refused.to_string().contains(&other_key));
    assert_nothing_left(&host);
    cluster.remove("named");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_kernel_an_image_of_ceph_of_others_stays_mapped() {
    let cluster = Cluster::start();
    let (host, other) = (host(), host_of("other.test"));
    let image = cluster.create("of-others");
    other.stage(&image).await.unwrap();
    fs::write(other.staging(&image).join("file"), "of other").unwrap();
    let refused = host.stage(&image).await.unwrap_err();
    assert!(matches!(refused, MountError::InUse(_)), "{refused}");
    host.recover().await;
    assert_eq!(mapped().len(), 1);
    let content = fs::read_to_string(other.staging(&image).join("file"));
    assert_eq!(content.unwrap(), "of other");
    other.unstage(&image).await.unwrap();
    assert_nothing_left(&other);
    assert_nothing_left(&host);
    cluster.remove("of-others");
}
