//! How the tests of this program are run: one cluster, started for the first and ended after the last, a scene for each test, and the question what
//! it left.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use libtest_mimic::{Arguments, Failed, Trial};
use std::any::Any;
use std::collections::BTreeMap;
use std::iter::once;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use wasmount_tests::cluster::drivers::{
    ALL, Driver, FAULTED, FAULTED_HOST, HOST, KILLED, KILLED_HOST, MOUNTER, SPLIT, SPLIT_HOST,
    WHOLE,
};
use wasmount_tests::cluster::lab::Lab;
use wasmount_tests::cluster::scene::Scene;
use wasmount_tests::cluster::wait;
use wasmount_tests::root::needs_root;
use xtask::failure::Failure;
use xtask::say;

/// Of a namespace's name, in characters (RFC 1123).
const LABEL: usize = 63;

/// Lines of the host's log that a failure shows.
const TAIL: usize = 60;

/// What a test gives.
pub(crate) type Outcome = Result<(), Failure>;

/// What a test may disturb, and so when it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
    /// Nothing: it runs beside others.
    BesideOthers,
    /// The host of [`FAULTED`]: beside others, but one such test at a time.
    Faulted,
    /// The host of [`KILLED`]: the same.
    Killed,
    /// The host and the mounter of [`SPLIT`]: the same.
    Split,
    /// The whole cluster: when all of the others have ended.
    Alone,
}

impl Turn {
    /// The drivers that must be registered at the end.
    fn drivers(self) -> &'static [Driver] {
        match self {
            Self::BesideOthers => &WHOLE,
            Self::Faulted => &[FAULTED],
            Self::Killed => &[KILLED],
            Self::Split => &[SPLIT],
            Self::Alone => &ALL,
        }
    }

    /// What it may stop: the host, and other parts.
    fn parts(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::BesideOthers => (HOST, &[]),
            Self::Faulted => (FAULTED_HOST, &[]),
            Self::Killed => (KILLED_HOST, &[]),
            Self::Split => (SPLIT_HOST, &[MOUNTER]),
            Self::Alone => (HOST, &["etcd", "kube-apiserver", "kubelet"]),
        }
    }
}

/// A test of the table.
#[derive(Clone, Copy)]
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) turn: Turn,
    pub(crate) body: fn(Scene) -> LocalBoxFuture<'static, Outcome>,
}

/// Where they play.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    lab: Arc<OnceLock<Arc<Lab>>>,
    /// How many tests of each kind may begin now.
    turns: Arc<BTreeMap<Turn, Semaphore>>,
    /// How long each test took once it was its turn, which libtest-mimic does not tell.
    times: Arc<Mutex<Vec<(Duration, &'static str)>>>,
    runtime: Handle,
}

impl Stage {
    /// Nothing runs yet; so many of the tests that disturb nothing will run at once.
    pub(crate) fn new(runtime: Handle, at_once: usize) -> Self {
        let one_by_one = [Turn::Faulted, Turn::Killed, Turn::Split, Turn::Alone];
        let turns = one_by_one.map(|turn| (turn, 1));
        let turns = turns.into_iter().chain([(Turn::BesideOthers, at_once)]);
        let turns = turns.map(|(turn, count)| (turn, Semaphore::new(count)));
        Self {
            lab: Arc::default(),
            turns: Arc::new(turns.collect()),
            times: Arc::default(),
            runtime,
        }
    }

    /// Runs those that any of the filters asks for, and those that run alone last. Without any, no cluster is started.
    pub(crate) fn play(
        self,
        arguments: &Arguments,
        further_filters: &[String],
        tests: Vec<Test>,
    ) -> ExitCode {
        let further = further_filters.iter().map(|filter| Arguments {
            filter: Some(filter.clone()),
            ..arguments.clone()
        });
        let all: Vec<_> = once(arguments.clone()).chain(further).collect();
        let is_asked_for = |trial: &Trial| all.iter().any(|it| !it.is_filtered_out(trial));
        let trial = |test: Test| {
            let stage = self.clone();
            Trial::test(test.name, move || stage.act(test))
        };
        let (last, first): (Vec<_>, Vec<_>) =
            tests.into_iter().partition(|it| it.turn == Turn::Alone);
        let acts = [first, last].map(|tests| {
            let trials = tests.into_iter().map(trial);
            trials.filter(is_asked_for).collect::<Vec<_>>()
        });
        if !arguments.list && acts.iter().any(|trials| !trials.is_empty()) {
            needs_root();
            match self.runtime.block_on(Lab::start()) {
                Ok(lab) => self.lab.set(Arc::new(lab)).unwrap(),
                Err(failure) => panic!("no cluster: {failure}"),
            }
        }
        // A thread for each, in which most wait for their turns; and one thread for the last ones, in the order of the table.
        let threads = [acts[0].len(), 1];
        let mut has_failed = false;
        for (trials, threads) in acts.into_iter().zip(threads) {
            let arguments = Arguments {
                filter: None,
                test_threads: Some(threads),
                ..arguments.clone()
            };
            has_failed |= libtest_mimic::run(&arguments, trials).has_failed();
        }
        self.tell_times();
        if let Some(lab) = Arc::into_inner(self.lab).and_then(OnceLock::into_inner) {
            Arc::into_inner(lab).unwrap().end().unwrap();
        }
        match has_failed {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        }
    }

    /// The slowest first.
    fn tell_times(&self) {
        let mut times = self.times.lock().unwrap();
        times.sort_unstable();
        for (time, name) in times.iter().rev() {
            // As Rust's test runner shows times: `cargo xtask test` reads them.
            say::line(&format!(
                "test {name} ... took <{:.3}s>",
                time.as_secs_f64()
            ));
        }
    }

    fn act(&self, test: Test) -> Result<(), Failed> {
        let lab = self.lab.get().unwrap().clone();
        self.runtime.block_on(async {
            let _turn = self.turns[&test.turn].acquire().await.unwrap();
            let start = Instant::now();
            let scene = Scene::begin(lab.clone(), &namespace(test.name)).await?;
            // A panic ends the scene too.
            let played = AssertUnwindSafe((test.body)(scene.clone())).catch_unwind();
            let outcome = match played.await {
                Ok(Ok(())) => end(&scene, test.turn)
                    .await
                    .map_err(|failure| failure.to_string()),
                Ok(Err(failure)) => Err(failure.to_string()),
                Err(panic) => Err(words(&*panic)),
            };
            let time = (start.elapsed(), test.name);
            self.times.lock().unwrap().push(time);
            let Err(words) = outcome else { return Ok(()) };
            let (host, others) = test.turn.parts();
            let healed = lab.heal(others).and_then(|()| lab.heal(&[host]));
            let events = wait::events(&lab.client(), scene.namespace()).await;
            // Others must not wait behind it.
            let abandoned = scene.abandon().await;
            Err(Failed::from(format!(
                "{words}\n{events}{healed:?} {abandoned:?}\n{}",
                tail(&lab.log(host))
            )))
        })
    }
}

/// Nothing may be left, and Kubernetes must know the drivers as they are.
async fn end(scene: &Scene, turn: Turn) -> Outcome {
    scene.end().await?;
    scene.lab().registered(turn.drivers()).await
}

/// A name that Kubernetes takes, and that tells whose it is.
fn namespace(test: &str) -> String {
    let name = test.rsplit("privileged_").next().unwrap().replace('_', "-");
    name[..name.len().min(LABEL)]
        .trim_end_matches('-')
        .to_owned()
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without words".to_owned())
}

fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}
