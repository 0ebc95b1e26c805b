//! The connection to a cluster's supervisor: started with its namespaces, or found.

use crate::cluster::lab::Lab;
use crate::cluster::supervisor::{Reply, Request};
use crate::command;
use crate::failure::Failure;
use rustix::net::sockopt::socket_peercred;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use wasmount_core::mutex::lock;

/// Namespaces of its own, in which killing the first process ends everything and drops every mount.
const UNSHARE: [&str; 9] = [
    "--mount",
    "--net",
    "--pid",
    "--uts",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--propagation",
    "private",
];

/// Timeout until the supervisor accepts requests, and until it has ended.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A connection to the supervisor.
#[derive(Debug)]
pub(super) struct Control {
    connection: Mutex<BufReader<UnixStream>>,
    /// The supervisor's process id in our PID namespace.
    pub(super) id: u32,
    /// The process that holds the namespaces, if we started it.
    namespaces: Option<Child>,
}

impl Control {
    /// Starts `program` as the supervisor; the API server is reached from outside through `listener`.
    pub(super) fn start(program: &Path, lab: &Lab, listener: TcpListener) -> Result<Self, Failure> {
        let path = lab.log("supervisor");
        let log = File::create(&path).and_then(|log| Ok((log.try_clone()?, log)));
        let (out, err) = log.map_err(Failure::cannot(format!("create {}", path.display())))?;
        let mut command = Command::new("unshare");
        command
            .args(UNSHARE)
            .arg("--")
            .arg(program)
            .args(["cluster", "inside"])
            .arg(lab.root())
            .stdin(OwnedFd::from(listener))
            .stdout(out)
            .stderr(err)
            // Ctrl-C must reach only the process that started it.
            .process_group(0);
        let mut child = command.spawn().map_err(command::cannot_start(&command))?;
        let start = Instant::now();
        let failure = loop {
            let has_ended = child.try_wait().ok().flatten().is_some();
            match Self::connect(lab) {
                Ok(control) => {
                    return Ok(Self {
                        namespaces: Some(child),
                        ..control
                    });
                }
                Err(failure) if has_ended || start.elapsed() > TIMEOUT => break failure,
                Err(_) => thread::sleep(POLL_INTERVAL),
            }
        };
        let _ = child.kill();
        let log = std::fs::read_to_string(&path).unwrap_or_default();
        Err(Failure::Unexpected(format!(
            "{failure}; its supervisor said: {}",
            log.trim()
        )))
    }

    /// Connects to a running supervisor.
    pub(super) fn connect(lab: &Lab) -> Result<Self, Failure> {
        let path = lab.control();
        let connection = UnixStream::connect(&path)
            .map_err(Failure::cannot(format!("connect to {}", path.display())))?;
        let peer = socket_peercred(&connection);
        let peer = peer.map_err(Failure::cannot("ask who the supervisor is"))?;
        Ok(Self {
            connection: Mutex::new(BufReader::new(connection)),
            id: peer.pid.as_raw_nonzero().get().unsigned_abs(),
            namespaces: None,
        })
    }

    /// Sends a request, and waits for the reply.
    pub(super) fn send(&self, request: &Request) -> Result<Option<u32>, Failure> {
        let text = serde_json::to_string(request).unwrap_or_default();
        let mut connection = lock(&self.connection);
        let failed = || Failure::cannot(format!("order {request:?} of the cluster"));
        writeln!(connection.get_mut(), "{text}").map_err(failed())?;
        let mut line = String::new();
        connection.read_line(&mut line).map_err(failed())?;
        let reply: Reply =
            serde_json::from_str(&line).unwrap_or_else(|_| Err("it ended".to_owned()));
        reply.map_err(|reason| {
            Failure::Unexpected(format!("cannot order {request:?} of the cluster: {reason}"))
        })
    }

    /// Ends everything inside and waits until it has ended.
    pub(super) fn end(&mut self, lab: &Lab) -> Result<(), Failure> {
        // The only reply is the end of the connection.
        let _ = self.send(&Request::End);
        let start = Instant::now();
        while lab.is_used() {
            if start.elapsed() > TIMEOUT {
                return Err(Failure::Unexpected(format!(
                    "the cluster does not end: kill process {}",
                    self.id
                )));
            }
            thread::sleep(POLL_INTERVAL);
        }
        if let Some(mut child) = self.namespaces.take() {
            child
                .wait()
                .map_err(Failure::cannot("wait for the end of the cluster"))?;
        }
        Ok(())
    }
}
