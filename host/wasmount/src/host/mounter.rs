//! `wasmount mounter`: the mounter as a process of its own, from its start to a clean stop.

use super::documents::Documents;
use super::mounter_documents::MounterDocuments;
use super::signals::Signals;
use super::{MountPlaces, blocking, descriptors, local_mounts, preflight, run_to_end};
use crate::config::Configured;
use crate::fault::Fault;
use crate::telemetry::steps_of;
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wasmount_mounter::{ServerOptions, serve};
use wasmount_socket::BoundSocket;

/// The options of the command line, checked.
#[derive(Debug, Clone)]
pub(crate) struct MounterOptions {
    /// A directory of documents, besides those of the command line.
    pub(crate) backend_dir: Option<PathBuf>,
    /// The data directory, with pools of relative paths.
    pub(crate) data_dir: PathBuf,
    /// Where it mounts.
    pub(crate) places: MountPlaces,
    /// The socket to listen on.
    pub(crate) socket: PathBuf,
    /// The user id whose processes may connect.
    pub(crate) client_uid: u32,
    /// How long running calls may take at shutdown.
    pub(crate) grace: Duration,
}

/// Mounts for other processes until a signal, then stops cleanly.
pub(crate) fn mount(options: MounterOptions, backends: Vec<Configured>) -> Result<(), Fault> {
    preflight::check_mounter(&options)?;
    let connections = descriptors::connections_of_each(descriptors::raise(), 1);
    run_to_end(run(options, backends, connections))
}

async fn run(
    options: MounterOptions,
    backends: Vec<Configured>,
    connections: usize,
) -> Result<(), Fault> {
    let MounterOptions {
        backend_dir,
        data_dir,
        places,
        socket,
        client_uid,
        grace,
    } = options;
    let mut signals = Signals::watch()?;
    // The journal first: its lock shows that no other mounter runs, so an existing socket is a leftover.
    let opened = blocking(move || {
        let mounter = local_mounts::open(&data_dir, places, &socket, &backends)?;
        // Another mounter may have followed the documents until now. One that is not accepted any more ends the start.
        Documents::read_again(&backends)?;
        let documents = MounterDocuments::open(backends, backend_dir, mounter.clone(), data_dir);
        mounter.recover_without_document(&documents.drivers().collect());
        let bound = BoundSocket::bind_for(&socket, client_uid);
        let bound = bound.map_err(Fault::failed("the mounter's socket is not usable"))?;
        tracing::info!(socket = %socket.display(), client_uid, "serving mounts");
        Ok((mounter, bound, documents))
    });
    let (mounter, bound, documents) = opened.await?;
    let mut following = JoinSet::new();
    following.spawn(documents.keep());
    let shutdown = CancellationToken::new();
    let options = ServerOptions {
        client_uid,
        connections,
        grace,
        steps_of,
    };
    let mut serving = std::pin::pin!(serve(bound, mounter, options, shutdown.clone()));
    let ended = tokio::select! {
        ended = &mut serving => ended,
        signal = signals.next() => {
            tracing::info!(signal, grace_seconds = grace.as_secs(), "stopping");
            shutdown.cancel();
            tokio::select! {
                ended = serving => ended,
                signal = signals.next() => {
                    tracing::warn!(signal, "stopping immediately: the next start recovers unfinished work");
                    return Ok(());
                }
            }
        }
    };
    match ended.map_err(Fault::failed("the mounter's socket cannot be served"))? {
        0 => tracing::info!("stopped"),
        unfinished => tracing::warn!(
            unfinished,
            "stopped; the next start recovers unfinished work"
        ),
    }
    Ok(())
}
