//! The common parts of the commands that use the admin socket of a running host, and of the one that uses the API server instead.
//!
//! The answers of a host are defined in `wasmount_control`; nothing here depends on how they are produced.

pub(crate) mod change;
pub(crate) mod history;
pub(crate) mod log_level;
pub(crate) mod rollout;
pub(crate) mod status;
mod table;
pub(crate) mod volumes;

use super::show;
use super::transfer::wait;
use crate::fault::Fault;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use wasmount_control::{Client, ControlError};

/// The socket in a data directory.
pub(crate) const ADMIN_SOCKET: &str = "admin.sock";

/// Which host.
#[derive(Debug, Args)]
pub(crate) struct HostFlags {
    /// Data directory of the host
    #[arg(long, value_name = "DIR", env, default_value = "/var/lib/wasmount")]
    data_dir: PathBuf,

    /// Admin socket of the host [default: admin.sock, in --data-dir]
    #[arg(long, value_name = "FILE", env)]
    admin_socket: Option<PathBuf>,
}

/// Whether answers are for programs.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct FormFlags {
    /// Print JSON, as docs/admin.md describes it
    #[arg(long, env)]
    json: bool,
}

/// Of the commands about one driver.
#[derive(Debug, Args)]
pub(crate) struct DriverFlags {
    /// CSI driver name
    #[arg(value_name = "DRIVER")]
    driver: String,

    #[command(flatten)]
    host: HostFlags,

    #[command(flatten)]
    form: FormFlags,
}

impl DriverFlags {
    /// Sends one request about the driver, and prints the answer: as JSON, or as `text` has it.
    fn answer<T: Serialize>(
        self,
        request: impl AsyncFnOnce(&Client, &str) -> Result<T, ControlError>,
        text: impl FnOnce(&T) -> String,
    ) -> Result<T, Fault> {
        let Self { driver, host, form } = self;
        let answer = wait(request(&host.client(), &driver))??;
        show::answer(form.json, &answer, text)?;
        Ok(answer)
    }
}

impl HostFlags {
    fn client(self) -> Client {
        let socket = self.admin_socket;
        Client::new(socket.unwrap_or_else(|| self.data_dir.join(ADMIN_SOCKET)))
    }
}
