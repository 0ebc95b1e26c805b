//! The process that starts, restarts and ends what runs in a cluster's namespaces, by requests over a socket in the lab.
//!
//! It knows processes: which of them make a Kubernetes is decided outside.

use super::lab::Lab;
use crate::failure::Failure;
use crate::process::Process;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at what runs.
const LOOK: Duration = Duration::from_millis(100);

/// Before what ended by itself is started again: long enough not to busy the machine, short enough to wait for.
const AGAIN: Duration = Duration::from_secs(1);

/// A process that runs in the cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Service {
    /// What it is called by in requests; its log is called so too.
    pub name: String,
    /// Program and arguments.
    pub line: Vec<String>,
    /// In addition to the supervisor's.
    pub environment: BTreeMap<String, String>,
    /// Whether it is started again when it ends by itself.
    pub again: bool,
}

/// An order, one line of JSON each; so is the reply.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Whether everything ends when this connection does.
    Own(bool),
    /// Starts it; one of that name that runs is killed before.
    Start(Service),
    /// SIGTERM, and SIGKILL to what does not heed it; it is not started again.
    Stop(String),
    /// SIGKILL; it is not started again.
    Kill(String),
    /// Starts what was stopped as it was.
    StartAgain(String),
    /// The process id inside, of one that runs.
    Id(String),
    /// Ends everything.
    End,
}

/// What became of an order.
pub(super) type Reply = Result<Option<u32>, String>;

/// What was ordered, and what runs of it.
#[derive(Debug)]
struct Entry {
    service: Service,
    process: Option<Process>,
    /// When it is due to be started again.
    due: Option<Instant>,
}

/// All of them, by name.
#[derive(Debug)]
struct Entries {
    lab: Lab,
    all: Mutex<BTreeMap<String, Entry>>,
}

/// Serves requests; ends with the process.
pub(super) fn serve(lab: &Lab, listener: &UnixListener) -> Result<(), Failure> {
    let entries = Arc::new(Entries {
        lab: lab.clone(),
        all: Mutex::default(),
    });
    let watched = Arc::clone(&entries);
    thread::spawn(move || {
        loop {
            watched.restart_what_ended();
            thread::sleep(LOOK);
        }
    });
    for connection in listener.incoming() {
        let connection = connection.map_err(Failure::io("take an order"))?;
        let entries = Arc::clone(&entries);
        thread::spawn(move || entries.converse(connection));
    }
    Ok(())
}

impl Entries {
    /// Carries out what one connection orders, one after the other.
    fn converse(&self, connection: UnixStream) {
        let Ok(mut replies) = connection.try_clone() else {
            return;
        };
        let mut owned = false;
        for line in BufReader::new(connection).lines().map_while(Result::ok) {
            let reply = match serde_json::from_str(&line) {
                Ok(Request::End) => std::process::exit(0),
                Ok(Request::Own(wanted)) => {
                    owned = wanted;
                    Ok(None)
                }
                Ok(request) => self.carry_out(request),
                Err(error) => Err(format!("{line} is no order: {error}")),
            };
            let text = serde_json::to_string(&reply).unwrap_or_default();
            // Who left before the reply notices nothing.
            let _ = writeln!(replies, "{text}");
        }
        if owned {
            std::process::exit(0);
        }
    }

    fn carry_out(&self, request: Request) -> Reply {
        match request {
            Request::Start(service) => self.start(service),
            Request::StartAgain(name) => {
                let known = self.lock().get(&name).map(|it| it.service.clone());
                self.start(known.ok_or_else(|| unknown(&name))?)
            }
            Request::Stop(name) => self.end(&name, Process::terminate),
            Request::Kill(name) => self.end(&name, Process::kill_9),
            Request::Id(name) => Ok(self.id(&name)),
            Request::Own(_) | Request::End => Ok(None),
        }
    }

    fn start(&self, service: Service) -> Reply {
        // What runs under this name ends here, before the next one begins.
        self.lock().remove(&service.name);
        let process = self.run(&service).map_err(|it| it.to_string())?;
        let id = process.id();
        let entry = Entry {
            process: Some(process),
            due: None,
            service,
        };
        self.lock().insert(entry.service.name.clone(), entry);
        Ok(Some(id))
    }

    fn run(&self, service: &Service) -> Result<Process, Failure> {
        let mut words = service.line.iter();
        let mut command = Command::new(words.next().map_or("", |it| it));
        command
            .args(words)
            .envs(&service.environment)
            .current_dir(self.lab.root());
        // A process group, but no order to end with us: with the first process of the namespace all of it ends.
        Process::start(command, &self.lab.log(&service.name))
    }

    /// Not under the lock: it may take its time.
    fn end<T>(&self, name: &str, how: impl FnOnce(&mut Process) -> Result<T, Failure>) -> Reply {
        let taken = match self.lock().get_mut(name) {
            None => return Err(unknown(name)),
            Some(entry) => {
                entry.due = None;
                entry.process.take()
            }
        };
        match taken {
            Some(mut process) => how(&mut process).map_err(|it| it.to_string())?,
            None => return Ok(None),
        };
        Ok(None)
    }

    fn id(&self, name: &str) -> Option<u32> {
        let mut all = self.lock();
        let process = all.get_mut(name)?.process.as_mut()?;
        matches!(process.ended(), Ok(None)).then(|| process.id())
    }

    fn restart_what_ended(&self) {
        for entry in self.lock().values_mut() {
            let ended = entry
                .process
                .as_mut()
                .is_some_and(|it| matches!(it.ended(), Ok(Some(_))));
            if ended && entry.service.again && entry.due.is_none() {
                entry.due = Some(Instant::now() + AGAIN);
            }
            if entry.due.is_some_and(|due| due <= Instant::now()) {
                entry.due = None;
                // What cannot be started has said why in no log: the next request for it tells.
                entry.process = self.run(&entry.service).ok();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown(name: &str) -> String {
    format!("nothing called {name} was ever started")
}
