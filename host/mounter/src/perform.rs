//! What each request asks of a `Mounter`, and what it works on.

use crate::protocol::{Answer, Reply, Request};
use crate::under_way::Subject;
use wasmount_core::mounter::{Mounter, VolumeKey};
use wasmount_core::names::{DriverName, NodePath};
use wasmount_core::pool::PoolCall;

/// Makes the call.
pub(crate) async fn perform(mounter: &dyn Mounter, request: Request) -> Reply {
    match request {
        Request::Staged(query) => mounter.staged(query).await.map(Answer::Staged),
        Request::Stage(request) => mounter.stage(request).await.map(done),
        Request::Notes(key) => mounter.notes(key).await.map(Answer::Notes),
        Request::Unstage(request) => mounter.unstage(request).await.map(done),
        Request::Publish(request) => mounter.publish(request).await.map(done),
        Request::Unpublish(request) => mounter.unpublish(request).await.map(done),
        Request::Stats(request) => mounter.stats(request).await.map(Answer::Stats),
        Request::Health(query) => mounter.health(query).await.map(Answer::Health),
        Request::Expand(request) => mounter.expand(request).await.map(Answer::Expanded),
        Request::Unsettled(driver) => mounter.unsettled(driver).await.map(Answer::Unsettled),
        Request::UnsharedRoots => mounter.unshared_roots().await.map(Answer::UnsharedRoots),
        Request::Recover(key) => mounter.recover(key).await.map(done),
        Request::Pool(driver, call) => mounter.pool(driver, call).await.map(Answer::Pool),
        Request::VolumesInUse(driver) => {
            let volumes = mounter.volumes_in_use(driver).await;
            volumes.map(Answer::VolumesInUse)
        }
    }
}

fn done((): ()) -> Answer {
    Answer::Done
}

/// What a call works on, for those whose callers hold claims. What only reads works on nothing, but for the answers that the next change
/// is decided by.
pub(crate) fn subjects(request: &Request) -> Vec<Subject> {
    match request {
        Request::Staged(query) => vec![volume(&query.key)],
        Request::Stage(request) => vec![volume(&request.key), path(&request.staging_path)],
        Request::Notes(key) | Request::Recover(key) => vec![volume(key)],
        Request::Unstage(request) => vec![volume(&request.key), path(&request.staging_path)],
        Request::Publish(request) => vec![volume(&request.key), path(&request.target_path)],
        Request::Unpublish(request) => vec![volume(&request.key), path(&request.target_path)],
        Request::Expand(request) => vec![volume(&request.key)],
        Request::Pool(driver, call) => entries(driver, call),
        Request::Stats(_)
        | Request::Health(_)
        | Request::Unsettled(_)
        | Request::UnsharedRoots
        | Request::VolumesInUse(_) => Vec::new(),
    }
}

fn volume(key: &VolumeKey) -> Subject {
    Subject::Volume(key.clone())
}

fn path(path: &NodePath) -> Subject {
    Subject::Path(path.clone())
}

/// The entries of a pool that a call changes, or reads while it makes another.
fn entries(driver: &DriverName, call: &PoolCall) -> Vec<Subject> {
    let entry = |pool: &str, path: &str| Subject::entry(driver.clone(), pool, path);
    match call {
        PoolCall::CreateDirectory { pool, path }
        | PoolCall::RemoveDirectory { pool, path }
        | PoolCall::CreateImage { pool, path, .. }
        | PoolCall::ResizeImage { pool, path, .. }
        | PoolCall::RemoveImage { pool, path }
        | PoolCall::SetPermissions { pool, path, .. }
        | PoolCall::SetQuota { pool, path, .. } => vec![entry(pool, path)],
        PoolCall::CloneImage {
            pool,
            source,
            target,
        }
        | PoolCall::CloneDirectory {
            pool,
            source,
            target,
        }
        | PoolCall::Rename {
            pool,
            source,
            target,
        } => vec![entry(pool, source), entry(pool, target)],
        PoolCall::CloneImages { pool, copies } => copies
            .iter()
            .flat_map(|(source, target)| [entry(pool, source), entry(pool, target)])
            .collect(),
        PoolCall::Names
        | PoolCall::Capacity { .. }
        | PoolCall::Stat { .. }
        | PoolCall::List { .. }
        | PoolCall::AllocatedExtents { .. }
        | PoolCall::ChangedExtents { .. } => Vec::new(),
    }
}
