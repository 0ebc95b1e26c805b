//! Reads a request from its argument, a file or standard input.

use crate::fault::Fault;
use crate::regular_file;
use serde_json::Value;
use std::fmt::Display;
use std::io;
use std::path::Path;

/// Largest request in bytes: gRPC's own default, which every CSI client is built with.
const REQUEST_BYTES: u64 = 4 << 20;

/// Without an argument the request is empty.
pub(super) fn read(value: Option<&str>) -> Result<Value, Fault> {
    let Some(value) = value else {
        return Ok(Value::Null);
    };
    let (source, bytes) = match value.strip_prefix('@') {
        Some(file) => (value, regular_file::read(Path::new(file), REQUEST_BYTES)),
        None if value == "-" => ("-", regular_file::bounded(io::stdin(), REQUEST_BYTES, 0)),
        None if value.trim_start().starts_with('{') => ("{..}", Ok(value.as_bytes().to_vec())),
        None => {
            // The argument is never shown, whatever it is.
            return Err(wrong("of this call", "must be `@FILE`, `-` or `{..}`"));
        }
    };
    let bytes = bytes.map_err(|refused| wrong(source, refused))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong(source, "is not UTF-8 text"))?;
    serde_saphyr::from_str(&text).map_err(|error| {
        let line = error.location().map(|it| it.line()).unwrap_or_default();
        let reason = format!("is neither YAML nor JSON, from line {line} on");
        wrong(source, reason)
    })
}

fn wrong(source: &str, reason: impl Display) -> Fault {
    Fault::flag("request", source, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_and_json_are_read_alike() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let expected = json!({"name": "a", "capacity_range": {"required_bytes": 7}});
        for text in [
            "name: a\ncapacity_range: { required_bytes: 7 }\n",
            "{\"name\":\"a\",\"capacity_range\":{\"required_bytes\":7}}",
        ] {
            std::fs::write(file.path(), text).unwrap();
            let value = format!("@{}", file.path().display());
            assert_eq!(read(Some(&value)).unwrap(), expected);
        }
        assert_eq!(read(Some(" {name: a}")).unwrap(), json!({"name": "a"}));
        assert_eq!(read(None).unwrap(), Value::Null);
    }

    #[test]
    fn what_cannot_be_read_is_never_shown() {
        for (value, message) in [
            (
                "hunter22",
                "request of this call: must be `@FILE`, `-` or `{..}`",
            ),
            (
                "{hunter22: [",
                "request {..}: is neither YAML nor JSON, from line 1 on",
            ),
            (
                "@/nowhere",
                "request @/nowhere: cannot be read: No such file or directory (os error 2)",
            ),
        ] {
            assert_eq!(read(Some(value)).unwrap_err().to_string(), message);
        }
    }
}
