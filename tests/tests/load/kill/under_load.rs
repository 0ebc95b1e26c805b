//! The host is killed at random moments while eight orchestrators live whole lives of volumes of every kind side by side.

use crate::kill::step::{
    Life, Step, assert_all_or_nothing, assert_deleted, assert_no_volumes, begin, options,
};
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tonic::{Code, Status};
use wasmount_tests::host::Host;
use wasmount_tests::kinds::Kind;
use wasmount_tests::leaks::{hostpath_pool, left_behind};
use wasmount_tests::orchestrator::{Orchestrator, patiently};
use wasmount_tests::rounds::rounds;
use wasmount_tests::seed::seeded;

/// Times that it is killed.
const ROUNDS: usize = 200;

/// Lives side by side.
const AT_ONCE: usize = 8;

/// Longest time until the kill, in milliseconds: some whole lives of directories, one of an image.
const LONGEST_ROUND: u64 = 400;

/// A life that the kill has cut off.
#[derive(Debug, Clone)]
struct CutOff {
    life: Life,
    /// The step that was not answered.
    step: Step,
    /// Ids of the lives before it: their deletion was answered.
    deleted: Vec<String>,
}

/// Lives one volume after the other until a call fails, each of another kind; gives the one that was cut off.
async fn live(pool: PathBuf, orchestrator: Orchestrator, lane: usize, name: String) -> CutOff {
    let mut deleted = Vec::new();
    for (number, kind) in Kind::ALL.into_iter().cycle().skip(lane).enumerate() {
        let name = format!("{name}-{number}");
        let mut life = Life::new(kind, name, pool.clone(), &orchestrator);
        for step in Step::ALL {
            if step.call(&orchestrator, &mut life).await.is_err() {
                return CutOff {
                    life,
                    step,
                    deleted,
                };
            }
        }
        deleted.push(life.volume.id);
    }
    unreachable!("the host is killed at last")
}

/// Lives a life to its end, from where it was cut off: what is there is used once more before it is deleted.
async fn end(orchestrator: &Orchestrator, life: &mut Life, step: Step) -> Result<(), Status> {
    // Unavailable: the disk of a loaded machine may stall for longer than the host waits.
    let busy = &[Code::Aborted, Code::Unavailable];
    // Of a create that was not answered only the name is known: asked again, it tells the id.
    if step == Step::Create {
        let request = life.kind.create(&life.name);
        let created = patiently(busy, || orchestrator.create(request.clone())).await?;
        life.volume.id = created.0;
    }
    if step != Step::Delete {
        patiently(busy, || life.kind.set_up(orchestrator, &life.volume)).await?;
        life.assert_content(&life.volume.target);
    }
    orchestrator.tear_down_beside_others(&life.volume).await
}

#[tokio::test]
async fn privileged_kill_9_under_load_loses_nothing_that_was_answered() {
    begin();
    let mut host = Host::start(options()).unwrap();
    let pool = hostpath_pool(&host);
    let (mut deletions, mut random) = (0, seeded().unwrap());
    for round in 0..rounds(ROUNDS) {
        let mut lives = JoinSet::new();
        for lane in 0..AT_ONCE {
            let orchestrator = host.orchestrator().await.unwrap();
            let name = format!("pvc-{round}-{lane}");
            lives.spawn(live(pool.clone(), orchestrator, round + lane, name));
        }
        let time = Duration::from_millis(random.u64(..LONGEST_ROUND));
        sleep(time).await;
        host.kill_9().unwrap();
        let cut_off = lives.join_all().await;
        host.restart().unwrap();
        let orchestrator = host.orchestrator().await.unwrap();
        let mut ends = JoinSet::new();
        for cut_off in cut_off {
            let CutOff {
                mut life,
                step,
                deleted,
            } = cut_off;
            deletions += deleted.len();
            assert_deleted(&orchestrator, &deleted).await;
            assert_all_or_nothing(&host, &orchestrator, &life, step).await;
            let orchestrator = orchestrator.clone();
            ends.spawn(async move {
                let ended = end(&orchestrator, &mut life, step).await;
                ended.unwrap_or_else(|status| panic!("{step:?} of {life:?}: {status:?}"));
            });
        }
        ends.join_all().await;
        let left = left_behind(&host, &pool).unwrap();
        assert!(left.is_empty(), "killed after {time:?}: {left:#?}");
        assert_no_volumes(&orchestrator).await;
    }
    assert!(deletions > 0, "no volume was deleted before a kill");
    // What the last round answered is on the disk too.
    host.kill_9().unwrap();
    host.restart().unwrap();
    assert_no_volumes(&host.orchestrator().await.unwrap()).await;
}
