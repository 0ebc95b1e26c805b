//! What speaks of an artifact (OCI distribution specification 1.1, "Listing Referrers").

use super::body::Expected;
use super::exchange::Ask;
use super::failed::{Failed, Retries};
use super::{MANIFEST_BYTES, Registry};
use crate::digest::Digest;
use crate::error::RegistryError;
use crate::manifest::{Descriptor, Document};
use crate::media_type::OCI_INDEX;

/// Where the list is kept where the registry has none ("Referrers Tag Schema").
pub(super) fn tag(subject: &Digest) -> String {
    format!("sha256-{}", subject.hex())
}

impl Registry {
    /// Manifests that have this one as their subject. Only the first page of a long list is read: more than it are no signatures of ours.
    pub async fn referrers(&self, subject: &Digest) -> Result<Vec<Descriptor>, RegistryError> {
        let what = format!("the list of what speaks of {}", self.reference);
        let uri = self.uri(&format!("referrers/{subject}"), &what)?;
        let ask = Ask::get(uri, &what).accepting(OCI_INDEX);
        let mut retries = Retries::default();
        loop {
            let failed = match self.referrers_once(&ask).await {
                Ok(list) => return Ok(list),
                Err(failed) => failed,
            };
            match failed.error {
                // It has no such list; 405 and 400 are said by some that know the path and not the verb.
                RegistryError::NotFound { .. }
                | RegistryError::Refused {
                    status: 400 | 405, ..
                } => return self.listed_by_tag(subject).await,
                _ => self.pause(&mut retries, failed).await?,
            }
        }
    }

    /// The list that clients keep.
    pub(super) async fn listed_by_tag(
        &self,
        subject: &Digest,
    ) -> Result<Vec<Descriptor>, RegistryError> {
        let found = self.find_manifest(&tag(subject)).await?;
        Ok(match found.map(|it| it.document) {
            Some(Document::Index(index)) => index.manifests,
            // Somebody's own tag of that name.
            Some(Document::Manifest(_)) | None => Vec::new(),
        })
    }

    async fn referrers_once(&self, ask: &Ask<'_>) -> Result<Vec<Descriptor>, Failed> {
        let response = self.exchange(ask).await?;
        let bytes = self
            .read(response, Expected::at_most(ask.what, MANIFEST_BYTES))
            .await?;
        match Document::parse(&bytes, Some(OCI_INDEX)) {
            Ok(Document::Index(index)) => Ok(index.manifests),
            Ok(Document::Manifest(_)) => {
                let reason = "it is a manifest".to_owned();
                Err(Failed::for_good(self.malformed(ask.what, reason)))
            }
            Err(reason) => Err(Failed::for_good(self.malformed(ask.what, reason))),
        }
    }
}
