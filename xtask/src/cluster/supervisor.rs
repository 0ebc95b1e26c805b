//! The process that starts, restarts and ends the processes in a cluster's namespaces, by requests over a socket in the lab.
//!
//! It knows only processes: its client decides which of them make up Kubernetes.

use super::lab::Lab;
use crate::failure::Failure;
use crate::process::Process;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use wasmount_core::mutex::lock;

/// Between two checks of the running processes, of which those that ended are restarted: long enough not to busy the machine, short enough to
/// wait for.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A process that runs in the cluster, and is restarted when it ends unexpectedly.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Service {
    /// Its name in requests and of its log.
    pub name: String,
    /// Program and arguments.
    pub line: Vec<String>,
    /// Variables in addition to the supervisor's.
    pub environment: BTreeMap<String, String>,
}

impl Service {
    /// A program without arguments.
    pub fn new(name: &str, program: impl AsRef<OsStr>) -> Self {
        Self {
            name: name.to_owned(),
            line: vec![program.as_ref().to_string_lossy().into_owned()],
            environment: BTreeMap::new(),
        }
    }

    /// Adds `name=value`.
    #[must_use]
    pub fn flag(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let value = value.as_ref().to_string_lossy();
        self.line.push(format!("{name}={value}"));
        self
    }

    /// Adds an argument as it is.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.line.push(argument.to_owned());
        self
    }
}

/// A request; requests and replies are one line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Whether everything ends when this connection does.
    Own(bool),
    /// Starts it; a running one of that name is killed before.
    Start(Service),
    /// Sends SIGTERM, and SIGKILL to a process that does not end; it is not restarted.
    Stop(String),
    /// Sends SIGKILL; it is not restarted.
    Kill(String),
    /// Starts a stopped process with its earlier command line.
    StartAgain(String),
    /// The process id, inside, of a running process.
    Id(String),
    /// Ends everything.
    End,
}

/// The result of a request.
pub(super) type Reply = Result<Option<u32>, String>;

/// A requested service, and its process unless it was stopped.
#[derive(Debug)]
struct Entry {
    service: Service,
    process: Option<Process>,
}

/// All services, by name.
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
            thread::sleep(POLL_INTERVAL);
            watched.restart_ended();
        }
    });
    for connection in listener.incoming() {
        let connection = connection.map_err(Failure::cannot("take an order"))?;
        let entries = Arc::clone(&entries);
        thread::spawn(move || entries.converse(connection));
    }
    Ok(())
}

impl Entries {
    /// Executes the requests of one connection, one after the other.
    fn converse(&self, connection: UnixStream) {
        let Ok(mut replies) = connection.try_clone() else {
            return;
        };
        let mut owned = false;
        for line in BufReader::new(connection).lines().map_while(Result::ok) {
            let reply = match serde_json::from_str(&line) {
                Ok(request) => self.carry_out(request, &mut owned),
                Err(error) => Err(format!("{line} is no order: {error}")),
            };
            let text = serde_json::to_string(&reply).unwrap_or_default();
            // A client that disconnected before the reply needs none.
            let _ = writeln!(replies, "{text}");
        }
        if owned {
            std::process::exit(0);
        }
    }

    fn carry_out(&self, request: Request, owned: &mut bool) -> Reply {
        match request {
            Request::End => std::process::exit(0),
            Request::Own(requested) => {
                *owned = requested;
                Ok(None)
            }
            Request::Start(service) => self.start(service),
            Request::StartAgain(name) => {
                let known = lock(&self.all).get(&name).map(|it| it.service.clone());
                self.start(known.ok_or_else(|| unknown(&name))?)
            }
            Request::Stop(name) => self.end(&name, Process::terminate),
            Request::Kill(name) => self.end(&name, Process::kill_9),
            Request::Id(name) => Ok(self.id(&name)),
        }
    }

    fn start(&self, service: Service) -> Reply {
        // A running process of this name ends here, before the next one starts.
        lock(&self.all).remove(&service.name);
        let process = self.run(&service).map_err(|it| it.to_string())?;
        let id = process.id();
        let entry = Entry {
            process: Some(process),
            service,
        };
        lock(&self.all).insert(entry.service.name.clone(), entry);
        Ok(Some(id))
    }

    fn run(&self, service: &Service) -> Result<Process, Failure> {
        let mut line = service.line.iter();
        let mut command = Command::new(line.next().map_or("", |program| program));
        command
            .args(line)
            .envs(&service.environment)
            .current_dir(self.lab.root());
        // A process group, but no parent-death signal: when the first process of the namespace ends, all of them end.
        Process::start(command, &self.lab.log(&service.name))
    }

    /// Not under the lock: it may take long.
    fn end(&self, name: &str, how: fn(&mut Process) -> Result<ExitStatus, Failure>) -> Reply {
        let process = match lock(&self.all).get_mut(name) {
            None => return Err(unknown(name)),
            Some(entry) => entry.process.take(),
        };
        if let Some(mut process) = process {
            how(&mut process).map_err(|it| it.to_string())?;
        }
        Ok(None)
    }

    fn id(&self, name: &str) -> Option<u32> {
        let mut all = lock(&self.all);
        let process = all.get_mut(name)?.process.as_mut()?;
        matches!(process.ended(), Ok(None)).then(|| process.id())
    }

    fn restart_ended(&self) {
        for Entry { service, process } in lock(&self.all).values_mut() {
            let has_ended = |it: &mut Process| matches!(it.ended(), Ok(Some(_)));
            if process.as_mut().is_some_and(has_ended) {
                // The failure to start it is in no log: the next request for it returns it.
                *process = self.run(service).ok();
            }
        }
    }
}

fn unknown(name: &str) -> String {
    format!("nothing called {name} was ever started")
}
