//! One volume: its RPCs one after the other, and how what is open of it is undone.

use crate::client::{Client, Volume};
use crate::directories::Paths;
use crate::measured::Measured;
use crate::plan::{is_uncertain, note, undo};
use crate::stop::Stop;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};
use wasmount_core::mutex::lock;
use wasmount_core::rpc::Rpc;

/// How long a volume is being undone, however often that takes a repeat. 30 s: as long as a driver's restart may take.
const UNDOING: Duration = Duration::from_secs(30);
/// The first pause before a repeat; each is twice the one before.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What all lives of a phase share.
pub(crate) struct Scene {
    pub(crate) client: Client,
    pub(crate) kubelet: PathBuf,
    pub(crate) stop: Stop,
}

/// A volume, and what is open of it.
#[derive(Debug)]
pub(crate) struct Life {
    volume: Volume,
    open: Vec<Rpc>,
}

/// Why not all RPCs were made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// One failed.
    Failed,
    /// The run was interrupted.
    Interrupted,
}

impl Life {
    /// `paths`: those of the volume before; none: they are made when they are needed.
    pub(crate) fn named(name: String, paths: Option<Paths>) -> Self {
        Self {
            volume: Volume::named(name, paths),
            open: Vec::new(),
        }
    }

    /// Makes the RPCs in turn until one fails or the run is interrupted. `since`: the start of the phase, if durations are to be recorded.
    pub(crate) async fn live(
        &mut self,
        scene: &Scene,
        rpcs: &[Rpc],
        since: Option<Instant>,
        measured: &Mutex<Measured>,
    ) -> Result<(), Ended> {
        for rpc in rpcs {
            if scene.stop.is_asked() {
                return Err(Ended::Interrupted);
            }
            // The paths are kubelet's work, and no time of the driver.
            let placed = self.place(scene, *rpc);
            let start = Instant::now();
            let answer = match placed {
                Ok(()) => self.call(scene, *rpc).await,
                Err(status) => Err(status),
            };
            let took = start.elapsed();
            let mut measured = lock(measured);
            match (answer, since) {
                (Err(status), _) => {
                    measured.failed(*rpc, &status);
                    return Err(Ended::Failed);
                }
                (Ok(()), Some(since)) => measured.answered(*rpc, took, since.elapsed()),
                (Ok(()), None) => {}
            }
        }
        Ok(())
    }

    /// Undoes what is open. Returns the paths for another volume, or else removes them and says what is left. An answer that is uncertain, or says
    /// that the volume is in use, is asked for again.
    pub(crate) async fn end(mut self, scene: &Scene) -> Result<Option<Paths>, Vec<String>> {
        let end = Instant::now() + UNDOING;
        let mut left = Vec::new();
        if self.open.contains(&Rpc::CreateVolume) && self.volume.id.is_empty() {
            // Asked again, a driver returns the id of the volume of this name.
            left.extend(self.repeat(scene, Rpc::CreateVolume, end).await.err());
        }
        if left.is_empty() {
            for rpc in undo(&self.open) {
                if let Err(text) = self.repeat(scene, rpc, end).await {
                    left.push(text);
                    break;
                }
            }
        }
        let paths = self.volume.paths.take();
        if left.is_empty() && paths.as_ref().is_none_or(Paths::remove_target) {
            return Ok(paths);
        }
        left.extend(paths.into_iter().flat_map(Paths::remove));
        Err(left)
    }

    async fn repeat(&mut self, scene: &Scene, rpc: Rpc, end: Instant) -> Result<(), String> {
        let mut pause = PAUSE;
        loop {
            let status = match self.call(scene, rpc).await {
                Ok(()) => return Ok(()),
                // The repeat of a creation: there is no volume, after all.
                Err(_) if self.open.is_empty() => return Ok(()),
                Err(status) => status,
            };
            let again = is_uncertain(status.code()) || status.code() == Code::FailedPrecondition;
            let waits = tokio::select! {
                () = sleep(pause), if again && Instant::now() + pause < end => true,
                () = scene.stop.asked_twice(), if again => false,
                else => false,
            };
            if !waits {
                return Err(self.is_left(rpc, &status));
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Makes one RPC, and notes how it ended.
    async fn call(&mut self, scene: &Scene, rpc: Rpc) -> Result<(), Status> {
        let answer = tokio::select! {
            answer = scene.client.call(rpc, &mut self.volume) => answer,
            () = scene.stop.asked_twice() => Err(Status::cancelled("interrupted twice")),
        };
        let code = answer.as_ref().err().map_or(Code::Ok, Status::code);
        note(&mut self.open, rpc, code);
        answer
    }

    /// Makes the paths before the first RPC that names them.
    fn place(&mut self, scene: &Scene, rpc: Rpc) -> Result<(), Status> {
        if rpc.service() != "Node" || self.volume.paths.is_some() {
            return Ok(());
        }
        let (driver, name) = (&scene.client.driver, &self.volume.name);
        let paths = Paths::make(&scene.kubelet, driver, name).map_err(|error| {
            let folder = scene.kubelet.display();
            Status::failed_precondition(format!(
                "no paths can be made in {folder}: {error}; name another --kubelet-dir"
            ))
        });
        self.volume.paths = Some(paths?);
        Ok(())
    }

    fn is_left(&self, rpc: Rpc, status: &Status) -> String {
        let (code, message) = (status.code(), status.message());
        let Volume {
            name, id, paths, ..
        } = &self.volume;
        let at = match paths {
            Some(paths) if rpc.service() == "Node" => {
                let (staging, target) = (paths.staging.display(), paths.target.display());
                format!(" (staging path {staging}, target path {target})")
            }
            _ => String::new(),
        };
        let id = match id.as_str() {
            "" => "its id is unknown".to_owned(),
            id => format!("id `{id}`"),
        };
        format!("the volume {name}, {id}, may exist: {rpc}{at}: {code:?}: {message}")
    }
}
