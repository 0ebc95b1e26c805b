//! One repository of a registry, by the OCI distribution specification 1.1: pulls and pushes manifests and blobs of any artifact.

mod auth;
mod call;
mod response;
mod upload;

use crate::access::{Access, Progress};
use crate::digest::Digest;
use crate::error::RegistryError;
use crate::manifest::{self, Descriptor, Document, Manifest};
use crate::media_type::{ACCEPTED, OCI_INDEX};
use crate::text::{REASON_CHARACTERS, shorten};
use auth::Authorization;
use call::Call;
use reqwest::header::{CONTENT_TYPE, HeaderName};
use reqwest::{Client, Url};
use response::{Bound, Failed, header};
use std::sync::{Arc, Mutex};
use tokio::time::Instant;
use wasmount_core::document::Reference;

/// Largest manifest or index that is read, in bytes: a component's has some kilobytes, and registries take 4 MiB at most.
pub(crate) const MANIFEST_BYTES: u64 = 1 << 20;

/// The digest by which the registry knows a blob or manifest.
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// A repository and how it is accessed.
pub struct Registry {
    reference: Reference,
    /// The URL of its API, which ends with `/`.
    base: Url,
    access: Access,
    client: Client,
    progress: Arc<Progress>,
    deadline: Instant,
    authorization: Mutex<Authorization>,
}

/// A manifest or an index as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawManifest<D = Document> {
    /// The digest of its bytes.
    pub digest: Digest,
    /// Its media type.
    pub media_type: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The parsed document.
    pub document: D,
}

impl RawManifest {
    /// The manifest, unless the document is an index.
    pub(crate) fn into_manifest(self) -> Option<RawManifest<Manifest>> {
        let Document::Manifest(manifest) = self.document else {
            return None;
        };
        Some(RawManifest {
            digest: self.digest,
            media_type: self.media_type,
            bytes: self.bytes,
            document: *manifest,
        })
    }
}

impl From<Manifest> for RawManifest<Manifest> {
    fn from(manifest: Manifest) -> Self {
        let bytes = manifest.to_bytes();
        Self {
            digest: Digest::of(&bytes),
            media_type: manifest.media_type().to_owned(),
            bytes,
            document: manifest,
        }
    }
}

impl Registry {
    /// Prepares access to an artifact's registry and sends nothing. The time limit [`TransferLimits::total`](crate::TransferLimits) begins now.
    pub fn connect(
        reference: &Reference,
        access: Access,
        progress: Arc<Progress>,
    ) -> Result<Self, RegistryError> {
        Ok(Self {
            base: call::base(reference, access.plain_http)?,
            client: call::client(&access)?,
            deadline: Instant::now() + access.limits.total,
            reference: reference.clone(),
            access,
            progress,
            authorization: Mutex::default(),
        })
    }

    /// The artifact that the registry was connected for.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// Fetches the manifest or index of this tag or digest.
    pub async fn manifest(&self, reference: &str) -> Result<RawManifest, RegistryError> {
        self.manifest_of_at_most(reference, MANIFEST_BYTES).await
    }

    /// Fetches the manifest or index of this tag or digest, of at most `most` bytes.
    pub(crate) async fn manifest_of_at_most(
        &self,
        reference: &str,
        most: u64,
    ) -> Result<RawManifest, RegistryError> {
        let what = &format!("the manifest `{reference}` of {}", self.reference);
        let call = Call {
            accept: Some(ACCEPTED),
            ..Call::get(self.manifest_url(reference, what)?, what)
        };
        let expected = Digest::parse(reference).ok();
        self.retried(what, async || {
            let response = self.send(&call).await?;
            let content_type = header(response.headers(), &CONTENT_TYPE).map(str::to_owned);
            let promised = header(response.headers(), &CONTENT_DIGEST)
                .and_then(|digest| Digest::parse(digest).ok());
            let bytes = self.read(response, what, Bound::AtMost(most)).await?;
            let digest = Digest::of(&bytes);
            // A tag is resolved once; the digest that the registry itself states must match the bytes.
            if let Some(expected) = expected.clone().or(promised)
                && expected != digest
            {
                return Err(Failed::from(RegistryError::WrongDigest {
                    what: what.clone(),
                    wanted: expected.to_string(),
                    got: digest.to_string(),
                }));
            }
            let document = Document::parse(&bytes, content_type.as_deref())
                .map_err(|reason| self.malformed(what, &reason))?;
            Ok(RawManifest {
                digest,
                media_type: document.media_type().to_owned(),
                bytes,
                document,
            })
        })
        .await
    }

    /// Fetches a manifest or index; `None` if there is none.
    pub async fn find_manifest(
        &self,
        reference: &str,
    ) -> Result<Option<RawManifest>, RegistryError> {
        match self.manifest(reference).await {
            Err(RegistryError::NotFound { .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Fetches a blob of at most `most` bytes; `name` describes it in messages.
    pub async fn blob(
        &self,
        blob: &Descriptor,
        name: &str,
        most: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        let what = &format!("{name} of {}", self.reference);
        if blob.size > most {
            let what = what.clone();
            return Err(RegistryError::TooLarge { what, most });
        }
        let call = Call::get(self.url(&format!("blobs/{}", blob.digest), what)?, what);
        self.retried(what, async || {
            let response = self.send(&call).await?;
            self.read(response, what, Bound::Blob(blob)).await
        })
        .await
    }

    /// Manifests that have this one as their subject ("Listing Referrers"). Only the first page of a long list is read: there are never more
    /// signatures of ours than that.
    pub async fn referrers(&self, subject: &Digest) -> Result<Vec<Descriptor>, RegistryError> {
        let what = &format!("the referrers of {}", self.reference);
        let call = Call {
            accept: Some(OCI_INDEX),
            ..Call::get(self.url(&format!("referrers/{subject}"), what)?, what)
        };
        let listed = self.retried(what, async || {
            let response = self.send(&call).await?;
            let most = Bound::AtMost(MANIFEST_BYTES);
            let bytes = self.read(response, what, most).await?;
            let entries = manifest::readable_entries(&bytes);
            entries.map_err(|reason| self.malformed(what, &reason).into())
        });
        match listed.await {
            // The registry has no referrers API; some answer 405 and 400 because they know the path but not the method.
            Err(
                RegistryError::NotFound { .. }
                | RegistryError::Refused {
                    status: 400 | 405, ..
                },
            ) => self.listed_by_tag(subject).await,
            listed => listed,
        }
    }

    /// The referrers from the tag that clients maintain.
    async fn listed_by_tag(&self, subject: &Digest) -> Result<Vec<Descriptor>, RegistryError> {
        let found = self.find_manifest(&referrers_tag(subject)).await?;
        Ok(match found.map(|it| it.document) {
            Some(Document::Index(index)) => index.manifests,
            // A tag of that name with another meaning.
            Some(Document::Manifest(_)) | None => Vec::new(),
        })
    }

    fn manifest_url(&self, reference: &str, what: &str) -> Result<Url, RegistryError> {
        self.url(&format!("manifests/{reference}"), what)
    }

    /// A URL below the repository.
    fn url(&self, path: &str, what: &str) -> Result<Url, RegistryError> {
        let no_address = || self.malformed(what, &format!("`{path}` is no part of an address"));
        self.base.join(path).map_err(|_| no_address())
    }

    pub(crate) fn malformed(&self, what: &str, reason: &str) -> RegistryError {
        RegistryError::Malformed {
            what: what.to_owned(),
            host: self.host(),
            reason: shorten(reason, REASON_CHARACTERS),
        }
    }

    fn host(&self) -> String {
        self.reference.registry().to_owned()
    }
}

/// The tag of the list of referrers, where the registry has no referrers API ("Referrers Tag Schema").
fn referrers_tag(subject: &Digest) -> String {
    format!("sha256-{}", subject.hex())
}

#[cfg(test)]
mod tests;
