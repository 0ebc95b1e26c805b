//! Reads what a registry sends: counted and hashed as it comes, never more than may be, never longer than may be.

use super::Registry;
use super::failed::Failed;
use super::header;
use super::transport::innermost;
use crate::digest::Hasher;
use crate::error::RegistryError;
use crate::manifest::Descriptor;
use crate::progress::Step;
use http::Response;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

/// What must come.
#[derive(Clone, Copy)]
pub(super) struct Expected<'a> {
    what: &'a str,
    most: u64,
    blob: Option<&'a Descriptor>,
}

impl<'a> Expected<'a> {
    /// Anything, not more than so many bytes.
    pub(super) fn at_most(what: &'a str, most: u64) -> Self {
        Self {
            what,
            most,
            blob: None,
        }
    }

    /// These bytes and no others; how many there are was judged before.
    pub(super) fn blob(what: &'a str, blob: &'a Descriptor) -> Self {
        Self {
            what,
            most: blob.size,
            blob: Some(blob),
        }
    }

    /// That there are more bytes, or other ones, than may be.
    fn overflow(&self, got: u64) -> Failed {
        let what = self.what.to_owned();
        Failed::for_good(match self.blob {
            None => RegistryError::TooLarge {
                what,
                most: self.most,
            },
            Some(blob) => RegistryError::WrongSize {
                what,
                wanted: blob.size,
                got,
            },
        })
    }
}

impl Registry {
    /// All of an answer.
    pub(super) async fn read(
        &self,
        response: Response<Incoming>,
        expected: Expected<'_>,
    ) -> Result<Vec<u8>, Failed> {
        let declared = header(response.headers(), CONTENT_LENGTH.as_str())
            .and_then(|length| length.parse::<u64>().ok());
        match declared {
            // Not a byte of it is read.
            Some(length) if length > expected.most => return Err(expected.overflow(length)),
            Some(length) if expected.blob.is_some_and(|it| it.size != length) => {
                return Err(expected.overflow(length));
            }
            _ => {}
        }
        if let Some(blob) = expected.blob {
            (self.progress)(Step::Begins(blob.size));
        }
        let mut body = response.into_body();
        let mut bytes = Vec::new();
        let mut hasher = Hasher::default();
        loop {
            let by = Instant::now() + self.access.patience.silence;
            let frame = match timeout_at(by.min(self.until), body.frame()).await {
                Err(_) => return Err(self.slow(expected.what, self.host())),
                Ok(None) => break,
                Ok(Some(Err(error))) => {
                    let reason = format!(" ({})", innermost(&error));
                    return Err(self.truncated(expected, bytes.len() as u64, reason));
                }
                Ok(Some(Ok(frame))) => frame,
            };
            // Trailers are of no use here.
            let Ok(piece) = frame.into_data() else {
                continue;
            };
            let got = (bytes.len() as u64).saturating_add(piece.len() as u64);
            if got > expected.most {
                return Err(expected.overflow(got));
            }
            hasher.update(&piece);
            bytes.extend_from_slice(&piece);
            if expected.blob.is_some() {
                (self.progress)(Step::Moved(piece.len() as u64));
            }
        }
        if let Some(blob) = expected.blob {
            if (bytes.len() as u64) < blob.size {
                return Err(self.truncated(expected, bytes.len() as u64, String::new()));
            }
            let got = hasher.finish();
            if got != blob.digest {
                return Err(Failed::for_good(RegistryError::WrongDigest {
                    what: expected.what.to_owned(),
                    wanted: blob.digest.to_string(),
                    got: got.to_string(),
                }));
            }
        }
        Ok(bytes)
    }

    fn truncated(&self, expected: Expected<'_>, got: u64, reason: String) -> Failed {
        Failed::perhaps_not(RegistryError::Truncated {
            what: expected.what.to_owned(),
            host: self.host(),
            got,
            reason,
        })
    }
}
