//! A component's signatures: where they are, and, if a document names keys, whether they suffice.

use crate::signature_files::{beside, signer_keys};
use serde_json::{Value, json};
use std::path::Path;
use wasmount_artifact::signature::{SignerKeys, bundle_file, signature_file};
use wasmount_artifact::{Extent, RawManifest, Registry, Resolved, gathered_beside, judged};
use wasmount_core::document::Signers;
use wasmount_versions::{AdmissionReport, Step};

/// The result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Signatures {
    /// Files, or tags and digests of manifests.
    pub(super) places: Vec<String>,
    /// Names of the keys that signed it, or why the signatures do not suffice; none: the document names no key.
    pub(super) judged: Option<Result<Vec<String>, String>>,
    /// Signatures that cannot be read.
    pub(super) remarks: Vec<String>,
}

impl Signatures {
    /// Those beside a file; they were judged at its admission.
    pub(super) fn beside(file: &Path, signers: &Signers, report: &AdmissionReport) -> Self {
        let files = [signature_file(file), bundle_file(file)];
        let places = files.into_iter().filter(|path| path.is_file());
        let step = |taken: &&wasmount_versions::TakenStep| taken.step == Step::Signature;
        let taken = report.steps().iter().find(step);
        Self {
            places: places.map(|path| path.display().to_string()).collect(),
            judged: taken
                .filter(|_| !signers.is_empty())
                .map(|taken| taken.outcome.clone().map(|message| vec![message])),
            remarks: gathered_beside(&beside(file).unwrap_or_default()).remarks(),
        }
    }

    /// Those of an artifact, in its registry: of its manifest, or of the index to which its name refers.
    pub(super) async fn of_artifact(
        registry: &Registry,
        resolved: &Resolved,
        signers: &Signers,
    ) -> Self {
        let own = Self::attached(registry, &resolved.raw, signers).await;
        let Some(list) = resolved.list.as_ref().filter(|_| !own.suffices()) else {
            return own;
        };
        let of_list = Self::attached(registry, list, signers).await;
        if of_list.suffices() { of_list } else { own }
    }

    async fn attached<D>(
        registry: &Registry,
        manifest: &RawManifest<D>,
        signers: &Signers,
    ) -> Self {
        let (keys, unusable) = match signer_keys(signers) {
            Ok(keys) => (keys, None),
            Err(reason) => (SignerKeys::default(), Some(reason)),
        };
        let found = judged(registry, manifest, &keys, Extent::All).await;
        let verdict = match unusable {
            Some(reason) => Err(reason),
            None => found.verdict.map_err(|error| error.to_string()),
        };
        Self {
            places: found.places,
            judged: (!signers.is_empty()).then_some(verdict),
            remarks: found.remarks,
        }
    }

    /// Whether no further search is needed.
    fn suffices(&self) -> bool {
        match &self.judged {
            None => !self.places.is_empty(),
            Some(judged) => judged.is_ok(),
        }
    }

    /// Why the document rejects them.
    pub(super) fn refused(&self) -> Option<&str> {
        match &self.judged {
            Some(Err(reason)) => Some(reason),
            _ => None,
        }
    }

    /// The result for programs.
    pub(super) fn json(&self) -> Value {
        let (verdict, messages) = match &self.judged {
            None => ("not-asked", Vec::new()),
            Some(Ok(signers)) => ("signed", signers.clone()),
            Some(Err(reason)) => ("refused", vec![reason.clone()]),
        };
        json!({ "places": self.places, "word": verdict, "said": messages, "passedOver": self.remarks })
    }
}
