//! etcd and the API server on the machine's loopback device: real objects, admission and rights for tests that need no pods.
//!
//! Each has a loopback address of its own, so that no two share a port.

use kube::Client;
use std::net::{SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use xtask::cluster::access::{Access, User};
use xtask::cluster::parts::{self, Addresses};
use xtask::cluster::programs::Programs;
use xtask::cluster::{self, Service};
use xtask::failure::Failure;
use xtask::process::Process;

/// The API server's customary port.
const PORT: u16 = 6443;

/// Timeout until it is ready: three seconds on an idle machine.
const READY: Duration = Duration::from_secs(120);

/// Between two polls.
const LOOK: Duration = Duration::from_millis(100);

/// A running control plane; it ends with this value, or with the process that started it.
#[derive(Debug)]
pub struct ControlPlane {
    access: Access,
    etcd: Service,
    api: Service,
    orders: Sender<Order>,
}

/// An order to the thread that starts the processes: the kernel signals them when the *thread* that started them ends, and a test's ends too soon.
#[derive(Debug)]
struct Order {
    what: What,
    done: Sender<Result<(), Failure>>,
}

#[derive(Debug)]
enum What {
    Start(Part, Service),
    Stop(Part),
    /// Fails if one ended unexpectedly.
    Look,
}

/// A process of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Etcd,
    ApiServer,
}

impl ControlPlane {
    /// Starts one with its data, logs and kubeconfigs in a directory, and waits until it is ready.
    pub async fn start(programs: &Programs, directory: &Path) -> Result<Self, Failure> {
        let addresses = free_addresses()?;
        let access = Access::create(directory, SocketAddrV4::new(addresses.host, addresses.port))?;
        let (orders, received) = mpsc::channel();
        let logs = directory.to_owned();
        thread::spawn(move || keep(&received, &logs));
        let plane = Self {
            etcd: parts::etcd(programs, &addresses, &directory.join("etcd")),
            api: parts::api_server(programs, &addresses, &access),
            access,
            orders,
        };
        plane.start_etcd()?;
        plane.start_api().await?;
        Ok(plane)
    }

    /// Ends the API server as a crash would; etcd keeps running.
    pub fn stop_api(&self) -> Result<(), Failure> {
        self.order(What::Stop(Part::ApiServer))
    }

    /// Starts the API server again, at the same address, and waits until it is ready.
    pub async fn start_api(&self) -> Result<(), Failure> {
        self.order(What::Start(Part::ApiServer, self.api.clone()))?;
        self.ready().await
    }

    /// Ends etcd as a crash would; the API server keeps running without its store.
    pub fn stop_etcd(&self) -> Result<(), Failure> {
        self.order(What::Stop(Part::Etcd))
    }

    /// Starts etcd again with all its data.
    pub fn start_etcd(&self) -> Result<(), Failure> {
        self.order(What::Start(Part::Etcd, self.etcd.clone()))
    }

    /// Waits until it is ready, also after a fault.
    pub async fn ready(&self) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            // The certificate exists only after the API server has created it.
            let asked = match self.client().await {
                Ok(client) => cluster::ready(&client).await,
                Err(failure) => Err(failure),
            };
            let Err(failure) = asked else { return Ok(()) };
            self.order(What::Look)?;
            if start.elapsed() > READY {
                return Err(failure);
            }
            sleep(LOOK).await;
        }
    }

    /// A client with a user's credentials.
    pub async fn client_of(&self, user: User) -> Result<Client, Failure> {
        cluster::client(&self.kubeconfig(user)).await
    }

    /// A client with the administrator's credentials.
    pub async fn client(&self) -> Result<Client, Failure> {
        self.client_of(User::Admin).await
    }

    /// A file for `--kubeconfig`.
    pub fn kubeconfig(&self, user: User) -> PathBuf {
        self.access.kubeconfig(user)
    }

    /// A file for `--kubeconfig` with this token, such as that of a service account.
    pub fn kubeconfig_of(&self, name: &str, token: &str) -> Result<PathBuf, Failure> {
        self.access.kubeconfig_of(name, token)
    }

    fn order(&self, what: What) -> Result<(), Failure> {
        let (done, answer) = mpsc::channel();
        let sent = self.orders.send(Order { what, done });
        let answer = sent.ok().and_then(|()| answer.recv().ok());
        answer.unwrap_or_else(|| {
            Err(Failure::Unexpected(
                "the thread that keeps the control plane is gone".to_owned(),
            ))
        })
    }
}

impl Drop for ControlPlane {
    /// Waits until both have ended, so that nothing is written into their directory any more.
    fn drop(&mut self) {
        let _ = self.stop_api();
        let _ = self.stop_etcd();
    }
}

/// Starts and ends the processes, until all senders of orders are dropped; then ends the processes.
fn keep(orders: &Receiver<Order>, logs: &Path) {
    let mut running: Vec<(Part, Process)> = Vec::new();
    for Order { what, done } in orders {
        let outcome = match what {
            What::Start(part, service) => {
                running.retain(|(it, _)| *it != part);
                start(&service, logs).map(|process| running.push((part, process)))
            }
            What::Stop(part) => {
                running.retain(|(it, _)| *it != part);
                Ok(())
            }
            What::Look => running.iter_mut().try_for_each(look),
        };
        // The sender may have stopped waiting.
        let _ = done.send(outcome);
    }
    // etcd last: the API server uses it until its own end.
    while running.pop().is_some() {}
}

fn start(service: &Service, logs: &Path) -> Result<Process, Failure> {
    // Killed with the thread that starts it: kube-apiserver would wait for an etcd that has already ended.
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .args(&service.line);
    Process::start(command, &logs.join(format!("{}.log", service.name)))
}

fn look((part, process): &mut (Part, Process)) -> Result<(), Failure> {
    match process.ended()? {
        Some(status) => Err(process.failed(format!("{part:?} ended ({status})"))),
        None => Ok(()),
    }
}

/// Ports of a loopback address that no process uses.
fn free_addresses() -> Result<Addresses, Failure> {
    cluster::loopback_addresses()
        .map(|host| Addresses {
            host,
            bind: host,
            advertise: host,
            port: PORT,
        })
        .find(|it| it.ports().iter().all(|port| is_free(*port)))
        .ok_or_else(|| {
            Failure::missing(
                "a loopback address with free ports",
                format!("something listens on port {PORT} or etcd's of all addresses: end it"),
            )
        })
}

fn is_free(port: SocketAddrV4) -> bool {
    TcpListener::bind(port).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_control_planes_have_one_address() {
        let one = free_addresses().unwrap();
        let _in_use = TcpListener::bind((one.host, one.port)).unwrap();
        assert!(one.host.is_loopback() && !one.ports().into_iter().all(is_free));
        assert_ne!(free_addresses().unwrap(), one);
    }
}
