//! Reads the secrets that a document refers to.
//!
//! They are read again at each attempt of admission: a file that is created late is found.

use crate::regular_file::{self, Refused};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use wasmount_core::document::SecretSource;
use wasmount_core::secrets::Secrets;
use wasmount_kubernetes::storage_backend::{SecretName, SecretReader, SecretUnread};

/// Largest secret, in bytes: what a Kubernetes Secret can hold.
const SECRET_BYTES: u64 = 1 << 20;

/// The name of a registry's credentials in messages.
const CREDENTIALS: &str = "plugin.credentials";

/// A secret that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SecretError {
    /// Its file cannot be read, or must not be.
    #[error("secret `{name}`: {} {source}", .path.display())]
    Refused {
        /// The name of the secret.
        name: String,
        /// Its file.
        path: PathBuf,
        /// The cause.
        source: Refused,
    },
    /// Its content is not text, and the contract passes secrets as text.
    #[error("secret `{name}`: {} is not UTF-8 text", .path.display())]
    NotText {
        /// The name of the secret.
        name: String,
        /// Its file.
        path: PathBuf,
    },
    /// It is a Kubernetes Secret, and there is no API server.
    #[error(
        "secret `{name}`: it is a Kubernetes Secret, and there is no API server here to read it from; name a `file` in the document, or `--secret {name}=FILE` to a command"
    )]
    NoCluster {
        /// The name of the secret.
        name: String,
    },
    /// The API server does not return it.
    #[error("secret `{name}`: {source}")]
    Object {
        /// The name of the secret.
        name: String,
        /// The cause.
        source: SecretUnread,
    },
    /// The host is shutting down.
    #[error("the reading of secrets was stopped")]
    Stopped,
}

/// Reads all secrets of a document. Kubernetes Secrets are read with `objects`; none: there is no API server.
pub(super) async fn read(
    sources: BTreeMap<String, SecretSource>,
    objects: Option<&SecretReader>,
) -> Result<Secrets, SecretError> {
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
) -> Result<(Vec<u8>, String), SecretError> {
    let value = one(CREDENTIALS, source, objects).await?;
    let found = match source {
        SecretSource::File(path) => path.display().to_string(),
        SecretSource::Object {
            namespace, name, ..
        } => format!("Secret {namespace}/{name}"),
    };
    Ok((value.into_bytes(), found))
}

async fn one(
    name: &str,
    source: &SecretSource,
    objects: Option<&SecretReader>,
) -> Result<String, SecretError> {
    match source {
        SecretSource::File(path) => {
            let (name, path) = (name.to_owned(), path.clone());
            // Reading a file may block.
            tokio::task::spawn_blocking(move || secret(&name, &path))
                .await
                .map_err(|_| SecretError::Stopped)?
        }
        SecretSource::Object {
            namespace,
            name: object,
            key,
        } => {
            let name = name.to_owned();
            let Some(objects) = objects else {
                return Err(SecretError::NoCluster { name });
            };
            let secret = SecretName {
                namespace: namespace.clone(),
                name: object.clone(),
            };
            match objects.read(&secret, key).await {
                Ok(mut value) => Ok(std::mem::take(&mut *value)),
                Err(source) => Err(SecretError::Object { name, source }),
            }
        }
    }
}

/// Editors and `echo` end a file with a line break that is not part of the secret.
fn secret(name: &str, path: &Path) -> Result<String, SecretError> {
    let (name, path) = (name.to_owned(), path.to_owned());
    let bytes = match regular_file::read(&path, SECRET_BYTES) {
        Ok(bytes) => bytes,
        Err(source) => return Err(SecretError::Refused { name, path, source }),
    };
    let Ok(mut text) = String::from_utf8(bytes) else {
        return Err(SecretError::NotText { name, path });
    };
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

    async fn read_file(path: PathBuf) -> Result<String, String> {
        let sources = BTreeMap::from([("password".to_owned(), SecretSource::File(path))]);
        let secrets = read(sources, None)
            .await
            .map_err(|error| error.to_string())?;
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
        for (path, said) in [
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
                format!("secret `password`: {said}")
            );
        }
    }
}
