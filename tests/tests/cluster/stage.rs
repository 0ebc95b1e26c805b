//! How the tests of this program are run: one cluster, started for the first and ended after the last, a scene for each test, and the question what
//! it left.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use libtest_mimic::{Arguments, Failed, Trial};
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
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

/// Whether a test can run while others do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    BesideOthers,
    Alone,
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
    /// How long each test took once it was its turn, which libtest-mimic does not tell.
    times: Arc<Mutex<Vec<(Duration, &'static str)>>>,
    runtime: Handle,
}

impl Stage {
    /// Nothing runs yet.
    pub(crate) fn new(runtime: Handle) -> Self {
        Self {
            lab: Arc::default(),
            times: Arc::default(),
            runtime,
        }
    }

    /// Runs those that are asked for. Without any, no cluster is started.
    pub(crate) fn play(self, arguments: &Arguments, tests: Vec<Test>) -> ExitCode {
        let trial = |test: Test| {
            let stage = self.clone();
            Trial::test(test.name, move || stage.act(test))
        };
        let trials: Vec<_> = tests.into_iter().map(trial).collect();
        let is_asked_for = |trial| !arguments.list && !arguments.is_filtered_out(trial);
        if trials.iter().any(is_asked_for) {
            needs_root();
            match self.runtime.block_on(Lab::start()) {
                Ok(lab) => self.lab.set(Arc::new(lab)).unwrap(),
                Err(failure) => panic!("no cluster: {failure}"),
            }
        }
        let conclusion = libtest_mimic::run(arguments, trials);
        self.tell_times();
        if let Some(lab) = Arc::into_inner(self.lab).and_then(OnceLock::into_inner) {
            Arc::into_inner(lab).unwrap().end().unwrap();
        }
        conclusion.exit_code()
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
            let _turn = match test.turn {
                Turn::BesideOthers => lab.beside_others().await,
                Turn::Alone => lab.alone().await,
            };
            let start = Instant::now();
            let scene = Scene::begin(lab.clone(), &namespace(test.name)).await?;
            // A panic ends the scene too.
            let played = AssertUnwindSafe((test.body)(scene.clone())).catch_unwind();
            let outcome = match played.await {
                Ok(Ok(())) => end(&scene).await.map_err(|failure| failure.to_string()),
                Ok(Err(failure)) => Err(failure.to_string()),
                Err(panic) => Err(words(&*panic)),
            };
            let time = (start.elapsed(), test.name);
            self.times.lock().unwrap().push(time);
            let Err(words) = outcome else { return Ok(()) };
            let healed = lab.heal();
            let events = wait::events(&lab.client(), scene.namespace()).await;
            // Others must not wait behind it.
            let abandoned = scene.abandon().await;
            Err(Failed::from(format!(
                "{words}\n{events}{healed:?} {abandoned:?}\n{}",
                tail(&lab.host_log())
            )))
        })
    }
}

/// Nothing may be left, and Kubernetes must know the drivers as they are.
async fn end(scene: &Scene) -> Outcome {
    scene.end().await?;
    scene.lab().registered().await
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
