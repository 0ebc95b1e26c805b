//! `cargo xtask demo`: serves plugins/directory with the real host, acts as the container orchestrator on its socket, then prints its findings.
//! This file has the order of steps; each topic has a file in `demo/`.
//!
//! Whatever happens in between (a rejected call, Ctrl-C), the teardown runs, the driver ends and the temporary directory is removed.

mod data;
mod findings;
mod journey;
mod namespace;
mod report;

use crate::clients::Clients;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::packages;
use crate::place::{self, Place};
use crate::plugins;
use crate::say::{self, Tone};
use crate::served::{ServeOptions, Served};
use crate::tools::CSI_SANITY_5_4;
use crate::workspace::Workspace;
use findings::{Findings, inventory};
use journey::Journey;
use std::path::{Path, PathBuf};
use std::thread;

/// The plugin that the demo serves.
const PLUGIN: &str = "directory";

/// Prefix of the demo's temporary directories, so that a later run finds the leftovers of a killed one.
const PREFIX: &str = "wasmount-demo-";

/// Options of `cargo xtask demo`.
#[derive(Debug, clap::Args)]
pub struct DemoOptions {
    /// Leaves the driver serving afterwards, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// All is built already: how the demo calls itself inside a namespace
    #[arg(long, hide = true)]
    prepared: bool,
}

/// Runs the demo.
pub fn run(workspace: &Workspace, options: &DemoOptions) -> Result<(), Failure> {
    if !options.prepared {
        packages::install(packages::DEMO)?;
        say::line("building the plugin and the host (minutes the first time)");
        build(workspace)?;
        namespace::enter(&workspace.own_program(), options)?;
    }
    for leftover in place::sweep(PREFIX) {
        say::line(&format!(
            "removed {}, left by a killed run",
            leftover.display()
        ));
    }
    serve_and_play(workspace, options)
}

/// Side by side: the last step of each build keeps only one processor busy.
fn build(workspace: &Workspace) -> Result<(), Failure> {
    thread::scope(|scope| {
        let plugin = scope.spawn(|| plugins::build_one(workspace, PLUGIN));
        let host = plugins::build_host(workspace);
        let plugin = plugin.join();
        plugin.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        host
    })
}

fn serve_and_play(workspace: &Workspace, options: &DemoOptions) -> Result<(), Failure> {
    // One thread: the kernel signals the driver to end when the thread that started it ends.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::cannot("start the async runtime"))?;
    let mut interrupt = runtime.block_on(async { Interrupt::listen() })?;
    let place = Place::create(PREFIX)?;
    let mut served = Served::start(&ServeOptions {
        program: workspace.host_program(),
        wrapper: Vec::new(),
        backends: vec![workspace.backend_document(PLUGIN)],
        data: place.data(),
        run: place.run(),
        sockets: place.sockets(),
        kubelet: place.kubelet(),
        node_id: "demo-node".to_owned(),
        role: "all".to_owned(),
        health: "off".to_owned(),
        // csi-sanity, which a user may run by hand, chooses paths of its own.
        more: [place.kubelet(), place.paths()]
            .into_iter()
            .flat_map(|root| ["--path-root".into(), root.into()])
            .collect(),
        log: place.log(),
    })?;
    let socket = served.sockets()?.into_iter().next().unwrap_or_default();
    say::line(&format!(
        "serving plugins/{PLUGIN} on {}\n",
        socket.display()
    ));

    let played = runtime.block_on(play(&place, &socket, &mut interrupt));
    if options.keep && played.is_ok() {
        keep(&place, &socket);
        runtime.block_on(interrupt.wait());
        say::line("\nending");
    }
    // Closes our connection, for which the driver would wait. Signals are still handled here: a second Ctrl-C does not disturb the end.
    drop(runtime);
    let ended = served.process.terminate();
    let left = place.remove()?;
    if !left.is_empty() {
        say::line(&format!("unmounted at the end: {}", left.len()));
    }
    let bad = played?;
    ended?;
    if bad > 0 {
        return Err(Failure::Unexpected(format!(
            "{bad} of the demo's findings are bad"
        )));
    }
    Ok(())
}

/// The orchestrator's part, from the first call to the last finding; returns how many findings are bad.
async fn play(place: &Place, socket: &Path, interrupt: &mut Interrupt) -> Result<usize, Failure> {
    let mut clients = Clients::connect(socket).await?;
    interrupt.or(clients.ready()).await??;
    let driver = socket.parent().and_then(Path::file_name);
    let mut journey = Journey::new(clients, &place.kubelet(), driver.unwrap_or_default());
    let queried = interrupt.or(journey.query()).await?;
    // The GetCapacity call has set up the pool: everything created from here on belongs to a volume.
    let before = inventory(&place.data())?;
    let used = match queried {
        Ok(()) => interrupt.or(Box::pin(journey.set_up_and_use())).await,
        Err(stopped) => Ok(Err(stopped)),
    };
    journey.tear_down().await;
    // A rejected call is one of the findings.
    let _ = used?;
    let findings = Findings {
        failed: journey.report.failed.clone(),
        data: journey.data(),
        mounts: place.mounts()?,
        new_files: inventory(&place.data())?
            .difference(&before)
            .cloned()
            .collect(),
    };
    Ok(findings.print())
}

fn keep(place: &Place, socket: &Path) {
    let below = |name: &str| -> PathBuf { place.paths().join(name) };
    say::heading("\nThe driver keeps serving; Ctrl-C ends it. Try in another terminal:");
    say::line(&format!(
        "  tail -f {log}\n\n  \
         \"$(cargo xtask tools | head -n 1)\" --csi.endpoint unix://{socket} \\\n    \
         --csi.mountdir {mounts} \\\n    \
         --csi.stagingdir {staging} \\\n    \
         --csi.testvolumesize 67108864 --csi.testvolumeexpandsize 134217728",
        log = place.log().display(),
        socket = socket.display(),
        mounts = below("sanity-mount").display(),
        staging = below("sanity-staging").display(),
    ));
    say::line(&say::paint(
        Tone::Quiet,
        &format!(
            "  (csi-sanity {}, the test suite of the CSI project; it is built with Go)",
            CSI_SANITY_5_4.version
        ),
    ));
}
