//! The first processes in a cluster's namespaces: they set up directories and a network, forward requests to the API server, and end orphans.

use super::lab::Lab;
use super::parts::API_PORT;
use super::supervisor;
use crate::command;
use crate::failure::Failure;
use crate::files;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{Pid, WaitOptions, wait};
use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// Addresses of the node on its loopback device: its own, since kubelet rejects a loopback address, and the one by which pods know the API
/// server: service addresses are not routed here, so that address is assigned to the device.
pub const NODE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const API_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// The first process: starts `program` as the second one, ends the orphans, and ends with it.
pub fn first(program: &Path, lab: &Path) -> Result<(), Failure> {
    let supervisor = Command::new(program)
        .args(["cluster", "inside", "--supervise"])
        .arg(lab)
        .stdin(Stdio::inherit())
        .spawn()
        .map_err(Failure::cannot("start the cluster's supervisor"))?;
    let supervisor = Pid::from_child(&supervisor);
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, _))) if ended == supervisor => return Ok(()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(Failure::cannot("wait for the cluster's processes")(error));
            }
        }
    }
}

/// The second process: sets up the node and serves requests. Standard input is a socket that listens outside of the network namespace.
pub fn supervise(lab: &Path) -> Result<(), Failure> {
    let lab = Lab::at(lab)?;
    let _lock = files::hold(lab.root())?;
    directories(&lab)?;
    network()?;
    let outside = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(Failure::cannot("take the socket for the API server"))?;
    thread::spawn(move || forward(&TcpListener::from(outside)));
    let control = lab.control();
    let listener = UnixListener::bind(&control)
        .map_err(Failure::cannot(format!("listen on {}", control.display())))?;
    supervisor::serve(&lab, &listener)
}

/// Makes shared mounts, as kubelet needs them, and directories of the cluster's own where its programs write.
fn directories(lab: &Lab) -> Result<(), Failure> {
    let failed = |what: &str| Failure::cannot(format!("mount {what} for the cluster"));
    let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    mount_bind(lab.lib(), "/var/lib").map_err(failed("/var/lib"))?;
    mount_bind(lab.logs(), "/var/log").map_err(failed("/var/log"))?;
    let none = MountFlags::NODEV | MountFlags::NOSUID;
    mount("tmpfs", "/run", "tmpfs", none, None).map_err(failed("/run"))?;
    // A mount point of its own: kubelet's directory is bind-mounted into pods with its mounts.
    mount_bind("/var/lib/kubelet", "/var/lib/kubelet").map_err(failed("/var/lib/kubelet"))?;
    mount_change("/", shared).map_err(failed("/"))
}

fn network() -> Result<(), Failure> {
    let ip = |arguments: &[&str]| command::read(Command::new("ip").args(arguments));
    ip(&["link", "set", "lo", "up"])?;
    for address in [NODE_ADDRESS, API_ADDRESS] {
        ip(&["address", "add", &format!("{address}/32"), "dev", "lo"])?;
    }
    Ok(())
}

/// Forwards connections from outside to the API server.
fn forward(outside: &TcpListener) {
    for there in outside.incoming().flatten() {
        // While the API server is down, a connection ends at once, as on a port without a listener.
        let Ok(here) = TcpStream::connect((Ipv4Addr::LOCALHOST, API_PORT)) else {
            continue;
        };
        for (from, to) in [(&there, &here), (&here, &there)] {
            if let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) {
                thread::spawn(move || carry(from, to));
            }
        }
    }
}

/// Copies until one side ends; then both connections end.
fn carry(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
