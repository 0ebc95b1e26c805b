//! Puts blobs and manifests into a registry (OCI distribution specification 1.1, "Pushing").

use super::exchange::Ask;
use super::failed::{Failed, Retries};
use super::{CONTENT_DIGEST, Registry, header};
use crate::digest::Digest;
use crate::error::RegistryError;
use crate::manifest::{Descriptor, Index};
use crate::media_type::OCI_INDEX;
use crate::origin;
use crate::words::{QUOTED_CHARACTERS, short};
use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderMap, Method, Uri};

/// The type of a blob on its way: what it is, only the manifest says.
const BLOB: &str = "application/octet-stream";
/// A registry that knows referrers answers with it when a manifest has a subject.
const SUBJECT: &str = "oci-subject";

impl Registry {
    /// Puts a blob there, unless it is there already.
    pub async fn push_blob(&self, name: &str, bytes: Bytes) -> Result<(), RegistryError> {
        let digest = Digest::of(&bytes);
        if self.has_blob(&digest).await? {
            return Ok(());
        }
        let what = format!("{name} for {}", self.reference);
        let mut retries = Retries::default();
        loop {
            match self.push_blob_once(&what, &digest, &bytes).await {
                Ok(()) => return Ok(()),
                Err(failed) => self.pause(&mut retries, failed).await?,
            }
        }
    }

    /// Puts a manifest or a list there, under this tag or digest.
    pub async fn push_manifest(
        &self,
        wanted: &str,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<Digest, RegistryError> {
        self.put_manifest(wanted, media_type, bytes)
            .await
            .map(|(digest, _)| digest)
    }

    /// Puts a manifest there that speaks of another, so that it is found from there, whatever the registry knows of such things.
    pub async fn attach(
        &self,
        subject: &Digest,
        attached: &Descriptor,
        bytes: Vec<u8>,
    ) -> Result<(), RegistryError> {
        let digest = attached.digest.as_str();
        let (_, headers) = self
            .put_manifest(digest, &attached.media_type, bytes)
            .await?;
        if headers.contains_key(SUBJECT) {
            return Ok(());
        }
        // "Pushing Manifests with Subject": the client keeps a list at a tag of its own.
        let mut others = self.listed_by_tag(subject).await?;
        if others.iter().any(|it| it.digest == attached.digest) {
            return Ok(());
        }
        others.push(attached.clone());
        let list = Index::new(others);
        let tag = super::referrers::tag(subject);
        self.push_manifest(&tag, OCI_INDEX, list.to_bytes()).await?;
        Ok(())
    }

    async fn put_manifest(
        &self,
        wanted: &str,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<(Digest, HeaderMap), RegistryError> {
        let what = format!("the manifest `{wanted}` for {}", self.reference);
        let digest = Digest::of(&bytes);
        let uri = self.uri(&format!("manifests/{wanted}"), &what)?;
        let ask = Ask::push(Method::PUT, uri, &what).with(media_type, Bytes::from(bytes));
        let mut retries = Retries::default();
        let response = loop {
            match self.exchange(&ask).await {
                Ok(response) => break response,
                Err(failed) => self.pause(&mut retries, failed).await?,
            }
        };
        let headers = response.headers().clone();
        match header(&headers, CONTENT_DIGEST) {
            Some(other) if other != digest.as_str() => Err(RegistryError::WrongDigest {
                what,
                wanted: digest.to_string(),
                got: short(other, QUOTED_CHARACTERS),
            }),
            _ => Ok((digest, headers)),
        }
    }

    /// An upload is begun, and ended with all bytes at once.
    async fn push_blob_once(
        &self,
        what: &str,
        digest: &Digest,
        bytes: &Bytes,
    ) -> Result<(), Failed> {
        let begin = self.uri("blobs/uploads/", what).map_err(Failed::for_good)?;
        let response = self
            .exchange(&Ask::push(Method::POST, begin.clone(), what))
            .await?;
        let Some(location) = header(response.headers(), LOCATION.as_str()) else {
            let reason = "an upload was begun without an address to go on at".to_owned();
            return Err(Failed::for_good(self.malformed(what, reason)));
        };
        let to = self.allowed(&begin, location, origin::resolved(&begin, location), what)?;
        let sign = if to.query().is_some() { '&' } else { '?' };
        let to: Uri = format!("{to}{sign}digest={digest}").parse().map_err(|_| {
            Failed::for_good(self.malformed(what, "an upload goes on at no address".to_owned()))
        })?;
        let ask = Ask::push(Method::PUT, to, what).with(BLOB, bytes.clone());
        self.exchange(&ask).await.map(|_| ())
    }
}
