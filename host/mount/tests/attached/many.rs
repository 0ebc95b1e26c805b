//! Many volumes of one host at a time.

use crate::host::{Host, Volume};
use std::fs;
use std::sync::Arc;
use wasmount_core::mounter::MountError;

/// How many there are in a default run, and how many in a thorough one: as many as Kubernetes lets a node have pods, nearly (kubelet's `maxPods`, 110).
const VOLUMES: [u32; 2] = [20, 100];
/// How many calls kubelet makes at a time.
const AT_ONCE: usize = 8;

/// The number of volumes of this run.
pub(crate) fn volumes() -> u32 {
    VOLUMES[usize::from(crate::is_thorough())]
}

/// Stages all of them, and checks that each is its own.
pub(crate) async fn stage<V: Volume + Clone + Send + Sync + 'static>(
    host: &Arc<Host>,
    volumes: &[V],
) {
    each(host, volumes, true).await;
    for volume in volumes {
        let mut file = fs::File::create_new(host.staging(volume).join("name")).unwrap();
        std::io::Write::write_all(&mut file, volume.name().as_bytes()).unwrap();
        file.sync_all().unwrap();
    }
    for volume in volumes {
        let name = fs::read_to_string(host.staging(volume).join("name"));
        assert_eq!(name.unwrap(), volume.name());
    }
}

/// Unstages all of them.
pub(crate) async fn unstage<V: Volume + Clone + Send + Sync + 'static>(
    host: &Arc<Host>,
    volumes: &[V],
) {
    each(host, volumes, false).await;
}

async fn each<V: Volume + Clone + Send + Sync + 'static>(
    host: &Arc<Host>,
    volumes: &[V],
    is_staged: bool,
) {
    let mut volumes = volumes.iter();
    let mut calls = tokio::task::JoinSet::new();
    loop {
        while calls.len() < AT_ONCE
            && let Some(volume) = volumes.next()
        {
            let (host, volume) = (host.clone(), volume.clone());
            calls.spawn(async move {
                match is_staged {
                    true => host.stage(&volume).await,
                    false => host.unstage(&volume).await,
                }
            });
        }
        let Some(ended) = calls.join_next().await else {
            return;
        };
        let answer: Result<(), MountError> = ended.unwrap();
        answer.unwrap();
    }
}
