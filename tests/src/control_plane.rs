//! etcd and the API server on the machine's loopback device: real objects, admission and rights for tests that need no pods.
//!
//! Each has a loopback address of its own, so that no two share a port.

use crate::lasting_thread::on_lasting_thread;
use kube::Client;
use std::net::{SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use wasmount_core::mutex::lock;
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
    // Ended in this order: the API server uses etcd until its own end.
    api: Part,
    etcd: Part,
}

/// A process of the control plane, and how it is started.
#[derive(Debug)]
struct Part {
    service: Service,
    log: PathBuf,
    running: Mutex<Option<Process>>,
}

impl ControlPlane {
    /// Starts one with its data, logs and kubeconfigs in a directory, and waits until it is ready.
    pub async fn start(programs: &Programs, directory: &Path) -> Result<Self, Failure> {
        let addresses = free_addresses()?;
        let access = Access::create(directory, SocketAddrV4::new(addresses.host, addresses.port))?;
        let etcd = parts::etcd(programs, &addresses, &directory.join("etcd"));
        let api = parts::api_server(programs, &addresses, &access);
        let plane = Self {
            access,
            api: Part::new(api, directory),
            etcd: Part::new(etcd, directory),
        };
        plane.start_etcd()?;
        plane.start_api().await?;
        Ok(plane)
    }

    /// Ends the API server as a crash would; etcd keeps running.
    pub fn stop_api(&self) {
        self.api.stop();
    }

    /// Starts the API server again, at the same address, and waits until it is ready.
    pub async fn start_api(&self) -> Result<(), Failure> {
        self.api.start()?;
        self.ready().await
    }

    /// Ends etcd as a crash would; the API server keeps running without its store.
    pub fn stop_etcd(&self) {
        self.etcd.stop();
    }

    /// Starts etcd again with all its data.
    pub fn start_etcd(&self) -> Result<(), Failure> {
        self.etcd.start()
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
            self.api.look()?;
            self.etcd.look()?;
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
}

impl Part {
    fn new(service: Service, logs: &Path) -> Self {
        Self {
            log: logs.join(format!("{}.log", service.name)),
            service,
            running: Mutex::new(None),
        }
    }

    /// Starts it; one that runs is killed before.
    fn start(&self) -> Result<(), Failure> {
        self.stop();
        let (line, log) = (self.service.line.clone(), self.log.clone());
        let process = on_lasting_thread(move || {
            // Killed with that thread: kube-apiserver would wait for an etcd that has already ended.
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "--"]).args(line);
            Process::start(command, &log)
        });
        *lock(&self.running) = Some(process?);
        Ok(())
    }

    /// Returns when it has ended, so that nothing is written into its directory any more.
    fn stop(&self) {
        drop(lock(&self.running).take());
    }

    /// Fails if it ended unexpectedly.
    fn look(&self) -> Result<(), Failure> {
        let mut running = lock(&self.running);
        let Some(process) = &mut *running else {
            return Ok(());
        };
        match process.ended()? {
            Some(status) => {
                let name = &self.service.name;
                Err(process.failed(format!("{name} ended ({status})")))
            }
            None => Ok(()),
        }
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
