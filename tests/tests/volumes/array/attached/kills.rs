//! Host and mounter, two processes as deployed, of which one is killed at a random moment of each call of a volume's life. The calls are repeated as
//! kubelet and the sidecars do; then node and array are free.

use super::{BYTES, LOOK, NODE, Playground, SOON, iscsi, nvme};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tonic::Status;
use wasmount_tests::array::Protocol;
use wasmount_tests::host::HostOptions;
use wasmount_tests::orchestrator::{Orchestrator, Volume};
use wasmount_tests::requests;
use wasmount_tests::rounds::rounds;

/// Repeats a run: the seed that it printed.
const SEED: &str = "WASMOUNT_TEST_SEED";

/// The seed of a run without the variable.
const DEFAULT_SEED: u64 = 1;

/// Lives of a thorough run, each with a kill in each of its calls.
const LIVES: usize = 30;

/// A host without any capability besides being root's, and a mounter that has the rights.
const ROOT: u32 = 0;

/// What a pod writes.
const CONTENT: &str = "kept";

/// A call of the life, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Create,
    Attach,
    Stage,
    Publish,
    Unpublish,
    Unstage,
    Detach,
    Delete,
}

/// A process that is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Host,
    Mounter,
}

/// A volume, as far as its clients know it.
struct Life {
    name: String,
    /// Its id is empty until the driver has said it.
    volume: Volume,
    publish_context: BTreeMap<String, String>,
    is_written: bool,
}

/// A host and a mounter that are killed again and again.
struct Killed {
    playground: Playground,
    orchestrator: Orchestrator,
    random: Rng,
    lives: usize,
    /// How long each call takes if nobody is killed.
    times: BTreeMap<Step, Duration>,
    /// Calls that a kill has cut off.
    cut_off: BTreeMap<Victim, usize>,
}

impl Step {
    const ALL: [Step; 8] = [
        Step::Create,
        Step::Attach,
        Step::Stage,
        Step::Publish,
        Step::Unpublish,
        Step::Unstage,
        Step::Detach,
        Step::Delete,
    ];

    async fn call(self, orchestrator: &Orchestrator, life: &mut Life) -> Result<(), Status> {
        let volume = &mut life.volume;
        match self {
            Self::Create => {
                let request = requests::create(&life.name, BYTES);
                volume.id = orchestrator.create(request).await?.0;
                Ok(())
            }
            Self::Attach => {
                life.publish_context = orchestrator.attach(&volume.id, NODE).await?;
                Ok(())
            }
            Self::Stage => {
                let mut stage = requests::stage(&volume.id, &volume.staging);
                stage.publish_context = life.publish_context.clone();
                orchestrator.stage_as(stage).await
            }
            Self::Publish => {
                let mut publish = requests::publish(&volume.id, &volume.staging, &volume.target);
                publish.publish_context = life.publish_context.clone();
                orchestrator.publish_as(publish).await
            }
            Self::Unpublish => orchestrator.unpublish(volume).await,
            Self::Unstage => orchestrator.unstage(volume).await,
            Self::Detach => orchestrator.detach(&volume.id, NODE).await,
            Self::Delete => orchestrator.delete(&volume.id).await,
        }
    }

    /// Whether the mounter works for it.
    fn is_of_node(self) -> bool {
        (Self::Stage..=Self::Unstage).contains(&self)
    }
}

impl Killed {
    async fn start(protocol: Protocol) -> Self {
        let seed = std::env::var(SEED).map_or(DEFAULT_SEED, |it| it.parse().unwrap());
        say(&format!("{SEED}={seed}"));
        let options = HostOptions {
            split: Some(ROOT),
            any_paths: true,
            ..HostOptions::default()
        };
        let playground = Playground::start_at(Ipv4Addr::LOCALHOST.into(), protocol, options).await;
        playground.wait_until_known(NODE);
        Self {
            orchestrator: playground.host.orchestrator().await.unwrap(),
            playground,
            random: Rng::with_seed(seed),
            lives: 0,
            times: BTreeMap::new(),
            cut_off: BTreeMap::new(),
        }
    }

    fn new_life(&mut self) -> Life {
        self.lives += 1;
        let name = format!("pvc-{}", self.lives);
        Life {
            volume: self.orchestrator.place(&name, String::new()).unwrap(),
            name,
            publish_context: BTreeMap::new(),
            is_written: false,
        }
    }

    /// Measures a life without a kill.
    async fn measure(&mut self) {
        let mut life = self.new_life();
        for step in Step::ALL {
            let begin = Instant::now();
            step.call(&self.orchestrator, &mut life).await.unwrap();
            self.times.insert(step, begin.elapsed());
        }
    }

    /// A life in which each call meets a kill. `given_up`: a call that is not repeated, since the pod is deleted meanwhile.
    async fn live(&mut self, first_victim: Victim, given_up: Option<Step>) {
        let (mut life, mut victim) = (self.new_life(), first_victim);
        for step in Step::ALL {
            // After a stage that was given up there is nothing to publish.
            if given_up == Some(Step::Stage) && step == Step::Publish {
                continue;
            }
            let killed = match step.is_of_node() {
                true => victim,
                false => Victim::Host,
            };
            let answer = self.kill_during(step, killed, &mut life).await;
            if answer.is_err() && given_up != Some(step) {
                self.repeat(step, &mut life).await;
            }
            match step {
                Step::Publish if given_up != Some(step) || answer.is_ok() => {
                    life.volume.write(CONTENT).unwrap();
                    life.is_written = true;
                }
                Step::Unstage if life.is_written => self.assert_kept(&life),
                // Another pod is to have the volume: what the stage left half-made is no hindrance.
                Step::Unstage if given_up == Some(Step::Stage) => {
                    self.repeat(Step::Stage, &mut life).await;
                    self.repeat(Step::Unstage, &mut life).await;
                }
                _ => {}
            }
            victim = match victim {
                Victim::Host => Victim::Mounter,
                Victim::Mounter => Victim::Host,
            };
        }
    }

    /// Makes a call, kills a process at a random moment of it, and starts that again.
    async fn kill_during(
        &mut self,
        step: Step,
        victim: Victim,
        life: &mut Life,
    ) -> Result<(), Status> {
        let delay = self.times[&step].mul_f64(self.random.f64());
        let (orchestrator, host) = (self.orchestrator.clone(), &mut self.playground.host);
        let kill = async {
            sleep(delay).await;
            match victim {
                Victim::Host => host.kill_9().unwrap(),
                Victim::Mounter => host.mounting().unwrap().process.kill_9().unwrap(),
            }
        };
        let (answer, _) = tokio::join!(step.call(&orchestrator, life), kill);
        say(&format!(
            "{}: {victim:?} killed {delay:?} after the begin of {step:?}: {answer:?}",
            life.name
        ));
        match victim {
            Victim::Host => {
                self.playground.kills += 1;
                host.restart().unwrap();
                self.orchestrator = host.orchestrator().await.unwrap();
            }
            Victim::Mounter => host.mounting().unwrap().restart().unwrap(),
        }
        *self.cut_off.entry(victim).or_default() += usize::from(answer.is_err());
        answer
    }

    /// As kubelet and the sidecars do after every error.
    async fn repeat(&self, step: Step, life: &mut Life) {
        let begin = Instant::now();
        while let Err(status) = step.call(&self.orchestrator, life).await {
            assert!(
                begin.elapsed() < SOON,
                "{}, {step:?}: {status:?}",
                life.name
            );
            sleep(LOOK).await;
        }
    }

    /// What the pod wrote is on the array.
    fn assert_kept(&self, life: &Life) {
        let file = self.playground.contents.join(&life.volume.id);
        let mut debugfs = Command::new("debugfs");
        let read = debugfs.args(["-R", "cat /data"]).arg(file).output();
        let read = String::from_utf8(read.unwrap().stdout).unwrap();
        assert_eq!(read, CONTENT, "{}", life.name);
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the test runner captures what a test prints, and shows it when the test fails"
)]
fn say(text: &str) {
    eprintln!("{text}");
}

async fn lives_through_kills(protocol: Protocol) {
    let mut killed = Killed::start(protocol).await;
    // The first one meets cold caches.
    for _ in 0..2 {
        killed.measure().await;
    }
    for round in 0..rounds(LIVES) {
        let (victim, given_up) = match round % 3 {
            0 => (Victim::Host, None),
            1 => (Victim::Mounter, None),
            _ => {
                let steps = [Step::Stage, Step::Publish];
                let victims = [Victim::Host, Victim::Mounter];
                (
                    killed.random.choice(victims).unwrap(),
                    killed.random.choice(steps),
                )
            }
        };
        killed.live(victim, given_up).await;
    }
    for victim in [Victim::Host, Victim::Mounter] {
        let cut_off = killed.cut_off.get(&victim);
        assert!(cut_off.is_some_and(|it| *it > 0), "{:?}", killed.cut_off);
    }
    killed.playground.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_volumes_outlive_each_kill_over_iscsi() {
    lives_through_kills(iscsi()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_other_kernel_volumes_outlive_each_kill_over_nvme() {
    lives_through_kills(nvme()).await;
}
