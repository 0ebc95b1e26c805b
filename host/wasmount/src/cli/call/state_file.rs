//! A plugin's records in a file, so that several calls share them: one JSON object, each value the text of a record, or `{"hex": ..}` of a record
//! that is not text.

use crate::cli::common::wrong;
use crate::fault::Fault;
use crate::host::Records;
use crate::regular_file;
use crate::whole_file;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;

/// The flag that names the file.
const FLAG: &str = "--state";
/// Largest file in bytes: what `limits.stateBytes` allows by default.
const FILE_BYTES: u64 = 256 << 20;

/// Reads the records; a missing file has none.
pub(super) fn read(file: &Path) -> Result<Records, Fault> {
    let bytes = regular_file::read_if_there(file, FILE_BYTES)
        .map_err(|refused| wrong(FLAG, file, refused))?;
    let Some(bytes) = bytes else {
        return Ok(Records::new());
    };
    let object: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|error| {
        let reason = format!("is not one JSON object of records: {error}");
        wrong(FLAG, file, reason)
    })?;
    object
        .into_iter()
        .map(|(key, value)| {
            let bytes = from_json(&value).ok_or_else(|| {
                let reason = format!("`{key}` must be a text, or `{{\"hex\": \"..\"}}`");
                wrong(FLAG, file, reason)
            })?;
            Ok((key, bytes))
        })
        .collect()
}

/// Replaces the file as a whole.
pub(super) fn write(file: &Path, records: &Records) -> Result<(), Fault> {
    let object: Map<String, Value> = records
        .iter()
        .map(|(key, value)| (key.clone(), to_json(value)))
        .collect();
    let failed = || format!("the records cannot be written to {}", file.display());
    let mut text = serde_json::to_vec_pretty(&object).map_err(Fault::failed(failed()))?;
    text.push(b'\n');
    // Records name volumes, so the file is private.
    whole_file::write(file, whole_file::PRIVATE_FILE, |new| new.write_all(&text))
        .map_err(Fault::failed(failed()))
}

/// A record as JSON: its text, or its bytes.
pub(super) fn to_json(value: &[u8]) -> Value {
    match std::str::from_utf8(value) {
        Ok(text) => json!(text),
        Err(_) => json!({ "hex": hex::encode(value) }),
    }
}

fn from_json(value: &Value) -> Option<Vec<u8>> {
    if let Value::String(text) = value {
        return Some(text.clone().into_bytes());
    }
    hex::decode(value.get("hex")?.as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn replacing_a_file_leaves_neighbours_and_link_targets() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("victim"), "kept").unwrap();
        std::os::unix::fs::symlink(path("victim"), path("records.json.new")).unwrap();
        write(&path("records.json"), &Records::new()).unwrap();
        assert_eq!(fs::read(path("victim")).unwrap(), b"kept");
        assert_eq!(
            fs::read_link(path("records.json.new")).unwrap(),
            path("victim")
        );
        assert_eq!(read(&path("records.json")).unwrap(), Records::new());
    }

    #[test]
    fn records_come_back_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("records.json");
        assert_eq!(read(&file).unwrap(), Records::new());
        let records = Records::from([
            ("text".to_owned(), b"{\"a\":1}\n".to_vec()),
            ("bytes".to_owned(), vec![0, 0xff, 0x7f]),
            ("nothing".to_owned(), Vec::new()),
        ]);
        write(&file, &records).unwrap();
        assert_eq!(read(&file).unwrap(), records);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_file_of_records_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, part) in [
            ("[]", "is not one JSON object of records"),
            ("", "is not one JSON object of records"),
            ("{\"a\": 1}", "`a` must be a text, or `{\"hex\": \"..\"}`"),
            ("{\"a\": {\"hex\": \"0\"}}", "`a` must be a text"),
            ("{\"a\": {\"hex\": \"0g\"}}", "`a` must be a text"),
        ] {
            fs::write(file.path(), text).unwrap();
            let message = read(file.path()).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
