//! Leaks its secret to every output: messages, answers, the log, the store, the pool; verbatim, quoted, in pieces.

use super::{Deed, Table};
use crate::{POOL, pairs};
use std::io::Write;
use wasmount_guest::state::{self, Expect};
use wasmount_guest::{ContentSource, Error, Topology, Volume, log, sealed_secrets, secrets};

/// The part of a message that the host keeps, in bytes: the secret lies across its end.
const MESSAGE_BYTES: usize = 2048;

/// The largest answer that the host accepts, less the text around the secret, in bytes.
const HUGE_MESSAGE_BYTES: usize = (4 << 20) - (1 << 10);

pub const DEEDS: Table<Deed> = &[
    ("secret-in-error", || Err(login_failed(password()))),
    ("secret-in-quotes", || {
        Err(login_failed(format!("{:?}", password())))
    }),
    ("secret-in-huge-error", || {
        let mut with = password().repeat(HUGE_MESSAGE_BYTES / password().len().max(1));
        with.truncate(with.floor_char_boundary(HUGE_MESSAGE_BYTES));
        Err(login_failed(with))
    }),
    ("secret-at-the-end", || {
        let filler = "e".repeat(MESSAGE_BYTES - "login with ".len() - password().len() / 2);
        Err(login_failed(format!("{filler}{}", password())))
    }),
    ("secret-in-log", || {
        let password = password();
        log::info(format!("login with {password}"), &[("key", &password)]);
        eprintln!("login with {password}");
        Ok(())
    }),
    ("secret-in-log-key", || {
        log::warn("login", &[(&password(), "failed")]);
        Ok(())
    }),
    ("secret-in-pieces", || {
        write_in_pieces();
        println!();
        Ok(())
    }),
    ("secret-in-pieces-and-trap", || {
        write_in_pieces();
        panic!("before the line has ended")
    }),
    ("half-a-secret-and-trap", || {
        let password = password();
        let half = password.get(..password.len() / 2).unwrap_or_default();
        eprint!("login with {half}");
        panic!("{half}")
    }),
    ("secret-in-panic", || panic!("login with {}", password())),
    ("secret-in-state", || {
        state::put("login", &password(), Expect::Any).map(drop)
    }),
    ("secret-in-state-key", || {
        state::put(&password(), &1_u64, Expect::Any).map(drop)
    }),
    ("secret-in-pool", || POOL.create_directory(&password())),
    ("seal-not-granted", || seal("volume-1").map(drop)),
    ("seal-of-node", || seal("volume-1").map(drop)),
];

/// Leaks that only an answer can contain.
pub const VOLUMES: Table<fn(&mut Volume)> = &[
    ("secret-in-id", |volume| {
        volume.id = format!("volume-{}", password())
    }),
    ("secret-in-context", |volume| {
        volume.context = pairs(&[("password", &password())]);
    }),
    ("secret-in-context-key", |volume| {
        volume.context = pairs(&[(&password(), "")]);
    }),
    ("secret-in-topology", |volume| {
        let segments = pairs(&[("zone", &password())]);
        volume.accessible_topology = vec![Topology { segments }];
    }),
    ("secret-in-source", |volume| {
        volume.content_source = Some(ContentSource::Volume(password()));
    }),
    ("scopes", |volume| volume.context = scopes()),
    ("seal", |volume| {
        let sealed = seal(&volume.id).unwrap_or_else(|error| error.message);
        volume.context = pairs(&[("sealedKey", &sealed)]);
    }),
    ("seal-and-tell", |volume| {
        let _ = seal(&volume.id);
        volume.context = pairs(&[("key", &key_of(&volume.id))]);
    }),
];

/// The secret of the request, or else the backend's.
pub fn password() -> String {
    let secret = secrets::of_request("password").or_else(|| secrets::of_backend("password"));
    secret
        .map(|secret| secret.expose().to_owned())
        .unwrap_or_default()
}

/// A key of a volume, as a storage system would make it.
fn key_of(volume: &str) -> String {
    format!("key-of-{volume}")
}

fn seal(volume: &str) -> Result<String, Error> {
    sealed_secrets::seal(volume, &secrets::Secret::new(key_of(volume)))
}

fn login_failed(with: String) -> Error {
    Error::unauthenticated(format!("login with {with} failed"))
}

fn write_in_pieces() {
    let password = password();
    let (begin, end) = password
        .split_at_checked(password.len() / 2)
        .unwrap_or_default();
    for piece in ["login with ", begin, end] {
        let mut out = std::io::stdout();
        let _ = out.write_all(piece.as_bytes());
        let _ = out.flush();
    }
}

/// The length of each secret, by scope: the values themselves must not be revealed.
fn scopes() -> Vec<(String, String)> {
    let length = |secret: Option<secrets::Secret>| {
        secret.map_or("none".to_owned(), |secret| {
            secret.expose().len().to_string()
        })
    };
    pairs(&[
        ("request", &length(secrets::of_request("password"))),
        ("backend", &length(secrets::of_backend("password"))),
    ])
}
