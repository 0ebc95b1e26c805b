//! Pushes blobs and manifests to a registry (OCI distribution specification 1.1, "Pushing").

use super::call::{Call, location};
use super::response::header;
use super::{CONTENT_DIGEST, Registry};
use crate::digest::Digest;
use crate::error::RegistryError;
use crate::manifest::{Descriptor, Index};
use crate::media_type::OCI_INDEX;
use crate::text::{QUOTED_CHARACTERS, shorten};
use bytes::Bytes;
use reqwest::Method;

/// The media type of an uploaded blob: only the manifest states what it is.
const BLOB: &str = "application/octet-stream";
/// A registry that supports referrers sends this header when a manifest has a subject.
const SUBJECT: &str = "oci-subject";

impl Registry {
    /// Pushes a blob, unless it is there already.
    pub async fn push_blob(&self, name: &str, bytes: Bytes) -> Result<(), RegistryError> {
        let digest = Digest::of(&bytes);
        if self.has_blob(&digest).await? {
            return Ok(());
        }
        let what = &format!("{name} for {}", self.reference);
        let begin = self.url("blobs/uploads/", what)?;
        // An upload is begun, and completed with all bytes at once.
        self.retried(what, async || {
            let call = Call::push(Method::POST, begin.clone(), what);
            let response = self.send(&call).await?;
            let mut url = location(&begin, response.headers(), what)?;
            url.query_pairs_mut().append_pair("digest", digest.as_str());
            let call = Call {
                content: Some((BLOB, bytes.clone())),
                ..Call::push(Method::PUT, url, what)
            };
            self.send(&call).await.map(|_| ())
        })
        .await
    }

    /// Whether the registry has a blob already.
    async fn has_blob(&self, digest: &Digest) -> Result<bool, RegistryError> {
        let what = &format!("the blob {digest} of {}", self.reference);
        let url = self.url(&format!("blobs/{digest}"), what)?;
        let call = Call::push(Method::HEAD, url, what);
        let found = self.retried(what, async || self.send(&call).await).await;
        match found {
            Err(RegistryError::NotFound { .. }) => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// Pushes a manifest that has another as its subject, so that it can be found by its subject, whether or not the registry supports referrers.
    pub async fn attach(
        &self,
        subject: &Digest,
        attached: &Descriptor,
        bytes: Vec<u8>,
    ) -> Result<(), RegistryError> {
        let digest = attached.digest.as_str();
        let pushed = self.push_manifest(digest, &attached.media_type, bytes);
        if pushed.await? {
            return Ok(());
        }
        // "Pushing Manifests with Subject": the client maintains a list at a tag.
        let mut others = self.listed_by_tag(subject).await?;
        if others.iter().any(|it| it.digest == attached.digest) {
            return Ok(());
        }
        others.push(attached.clone());
        let list = Index::new(others).to_bytes();
        let tag = super::referrers_tag(subject);
        self.push_manifest(&tag, OCI_INDEX, list).await?;
        Ok(())
    }

    /// Pushes a manifest or an index under this tag or digest. Returns whether the registry lists it among the referrers of its subject.
    pub async fn push_manifest(
        &self,
        reference: &str,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<bool, RegistryError> {
        let what = &format!("the manifest `{reference}` for {}", self.reference);
        let digest = Digest::of(&bytes);
        let call = Call {
            content: Some((media_type, Bytes::from(bytes))),
            ..Call::push(Method::PUT, self.manifest_url(reference, what)?, what)
        };
        let response = self.retried(what, async || self.send(&call).await).await?;
        match header(response.headers(), &CONTENT_DIGEST) {
            Some(other) if other != digest.as_str() => Err(RegistryError::WrongDigest {
                what: what.clone(),
                wanted: digest.to_string(),
                got: shorten(other, QUOTED_CHARACTERS),
            }),
            _ => Ok(response.headers().contains_key(SUBJECT)),
        }
    }
}
