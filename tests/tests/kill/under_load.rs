//! The host is killed at random moments while eight orchestrators live whole lives of volumes side by side.

use crate::step::{CONTENT, Step, assert_all_or_nothing};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tonic::Code;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::{directory_pool, left_behind};
use wasmount_tests::orchestrator::{Orchestrator, Volume, patiently};
use wasmount_tests::root::needs_root;

/// Times that it is killed.
const ROUNDS: usize = 20;

/// Lives side by side.
const AT_ONCE: usize = 8;

/// Longest time until the kill, in milliseconds: some whole lives.
const LONGEST_ROUND: u64 = 300;

/// A life that the kill has cut off.
#[derive(Debug, Clone)]
struct CutOff {
    name: String,
    volume: Volume,
    /// The step that was not answered.
    step: Step,
}

/// Lives one volume after the other until a call fails; gives the one that was cut off.
async fn live(pool: PathBuf, orchestrator: Orchestrator, name: String) -> CutOff {
    for number in 0_usize.. {
        let name = format!("{name}-{number}");
        let mut volume = orchestrator.place(&name, String::new()).unwrap();
        for step in Step::ALL {
            if step.call(&orchestrator, &name, &mut volume).await.is_err() {
                return CutOff { name, volume, step };
            }
            if step == Step::Create {
                fs::write(pool.join(&volume.id).join("data"), CONTENT).unwrap();
            }
        }
    }
    unreachable!("the host is killed at last")
}

fn random_time() -> Duration {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
    Duration::from_millis(u64::from_le_bytes(bytes) % LONGEST_ROUND)
}

async fn assert_recovered(host: &Host, orchestrator: &Orchestrator, cut_off: &CutOff) {
    let CutOff { name, volume, step } = cut_off;
    assert_all_or_nothing(host, orchestrator, volume, *step).await;
    // Of a create that was not answered only the name is known: asked again, it tells the id.
    let volume = patiently(&[Code::Aborted], || {
        let (orchestrator, name) = (orchestrator.clone(), name.clone());
        let mut volume = volume.clone();
        async move {
            if volume.id.is_empty() {
                Step::Create.call(&orchestrator, &name, &mut volume).await?;
            }
            Ok(volume)
        }
    });
    let volume = volume.await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
}

#[tokio::test]
async fn privileged_kill_9_under_load_loses_nothing_that_was_answered() {
    needs_root();
    let mut host = Host::start(HostOptions::default()).unwrap();
    let pool = directory_pool(&host);
    for round in 0..ROUNDS {
        let mut lives = JoinSet::new();
        for number in 0..AT_ONCE {
            let orchestrator = host.orchestrator().await.unwrap();
            let name = format!("pvc-{round}-{number}");
            lives.spawn(live(pool.clone(), orchestrator, name));
        }
        let time = random_time();
        sleep(time).await;
        host.kill_9().unwrap();
        let cut_off = lives.join_all().await;
        host.restart().unwrap();
        let orchestrator = host.orchestrator().await.unwrap();
        for life in &cut_off {
            assert_recovered(&host, &orchestrator, life).await;
        }
        let left = left_behind(&host, &pool).unwrap();
        assert!(left.is_empty(), "killed after {time:?}: {left:#?}");
    }
}
