//! Answers that break a rule of CSI or of the contract.

use wasmount_guest::{ContentSource, Error, Topology, Volume, secrets, state};

/// The volume, spoilt as named.
pub fn volume(behaviour: &str, mut volume: Volume) -> Result<Volume, Error> {
    let secret = secrets::of_request("password").or_else(|| secrets::of_backend("password"));
    let password = secret
        .as_ref()
        .map(secrets::Secret::expose)
        .unwrap_or_default();
    match behaviour {
        "error" => return Err(Error::out_of_range("no such size")),
        "secret-in-error" => {
            return Err(Error::unauthenticated(format!(
                "login with {password} failed"
            )));
        }
        "secret-in-log" => {
            wasmount_guest::log::info(format!("login with {password}"), &[("key", password)]);
            eprintln!("login with {password}");
        }
        "secret-in-panic" => panic!("login with {password}"),
        "secret-in-id" => volume.id = format!("volume-{password}"),
        "secret-in-context" => volume.context = pairs(&[("password", password)]),
        "empty-id" => volume.id = String::new(),
        "long-id" => volume.id = "v".repeat(129),
        "nul-id" => volume.id = "a\0b".to_owned(),
        "big-context" => volume.context = pairs(&[("key", &"v".repeat(4096))]),
        "key-twice" => volume.context = pairs(&[("key", "1"), ("key", "2")]),
        "too-large" => volume.capacity_bytes = 1 << 62,
        "beyond-csi" => volume.capacity_bytes = u64::MAX,
        "unknown-size" => volume.capacity_bytes = 0,
        "other-source" => volume.content_source = Some(ContentSource::Volume("other".to_owned())),
        "bad-topology" => {
            volume.accessible_topology = vec![Topology {
                segments: pairs(&[("zone/", "a b")]),
            }];
        }
        "huge-answer" => volume.context = pairs(&[("key", &"v".repeat(5 << 20))]),
        "long-error" => {
            return Err(Error::internal(
                "\u{1b}[2J".to_owned() + &"e".repeat(1 << 20),
            ));
        }
        "write-state" => {
            state::create("written", &1_u64)?;
        }
        "big-key" => {
            state::get::<u64>(&"k".repeat(1025))?;
        }
        "big-value" => {
            state::put("key", &vec![0_u8; (1 << 20) + 1], state::Expect::Any)?;
        }
        "empty-key" => {
            state::get::<u64>("")?;
        }
        "scopes" => volume.context = scopes(),
        _ => {}
    }
    Ok(volume)
}

/// How long each secret is, by scope: the values themselves must not leave.
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

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}
