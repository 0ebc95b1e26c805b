//! Only the controller that works logs in at an array: a session of each that stands by could use up those that the array has.

use crate::controllers::replicas::Replicas;
use std::fs;
use tonic::Code;
use wasmount_tests::array::{Array, ArrayOptions};
use wasmount_tests::documents;
use wasmount_tests::fault_proxy::{FaultProxy, FaultRate};
use wasmount_tests::orchestrator::{VOLUME_BYTES, code};
use wasmount_tests::requests;

/// Every request passes: the proxies only tell the controllers apart.
const NO_FAULTS: FaultRate = FaultRate { of: 0, seed: 0 };

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_standby_of_a_real_api_server_logs_in_late() {
    let array = Array::start(ArrayOptions::default()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (mut ways, mut backends) = (Vec::new(), Vec::new());
    for name in ["first", "second"] {
        let way = FaultProxy::start(array.address(), NO_FAULTS).await.unwrap();
        let own = folder.path().join(name);
        fs::create_dir(&own).unwrap();
        backends.push(documents::array_at(&own, way.address()).unwrap());
        ways.push(way);
    }
    let backends = backends.try_into().unwrap();
    let mut replicas = Replicas::of(folder, backends).await;
    let leader = replicas.leader().await;
    let next = 1 - leader;
    let working = replicas.controllers[leader].orchestrator().await.unwrap();
    let request = || requests::create("pvc", VOLUME_BYTES);
    let (id, _) = working.create(request()).await.unwrap();
    assert_eq!(array.counts().logins, 1);

    // It is admitted, it answers, and it has not asked the array anything.
    replicas.stands_by(next).await;
    let standby = replicas.controllers[next].orchestrator().await.unwrap();
    assert_eq!(code(&standby.create(request()).await), Code::Unavailable);
    assert_eq!(code(&standby.delete(&id).await), Code::Unavailable);
    assert_eq!(ways[next].connections().accepted, 0);
    let counts = array.counts();
    assert_eq!((counts.logins, counts.sessions, counts.created), (1, 1, 1));

    // The old session ends with its leader.
    assert!(replicas.controllers[leader].terminate().unwrap().success());
    assert_eq!(array.counts().sessions, 0);
    replicas.works(next).await;
    let standby = replicas.controllers[next].orchestrator().await.unwrap();
    let (again, _) = standby.create(request()).await.unwrap();
    assert_eq!(again, id);
    let counts = array.counts();
    assert_eq!((counts.logins, counts.sessions, counts.created), (2, 1, 1));
    standby.delete(&id).await.unwrap();
    let counts = array.counts();
    assert_eq!((counts.logins, counts.volumes.len()), (2, 0));
}
