//! Reads the secrets that a document refers to.
//!
//! They are read again at each attempt of admission: a file that is created late is found.

use crate::regular_file;
use std::collections::BTreeMap;
use std::path::Path;
use wasmount_core::document::SecretSource;
use wasmount_core::secrets::Secrets;
use wasmount_core::text::chain;
use wasmount_kubernetes::storage_backend::{SecretName, SecretReader};

/// Largest secret, in bytes: what a Kubernetes Secret can hold.
const SECRET_BYTES: u64 = 1 << 20;

/// The name of a registry's credentials in messages.
const CREDENTIALS: &str = "plugin.credentials";

/// Reads all secrets of a document. Kubernetes Secrets are read with `objects`; none: there is no API server. An error names the secret.
pub(super) async fn read(
    sources: BTreeMap<String, SecretSource>,
    objects: Option<&SecretReader>,
) -> Result<Secrets, String> {
    let mut read = Vec::new();
    for (name, source) in sources {
        let value = one(&name, &source, objects).await?;
        read.push((name, value));
    }
    Ok(read.into_iter().collect())
}

/// The credentials for a pull, and their name in messages.
pub(super) async fn credentials(
    source: &SecretSource,
    objects: Option<&SecretReader>,
) -> Result<(String, String), String> {
    let value = one(CREDENTIALS, source, objects).await?;
    let found = match source {
        SecretSource::File(path) => path.display().to_string(),
        SecretSource::Object {
            namespace, name, ..
        } => format!("Secret {namespace}/{name}"),
    };
    Ok((value, found))
}

async fn one(
    name: &str,
    source: &SecretSource,
    objects: Option<&SecretReader>,
) -> Result<String, String> {
    let read = match (source, objects) {
        (SecretSource::File(path), _) => {
            let path = path.clone();
            // Reading a file may block.
            let read = tokio::task::spawn_blocking(move || of_file(&path)).await;
            read.unwrap_or_else(|_| Err("the reading of secrets was stopped".to_owned()))
        }
        (SecretSource::Object { .. }, None) => Err(format!(
            "it is a Kubernetes Secret, and there is no API server here to read it from; name a `file` in the document, or `--secret {name}=FILE` to a command"
        )),
        (
            SecretSource::Object {
                namespace,
                name,
                key,
            },
            Some(objects),
        ) => {
            let secret = SecretName {
                namespace: namespace.clone(),
                name: name.clone(),
            };
            let read = objects.read(&secret, key).await;
            read.map(|mut value| std::mem::take(&mut *value))
                .map_err(|error| chain(&error))
        }
    };
    read.map_err(|reason| format!("secret `{name}`: {reason}"))
}

/// Editors and `echo` end a file with a line break that is not part of the secret.
fn of_file(path: &Path) -> Result<String, String> {
    let refused = |reason: String| format!("{} {reason}", path.display());
    let bytes = regular_file::read(path, SECRET_BYTES).map_err(|it| refused(it.to_string()))?;
    let text = String::from_utf8(bytes);
    let mut text = text.map_err(|_| refused("is not UTF-8 text".to_owned()))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    async fn read_file(path: PathBuf) -> Result<String, String> {
        let sources = BTreeMap::from([("password".to_owned(), SecretSource::File(path))]);
        let secrets = read(sources, None).await?;
        Ok(secrets.get("password").unwrap().to_owned())
    }

    #[tokio::test]
    async fn one_line_break_at_the_end_is_no_part_of_a_secret() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (content, secret) in [
            ("hunter2\n", "hunter2"),
            ("hunter2\r\n", "hunter2"),
            ("hunter2", "hunter2"),
            ("a\n\n", "a\n"),
            (" a \n", " a "),
            ("", ""),
        ] {
            std::fs::write(file.path(), content).unwrap();
            assert_eq!(read_file(file.path().to_owned()).await.unwrap(), secret);
        }
    }

    #[tokio::test]
    async fn a_secret_that_cannot_be_used_is_named_and_not_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"hunter2\xff").unwrap();
        let binary = file.path().display().to_string();
        let large = tempfile::NamedTempFile::new().unwrap();
        large.as_file().set_len(SECRET_BYTES + 1).unwrap();
        let large_file = large.path().display().to_string();
        for (path, message) in [
            (
                "/nowhere/password",
                "/nowhere/password cannot be read: No such file or directory (os error 2)",
            ),
            ("/dev/zero", "/dev/zero is not a regular file"),
            (
                large_file.as_str(),
                &format!("{large_file} is larger than 1048576 bytes"),
            ),
            (binary.as_str(), &format!("{binary} is not UTF-8 text")),
        ] {
            assert_eq!(
                read_file(path.into()).await.unwrap_err(),
                format!("secret `password`: {message}")
            );
        }
    }
}
