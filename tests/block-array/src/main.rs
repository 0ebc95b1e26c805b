//! `cargo xtask array`: serves an array until Ctrl-C or SIGTERM, and says how to use it.

#![forbid(unsafe_code)]

use clap::{Parser, ValueEnum};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use wasmount_block_array::{
    Array, ArrayOptions, MOST_VOLUMES, PASSWORD, Protocol, TOTAL_BYTES, USER,
};
use xtask::failure::Failure;
use xtask::interrupt::Interrupt;
use xtask::say;
use xtask::workspace::Workspace;

/// The ports of the protocols, unless portals are named (RFC 7143 §14; NVM Express TCP Transport 1.0 §3.1.1).
const ISCSI_PORT: u16 = 3260;
const NVME_TCP_PORT: u16 = 4420;

/// A storage array to try drivers against; docs/array.md shows how.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask array", bin_name = "cargo xtask array")]
struct Arguments {
    /// Where the REST API listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8480")]
    listen: SocketAddr,
    /// Where volumes, snapshots and the state are kept [default: target/block-array]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// How hosts reach volumes
    #[arg(long, value_enum, default_value = "none")]
    protocol: ProtocolName,
    /// An address of the target; more than one are paths to the same volumes [default: 127.0.0.1:3260, and 4420 for NVMe]
    #[arg(long = "portal", value_name = "ADDRESS")]
    portals: Vec<SocketAddr>,
    /// A host to know from the beginning; others are registered through the API
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// The user that may log in
    #[arg(long, default_value = USER)]
    user: String,
    /// A file with its password, without a line break [default: a well-known password]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The sum of the sizes of all volumes, at most, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = TOTAL_BYTES)]
    capacity: u64,
    /// The most volumes
    #[arg(long, value_name = "NUMBER", default_value_t = MOST_VOLUMES)]
    volumes: usize,
    /// How long new volumes and snapshots are in the state `creating`, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    job: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProtocolName {
    /// Not at all: the API alone, for machines without the kernel's targets; needs no root
    None,
    /// By iSCSI, from the kernel's target; needs root
    Iscsi,
    /// By NVMe over TCP, from the kernel's target; needs root
    NvmeTcp,
}

impl Arguments {
    fn options(self) -> Result<ArrayOptions, Failure> {
        let password = match &self.password_file {
            None if !self.listen.ip().is_loopback() => {
                return Err(Failure::missing(
                    "`--password-file`",
                    "the API would be open to the network with a password that everybody knows",
                ));
            }
            None => PASSWORD.into(),
            Some(file) => fs::read_to_string(file)
                .map_err(Failure::cannot(format!("read {}", file.display())))?
                .as_str()
                .into(),
        };
        let directory = match self.directory {
            Some(directory) => directory,
            None => Workspace::locate()?.block_array(),
        };
        let portals = |port: u16| match self.portals.is_empty() {
            true => vec![(Ipv4Addr::LOCALHOST, port).into()],
            false => self.portals.clone(),
        };
        let protocol = match self.protocol {
            ProtocolName::None => Protocol::None,
            ProtocolName::Iscsi => Protocol::Iscsi(portals(ISCSI_PORT)),
            ProtocolName::NvmeTcp => Protocol::NvmeTcp(portals(NVME_TCP_PORT)),
        };
        Ok(ArrayOptions {
            total_bytes: self.capacity,
            most_volumes: self.volumes,
            job: Duration::from_millis(self.job),
            hosts: self.hosts,
            user: self.user,
            password,
            directory: Some(directory),
            protocol,
        })
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say::failure(&failure);
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let listen = arguments.listen;
    let options = arguments.options()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::cannot("start the async runtime"))?;
    runtime.block_on(async {
        let mut interrupt = Interrupt::listen()?;
        let array = Array::listen(listen, options.clone()).await?;
        introduce(&array, &options);
        interrupt.wait().await;
        array.stop()
    })
}

/// What a user needs to know now.
fn introduce(array: &Array, options: &ArrayOptions) {
    let directory = options
        .directory
        .as_deref()
        .map(|it| it.display().to_string());
    say::line(&format!(
        "array at http://{}, user {}, volumes in {}",
        array.address(),
        options.user,
        directory.unwrap_or_default()
    ));
    match &options.protocol {
        Protocol::None => say::line(
            "no data path: volumes can be attached, and nobody can read or write them; `--protocol iscsi` or `nvme-tcp` changes that",
        ),
        Protocol::Iscsi(portals) => say::line(&format!("iSCSI at {}", list(portals))),
        Protocol::NvmeTcp(portals) => say::line(&format!("NVMe over TCP at {}", list(portals))),
    }
    say::line("Ctrl-C removes the target and keeps the volumes");
}

fn list(portals: &[SocketAddr]) -> String {
    let portals: Vec<_> = portals.iter().map(SocketAddr::to_string).collect();
    portals.join(", ")
}
