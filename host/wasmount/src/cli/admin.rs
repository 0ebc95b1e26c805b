//! Commands that ask a running host by its admin socket: what they share.
//!
//! What a host answers is `wasmount_control`'s; nothing here knows how it is done.

pub(crate) mod delete;
pub(crate) mod drain;
pub(crate) mod history;
pub(crate) mod pause;
pub(crate) mod resume;
pub(crate) mod rollback;
pub(crate) mod status;
pub(crate) mod swap;
mod table;
pub(crate) mod volumes;
mod when;

use crate::fault::Fault;
use crate::visible;
use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use wasmount_control::words::{Done, Version};
use wasmount_control::{Client, ControlError};

/// Digits of a digest that tell two versions apart for a person. 12, as container runtimes show.
const DIGEST_DIGITS: usize = 12;

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

impl HostFlags {
    fn client(self) -> Client {
        let socket = self.admin_socket;
        Client::new(socket.unwrap_or_else(|| self.data_dir.join(ADMIN_SOCKET)))
    }
}

/// Asks one question.
fn ask<T>(question: impl Future<Output = Result<T, ControlError>>) -> Result<T, Fault> {
    runtime()?.block_on(question).map_err(Fault::from)
}

fn runtime() -> Result<tokio::runtime::Runtime, Fault> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Fault::room("the command cannot be run"))
}

/// Prints to standard output; colours go where nobody would see them as such. Whoever reads may stop reading.
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

/// What a change came to.
fn print_done(done: &Done, form: FormFlags) -> Result<(), Fault> {
    if form.json {
        return print_json(done);
    }
    let mut text = format!("{}\n", visible::line(&done.said));
    for warning in &done.warnings {
        text.push_str(&format!("warning: {}\n", visible::line(warning)));
    }
    print(&text)
}

/// The first digits of a digest.
fn short(digest: &str) -> &str {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    digits.get(..DIGEST_DIGITS).unwrap_or(digits)
}

/// A version in one cell.
fn numbered(version: Option<&Version>) -> String {
    version.map_or_else(|| "-".to_owned(), |version| version.number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_shown_by_its_first_digits() {
        assert_eq!(short("sha256:0123456789abcdef"), "0123456789ab");
        assert_eq!(short("0123"), "0123");
    }
}
