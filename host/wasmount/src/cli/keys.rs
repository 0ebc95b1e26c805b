//! Key files that the command line names.

use super::common::wrong;
use crate::fault::Fault;
use crate::regular_file;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wasmount_artifact::signature::{
    KEY_BYTES, NamedKey, Password, PrivateKey, PrivateKeyFile, SignerKeys, VerifyingKey,
};

/// The flag that names a key.
const FLAG: &str = "--key";
/// Mode bits for the group and for others.
const OTHERS: u32 = 0o077;

/// Variables with the password, in this order; never a flag, which every process of the machine can read. The second is cosign's, so that one set-up
/// serves both. An empty value is an empty password.
const PASSWORD_VARIABLES: [&str; 2] = ["WASMOUNT_KEY_PASSWORD", "COSIGN_PASSWORD"];

/// Longest password that is read from a terminal, in bytes.
const PASSWORD_BYTES: usize = 1024;

/// The private key of a file; asks for its password if it has one.
pub(super) fn private_key(path: &Path) -> Result<PrivateKey, Fault> {
    let text = text(path)?;
    // Logged, not rejected: a key mounted from a Secret is readable by its group.
    if let Ok(about) = fs::metadata(path)
        && about.mode() & OTHERS != 0
    {
        let path = path.display();
        let _ = writeln!(
            io::stderr(),
            "wasmount: warning: others than its owner may read or write the private key {path}; `chmod 600 {path}`"
        );
    }
    let file = PrivateKeyFile::from_pem(&text);
    match file.map_err(|refused| wrong(FLAG, path, refused))? {
        PrivateKeyFile::Plain(key) => Ok(key),
        PrivateKeyFile::Sealed(sealed) => {
            let key = sealed.open(&password()?);
            key.map_err(Fault::failed(format!("the private key {}", path.display())))
        }
    }
}

/// The password of the private key: from the environment, as in cosign, or from the terminal.
fn password() -> Result<Password, Fault> {
    if let Some(value) = PASSWORD_VARIABLES.into_iter().find_map(env::var_os) {
        return Ok(Password::new(value.into_vec()));
    }
    let impossible = format!(
        "the password cannot be read from a terminal; set {} instead",
        PASSWORD_VARIABLES.join(" or ")
    );
    prompt("Password of the private key: ").map_err(Fault::failed(impossible))
}

/// Reads a line from the terminal without echo, wherever input and output of the process are directed.
fn prompt(question: &str) -> io::Result<Password> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let before = tcgetattr(&terminal)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    // The newline is echoed, or else the next line of output would continue the question.
    silent.local_modes.insert(LocalModes::ECHONL);
    // Before the question, so that nothing of the answer is echoed. Earlier input is discarded, since it was no answer.
    tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
    // A terminal returns one line at a time.
    let mut line = vec![0; PASSWORD_BYTES + 1];
    let written = terminal.write_all(question.as_bytes());
    let length = written.and_then(|()| terminal.read(&mut line));
    // A terminal that is closed needs no echo.
    let _ = tcsetattr(&terminal, OptionalActions::Drain, &before);
    line.truncate(length?);
    match line.pop() {
        Some(b'\n') => Ok(Password::new(line)),
        _ => Err(io::Error::other(format!(
            "no complete line of at most {PASSWORD_BYTES} bytes was entered"
        ))),
    }
}

/// The public keys of some files: a signature by one of them is required, or by each.
pub(super) fn signer_keys(paths: &[PathBuf], each: bool) -> Result<SignerKeys, Fault> {
    let key = |path: &PathBuf| {
        let key = VerifyingKey::from_pem(&text(path)?);
        let key = key.map_err(|refused| wrong(FLAG, path, refused))?;
        Ok(NamedKey::new(path.display().to_string(), key))
    };
    let keys = paths.iter().map(key).collect::<Result<Vec<_>, Fault>>()?;
    Ok(match each {
        true => SignerKeys::new(Vec::new(), keys),
        false => SignerKeys::new(keys, Vec::new()),
    })
}

fn text(path: &Path) -> Result<String, Fault> {
    let bytes = regular_file::read(path, KEY_BYTES as u64);
    let bytes = bytes.map_err(|refused| wrong(FLAG, path, refused))?;
    String::from_utf8(bytes).map_err(|_| wrong(FLAG, path, "is not text"))
}
