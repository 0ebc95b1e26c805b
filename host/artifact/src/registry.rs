//! One repository of a registry, spoken to by the OCI distribution specification 1.1. An attempt is one `exchange`, what it answers is read by `body`
//! and judged by `answer`, and what may pass is tried again.
//!
//! It moves manifests and blobs. What they are for it does not know.

mod answer;
mod body;
mod exchange;
mod failed;
mod referrers;
mod token;
mod transport;
mod upload;

use crate::access::Access;
use crate::digest::Digest;
use crate::error::RegistryError;
use crate::manifest::{Descriptor, Document};
use crate::media_type::ACCEPTED;
use crate::origin;
use crate::progress::Progress;
use crate::words::{REASON_CHARACTERS, short};
use body::Expected;
use exchange::Ask;
use failed::{Failed, Retries};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Uri};
use std::sync::{Arc, Mutex};
use tokio::time::Instant;
use transport::Client;
use wasmount_core::document::Reference;
use zeroize::Zeroizing;

/// Largest manifest or list that is read, in bytes: a component's has some kilobytes, and registries take 4 MiB at most.
pub(crate) const MANIFEST_BYTES: u64 = 1 << 20;

/// What the registry says of a blob or manifest that it has.
const CONTENT_DIGEST: &str = "docker-content-digest";

/// A repository, and the right to speak to it.
pub struct Registry {
    reference: Reference,
    base: String,
    home: Uri,
    access: Access,
    client: Client,
    progress: Arc<Progress>,
    until: Instant,
    /// What was sent with the last request that was allowed.
    authorization: Mutex<Option<Zeroizing<String>>>,
}

/// A manifest or a list as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawManifest {
    /// Its digest.
    pub digest: Digest,
    /// Its type.
    pub media_type: String,
    /// Its bytes: the digest is theirs.
    pub bytes: Vec<u8>,
    /// What they say.
    pub document: Document,
}

impl Registry {
    /// Prepares to speak to an artifact's registry; asks it nothing. All of [`Patience::total`](crate::Patience) begins now.
    pub fn connect(
        reference: &Reference,
        access: Access,
        progress: Arc<Progress>,
    ) -> Result<Self, RegistryError> {
        let base = origin::base(reference, access.plain_http);
        let home: Uri = base.parse().map_err(|_| RegistryError::Down {
            host: reference.registry().to_owned(),
            reason: "its name is not one of a host".to_owned(),
        })?;
        Ok(Self {
            client: transport::client(&access)?,
            until: Instant::now() + access.patience.total,
            reference: reference.clone(),
            base,
            home,
            access,
            progress,
            authorization: Mutex::new(None),
        })
    }

    /// The artifact that it was connected for.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// The manifest or list of this tag or digest.
    pub async fn manifest(&self, wanted: &str) -> Result<RawManifest, RegistryError> {
        self.manifest_of_at_most(wanted, MANIFEST_BYTES).await
    }

    /// The same, of so many bytes at most.
    pub(crate) async fn manifest_of_at_most(
        &self,
        wanted: &str,
        most: u64,
    ) -> Result<RawManifest, RegistryError> {
        let what = format!("the manifest `{wanted}` of {}", self.reference);
        let uri = self.uri(&format!("manifests/{wanted}"), &what)?;
        let ask = Ask::get(uri, &what).accepting(ACCEPTED);
        let asked = Digest::parse(wanted).ok();
        let mut retries = Retries::default();
        loop {
            match self.manifest_once(&ask, asked.as_ref(), most).await {
                Ok(manifest) => return Ok(manifest),
                Err(failed) => self.pause(&mut retries, failed).await?,
            }
        }
    }

    /// The same, or none.
    pub async fn find_manifest(&self, wanted: &str) -> Result<Option<RawManifest>, RegistryError> {
        match self.manifest(wanted).await {
            Err(RegistryError::NotFound { .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    /// The bytes of a blob of at most `most` bytes; `name` is what it is, for messages.
    pub async fn blob(
        &self,
        blob: &Descriptor,
        name: &str,
        most: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        let what = format!("{name} of {}", self.reference);
        if blob.size > most {
            return Err(RegistryError::TooLarge { what, most });
        }
        let uri = self.uri(&format!("blobs/{}", blob.digest), &what)?;
        let ask = Ask::get(uri, &what);
        let mut retries = Retries::default();
        loop {
            match self.blob_once(&ask, blob).await {
                Ok(bytes) => return Ok(bytes),
                Err(failed) => self.pause(&mut retries, failed).await?,
            }
        }
    }

    async fn manifest_once(
        &self,
        ask: &Ask<'_>,
        asked: Option<&Digest>,
        most: u64,
    ) -> Result<RawManifest, Failed> {
        let response = self.exchange(ask).await?;
        let said = header(response.headers(), CONTENT_TYPE.as_str()).map(str::to_owned);
        let promised = header(response.headers(), CONTENT_DIGEST).map(str::to_owned);
        let expected = Expected::at_most(ask.what, most);
        let bytes = self.read(response, expected).await?;
        let digest = Digest::of(&bytes);
        // A tag is resolved once; what the registry itself says of the bytes must be true of them.
        let promised = promised.filter(|it| Digest::parse(it).is_ok());
        let wanted = asked.map(Digest::to_string).or(promised);
        if let Some(wanted) = wanted.filter(|it| it != digest.as_str()) {
            return Err(Failed::for_good(RegistryError::WrongDigest {
                what: ask.what.to_owned(),
                wanted,
                got: digest.to_string(),
            }));
        }
        let document = Document::parse(&bytes, said.as_deref())
            .map_err(|reason| Failed::for_good(self.malformed(ask.what, reason)))?;
        let media_type = match &document {
            Document::Manifest(manifest) => manifest.media_type().to_owned(),
            Document::Index(index) => index.media_type().to_owned(),
        };
        Ok(RawManifest {
            digest,
            media_type,
            bytes,
            document,
        })
    }

    async fn blob_once(&self, ask: &Ask<'_>, blob: &Descriptor) -> Result<Vec<u8>, Failed> {
        let response = self.exchange(ask).await?;
        self.read(response, Expected::blob(ask.what, blob)).await
    }

    /// Below the repository.
    fn uri(&self, path: &str, what: &str) -> Result<Uri, RegistryError> {
        let uri = format!("{}/{path}", self.base);
        uri.parse()
            .map_err(|_| self.malformed(what, format!("`{path}` is no part of an address")))
    }

    fn malformed(&self, what: &str, reason: String) -> RegistryError {
        RegistryError::Malformed {
            what: what.to_owned(),
            host: self.host(),
            reason: short(&reason, REASON_CHARACTERS),
        }
    }

    fn host(&self) -> String {
        self.reference.registry().to_owned()
    }

    /// Whether the registry has it already.
    pub(crate) async fn has_blob(&self, digest: &Digest) -> Result<bool, RegistryError> {
        let what = format!("the blob {digest} of {}", self.reference);
        let mut ask = Ask::get(self.uri(&format!("blobs/{digest}"), &what)?, &what);
        ask.method = Method::HEAD;
        ask.pushes = true;
        let mut retries = Retries::default();
        loop {
            match self.exchange(&ask).await {
                Ok(_) => return Ok(true),
                Err(failed) => match failed.error {
                    RegistryError::NotFound { .. } => return Ok(false),
                    _ => self.pause(&mut retries, failed).await?,
                },
            }
        }
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("base", &self.base)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

/// The text of a header, if it is text.
fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests;
