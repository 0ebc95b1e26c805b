//! The history on disk, in two files of which the newer one is used: what a killed host leaves.

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// The files, by the last bit of their turn.
pub(crate) fn files(versions: &Path) -> [PathBuf; 2] {
    ["history.0.json", "history.1.json"].map(|name| versions.join(name))
}

/// The newest one.
pub(crate) fn newest(versions: &Path) -> Value {
    let (_, file) = newest_of(versions);
    file["text"].clone()
}

/// The file that is written next.
pub(crate) fn next(versions: &Path) -> PathBuf {
    let (turn, _) = newest_of(versions);
    let [even, odd] = files(versions);
    if turn % 2 == 0 { odd } else { even }
}

/// Writes it as a host does.
pub(crate) fn write(versions: &Path, history: &Value) {
    let (turn, _) = newest_of(versions);
    let (turn, text) = (turn + 1, history.to_string());
    let digest = Sha256::new()
        .chain_update(turn.to_le_bytes())
        .chain_update(&text);
    let digest: String = digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let bytes = text.len();
    let content = format!(
        "{{\"turn\":\"{turn:020}\",\"bytes\":\"{bytes:020}\",\"sha256\":\"{digest}\",\"text\":{text}}}"
    );
    fs::write(next(versions), content).unwrap();
}

fn newest_of(versions: &Path) -> (u64, Value) {
    let read = files(versions).into_iter().filter_map(|file| {
        let value: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
        let turn = value["turn"].as_str()?.parse().ok()?;
        Some((turn, value))
    });
    read.max_by_key(|(turn, _)| *turn).unwrap()
}
