//! An authority and a certificate of it for this machine, made anew for each test by `openssl`.

use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command;

/// In a directory of the test.
pub(crate) struct Certificates {
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificates {
    pub(crate) fn make(folder: &Path) -> Self {
        let at = |name: &str| folder.join(name);
        let (authority, authority_key) = (at("ca.pem"), at("ca.key"));
        let (certificate, key) = (at("server.pem"), at("server.key"));
        let new = [
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ];
        run(Command::new("openssl")
            .args(new)
            .args(["-subj", "/CN=authority of a test"])
            .args(["-addext", "basicConstraints=critical,CA:TRUE"])
            .arg("-keyout")
            .arg(&authority_key)
            .arg("-out")
            .arg(&authority));
        run(Command::new("openssl")
            .args(new)
            .args(["-subj", "/CN=registry of a test"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
            .arg("-CA")
            .arg(&authority)
            .arg("-CAkey")
            .arg(&authority_key)
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate));
        Self {
            authority,
            certificate,
            key,
        }
    }
}

fn run(command: &mut Command) {
    command::read(command).unwrap();
}
