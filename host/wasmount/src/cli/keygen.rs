//! `wasmount keygen`: a key pair, in the files and forms of `cosign generate-key-pair`.

use super::password;
use super::transfer::say;
use crate::fault::Fault;
use clap::Args;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use wasmount_artifact::signature::PrivateKey;

/// For its owner's eyes, and for everybody's.
const PRIVATE: u32 = 0o600;
const PUBLIC: u32 = 0o644;

/// Generate a key pair for signing components
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  $ wasmount keygen --output-key-prefix acme

Writes acme.key, which stays with you, and acme.pub, which documents name in plugin.verify. They are those of cosign, and cosign's are read here.
The private key is encrypted with a password from WASMOUNT_KEY_PASSWORD or COSIGN_PASSWORD, else it is asked for; it may be empty. Prints the
fingerprint of the public key, SHA-256 of its DER form.

Exit codes: 0, 64 for wrong flags, 1 for any other failure.")]
pub(crate) struct Flags {
    /// Name of both files, without .key and .pub
    #[arg(
        long,
        value_name = "PREFIX",
        env = "WASMOUNT_OUTPUT_KEY_PREFIX",
        default_value = "cosign"
    )]
    output_key_prefix: PathBuf,
}

/// Makes it.
pub(crate) fn run(flags: &Flags) -> Result<(), Fault> {
    let private = with(&flags.output_key_prefix, ".key");
    let public = with(&flags.output_key_prefix, ".pub");
    // Before a password is asked for; the files are made so that what comes meanwhile is kept too.
    for path in [&private, &public] {
        if path.symlink_metadata().is_ok() {
            return Err(not_written(path)(io::ErrorKind::AlreadyExists.into()));
        }
    }
    let failed = "no key is made";
    let key = PrivateKey::generate().map_err(Fault::room(failed))?;
    let sealed = key.seal(&password::of_new_key()?);
    let sealed = sealed.and_then(|sealed| sealed.to_pem());
    let sealed = sealed.map_err(Fault::room(failed))?;
    let verifying = key.verifying_key();
    create(&private, PRIVATE, &sealed).map_err(not_written(&private))?;
    if let Err(error) = create(&public, PUBLIC, &verifying.to_pem()) {
        // Half a pair is of no use, and would be in the way of the next attempt.
        let _ = fs::remove_file(&private);
        return Err(not_written(&public)(error));
    }
    let (private, public) = (private.display(), public.display());
    let fingerprint = verifying.fingerprint();
    say(&format!("{private}\n{public} {fingerprint}\n"))
}

/// A file that was not there, on stable storage.
fn create(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

fn not_written(path: &Path) -> impl FnOnce(io::Error) -> Fault {
    let path = path.display().to_string();
    move |error| {
        let what = format!("{path} is not written");
        match error.kind() {
            io::ErrorKind::AlreadyExists => Fault::room(what)(
                "it exists, and a key that is overwritten is lost; choose another --output-key-prefix, or move it away",
            ),
            _ => Fault::room(what)(error),
        }
    }
}

fn with(prefix: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(prefix);
    name.push(suffix);
    PathBuf::from(name)
}
