//! The common parts of the commands that use the admin socket of a running host.
//!
//! The answers of a host are defined in `wasmount_control`; nothing here depends on how they are produced.

pub(crate) mod change;
pub(crate) mod history;
pub(crate) mod status;
mod table;
pub(crate) mod volumes;

use crate::fault::Fault;
use crate::visible;
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use wasmount_control::words::{Done, Version};
use wasmount_control::{Client, ControlError};

/// The socket in a data directory.
pub(crate) const ADMIN_SOCKET: &str = "admin.sock";

/// Which host.
#[derive(Debug, Args)]
pub(crate) struct HostFlags {
    /// Data directory of the host
    #[arg(
        long,
        value_name = "DIR",
        env = "WASMOUNT_DATA_DIR",
        default_value = "/var/lib/wasmount"
    )]
    data_dir: PathBuf,

    /// Admin socket of the host [default: admin.sock, in --data-dir]
    #[arg(long, value_name = "FILE", env = "WASMOUNT_ADMIN_SOCKET")]
    admin_socket: Option<PathBuf>,
}

/// Whether answers are for programs.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct FormFlags {
    /// Print JSON, as docs/admin.md describes it
    #[arg(long, env = "WASMOUNT_JSON")]
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
    /// Requests a change, and prints its result.
    fn change(
        self,
        question: impl AsyncFnOnce(&Client, &str) -> Result<Done, ControlError>,
    ) -> Result<(), Fault> {
        let Self { driver, host, form } = self;
        let done = ask(question(&host.client(), &driver))?;
        if form.json {
            return print_json(&done);
        }
        let mut text = format!("{}\n", visible::line(&done.said));
        for warning in &done.warnings {
            text.push_str(&format!("warning: {}\n", visible::line(warning)));
        }
        print(&text)
    }
}

impl HostFlags {
    fn client(self) -> Client {
        let socket = self.admin_socket;
        Client::new(socket.unwrap_or_else(|| self.data_dir.join(ADMIN_SOCKET)))
    }
}

/// Sends one request.
fn ask<T>(question: impl Future<Output = Result<T, ControlError>>) -> Result<T, Fault> {
    runtime()?.block_on(question).map_err(Fault::from)
}

fn runtime() -> Result<tokio::runtime::Runtime, Fault> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Fault::room("the command cannot be run"))
}

/// Prints to standard output, without colours if that is not a terminal. The reader may close the pipe.
fn print(text: &str) -> Result<(), Fault> {
    let mut output = anstream::stdout().lock();
    let printed = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Fault::room("the answer cannot be printed")(error))
        }
        _ => Ok(()),
    }
}

fn print_json(words: &impl Serialize) -> Result<(), Fault> {
    let text = serde_json::to_string_pretty(words);
    let text = text.map_err(Fault::room("the answer cannot be printed"))?;
    print(&format!("{text}\n"))
}

/// The text of a version in one cell.
fn numbered(version: Option<&Version>) -> String {
    version.map_or_else(|| "-".to_owned(), |version| version.number.to_string())
}
