//! Volumes of storage systems on the network, by the classes, sidecars and rights that are printed for their drivers: of an array with a REST API,
//! and of Cinder with Keystone. The system holds what the claims say, the host logs in once, and at the end nothing is left there.

use crate::copies;
use crate::growth::{self, MEBIBYTE};
use crate::life;
use crate::stage::Outcome;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::{Value, json};
use wasmount_tests::array::{Array, ArrayOptions};
use wasmount_tests::cinder::{Account, AccountOptions, Cinder};
use wasmount_tests::cluster::networked::{ARRAY, CINDER, Networked};
use wasmount_tests::cluster::objects::{self, Claim, Volume};
use wasmount_tests::cluster::scene::Scene;
use wasmount_tests::cluster::wait::{self, NotYet};
use xtask::cluster::access::NODE_NAME;
use xtask::failure::Failure;

/// Capacity of the array, in bytes: enough for the claims that must fit, and less than [`TOO_LARGE`].
const ARRAY_BYTES: u64 = 256 << 20;
const TOO_LARGE: &str = "1Gi";

/// A login at Keystone.
const LOGIN: &str = "POST /v3/auth/tokens";

/// A class of Cinder whose file system grows in use also without CAP_SYS_RESOURCE.
const XFS: &str = "cinder-xfs";

/// A class of Cinder, and its volume type, which Cinder does not have.
const UNKNOWN: &str = "cinder-unknown";
const UNKNOWN_TYPE: &str = "no-such-type";

/// A size of Cinder's volumes, which are whole GiB, and the next one.
const GIB: (&str, u64) = ("1Gi", 1024 * MEBIBYTE);
const TWO_GIB: (&str, u64) = ("2Gi", 2048 * MEBIBYTE);

pub(crate) async fn privileged_volumes_of_an_array_live_and_leave_nothing(scene: Scene) -> Outcome {
    let options = ArrayOptions {
        total_bytes: ARRAY_BYTES,
        hosts: vec![NODE_NAME.to_owned()],
        ..ArrayOptions::default()
    };
    let array = Array::start(options).await?;
    let backend = Networked::array(&scene, &array).await?;
    let class = ARRAY.instance();
    let small = Claim::new("data", class, "16Mi");
    scene.claim(&small).await?;
    scene.pod("writer", &[Volume::Claim("data")]).await?;
    let script = "stat -f -c %T /data; echo kept > /data/file; cat /data/file";
    assert_eq!(scene.shell("writer", script).await?, "tmpfs\nkept\n");
    assert_eq!(growth::size(&scene, "writer").await?, 16 * MEBIBYTE);
    let metadata = life::attached(&scene, "data", ARRAY.name).await?;
    assert_eq!(metadata["bytes"], (16_u64 << 20).to_string());
    let id = scene.volume_of("data").await?.spec.unwrap().csi.unwrap();
    let attached = [(id.volume_handle, NODE_NAME.to_owned())];
    assert_eq!(array.counts().attachments, attached);

    copies::snapshot(&scene, class).await?;
    copies::restored(&scene, small).await?;
    is_refused(
        &scene,
        class,
        TOO_LARGE,
        &["ResourceExhausted", "the pool is full"],
    )
    .await?;
    // The array grows a volume in use; the node sees it when it attaches it again.
    scene.grow("data", "32Mi").await?;
    growth::has_capacity(&scene, "32Mi").await?;
    scene.delete::<Pod>("writer").await?;
    life::detached(&scene, "data").await?;
    scene.pod("second", &[Volume::Claim("data")]).await?;
    assert_eq!(growth::size(&scene, "second").await?, 32 * MEBIBYTE);

    let held = array.counts();
    let there = [held.volumes, held.snapshots].map(|it| it.len());
    assert_eq!((there, held.attachments.len()), ([2, 1], 2));
    scene.end().await?;
    let left = array.counts();
    assert_eq!([left.volumes, left.snapshots], [[""; 0]; 2]);
    assert_eq!(left.attachments, []);
    assert_eq!((left.created, left.logins, left.sessions), (2, 1, 1));
    backend.end()?;
    assert_eq!(array.counts().sessions, 0);
    Ok(())
}

pub(crate) async fn privileged_volumes_of_cinder_live_and_leave_nothing(scene: Scene) -> Outcome {
    let cinder = Cinder::start()?;
    let account = cinder.account(AccountOptions::default())?;
    let backend = Networked::cinder(&scene, &cinder, &account).await?;
    let printed = CINDER.instance();
    for (name, parameters) in [(XFS, json!({})), (UNKNOWN, json!({ "type": UNKNOWN_TYPE }))] {
        let class = objects::storage_class(name, CINDER.name, "xfs", &parameters);
        scene.apply(class).await?;
    }
    let copied = scene.beside("cinder-snapshots").await?;
    let cloned = scene.beside("cinder-clones").await?;
    let grown = scene.beside("cinder-growth").await?;
    tokio::try_join!(
        copies::is_restored(&copied, Claim::new("data", printed, GIB.0), printed),
        copies::is_cloned(&cloned, Claim::new("data", XFS, GIB.0)),
        growth::grows_online(&grown, XFS, [GIB, TWO_GIB]),
    )?;
    // In each of the three one volume, and two copies.
    let kinds = ["volumes", "snapshots", "attachments"];
    let held = in_cinder(&account)?.map(|it| it.len());
    assert_eq!(held, [5, 1, 5]);
    let created = kinds.map(|kind| backend.answered(&format!("POST /v3/{kind}")));
    assert_eq!(created, held);
    is_refused(&scene, UNKNOWN, GIB.0, &["InvalidArgument", UNKNOWN_TYPE]).await?;

    tokio::try_join!(copied.end(), cloned.end(), grown.end(), scene.end())?;
    assert_eq!(in_cinder(&account)?, [[""; 0]; 3]);
    assert_eq!(backend.answered(LOGIN), 1);
    backend.end()
}

/// Waits until the events of a claim, which a pod waits for, say why there is no volume for it.
async fn is_refused(
    scene: &Scene,
    class: &'static str,
    size: &'static str,
    words: &[&str],
) -> Outcome {
    scene.claim(&Claim::new("refused", class, size)).await?;
    let volumes = [Volume::Claim("refused")];
    scene.pod_with("waits", &volumes, &Value::Null).await?;
    scene
        .wait("an event of the claim tells of the refusal", async || {
            let events = wait::events(&scene.client(), scene.namespace()).await;
            let mut lines = events.lines();
            let subject = "ProvisioningFailed PersistentVolumeClaim/refused";
            let says =
                |it: &&str| it.contains(subject) && words.iter().all(|word| it.contains(word));
            match lines.find(says) {
                Some(_) => Ok(()),
                None => Err(NotYet(events)),
            }
        })
        .await?;
    scene.delete::<Pod>("waits").await?;
    scene.delete::<PersistentVolumeClaim>("refused").await
}

/// Names of its volumes, snapshots and attachments.
fn in_cinder(account: &Account) -> Result<[Vec<String>; 3], Failure> {
    let token = account.log_in()?;
    let names = |kind| account.names(&token, kind);
    Ok([
        names("volumes")?,
        names("snapshots")?,
        names("attachments")?,
    ])
}
