//! Whether an artifact is signed by whom it must be: what lies beside it in its registry, read and judged one thing after the other.

use crate::attached::{Attachment, Parts};
use crate::error::FetchError;
use crate::media_type::COSIGN_SIGNATURE;
use crate::registry::{RawManifest, Registry};
use crate::signature::{
    Evidence, Gathered, Judgement, SIGNATURE_ANNOTATION, SignerKeys, Subject, is_bundle_type,
};
use std::ops::ControlFlow;

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Until it is signed by whom it must be.
    UntilSigned,
    /// Everything, for a person who asks what there is.
    All,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Where something lies that is a signature or should be one: tags, and digests of manifests.
    pub places: Vec<String>,
    /// By which of the keys it is signed, or why that does not suffice.
    pub verdict: Result<Vec<String>, FetchError>,
    /// What lay among the signatures and is none, or could not be read: in words.
    pub remarks: Vec<String>,
}

/// Looks for signatures of a manifest or a list, and judges them.
pub async fn judged(
    registry: &Registry,
    signed: &RawManifest,
    keys: &SignerKeys,
    extent: Extent,
) -> Judged {
    let mut judgement = Judgement::new(keys, Subject::new(&signed.bytes));
    let mut places = Vec::new();
    let examine = |attachment: Attachment| {
        let gathered = gathered(&attachment);
        judgement.take_in(&gathered);
        if !gathered.is_empty() {
            let digest = attachment.digest.to_string();
            places.push(attachment.tag.unwrap_or(digest));
        }
        match extent == Extent::UntilSigned && judgement.verdict().is_ok() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let parts = match extent {
        Extent::UntilSigned => Parts::Signatures,
        // What is lost of a thing is worth a word, though no signature needs it: other tools do, and a bundle.
        Extent::All => Parts::All,
    };
    let missed = registry.look(&signed.digest, parts, examine).await;
    for unread in &missed.unread {
        judgement.pass_over(&unread.to_string());
    }
    judgement.leave_out(missed.left_out);
    let verdict = match (judgement.verdict(), missed.trouble()) {
        (Ok(by), _) => Ok(by),
        // What is wanted may be just what the registry did not give.
        (Err(_), Some(trouble)) => Err(trouble.clone().into()),
        (Err(refused), None) => Err(refused.into()),
    };
    Judged {
        places,
        verdict,
        remarks: judgement.remarks(),
    }
}

/// What of a thing beside an artifact may prove that somebody signed it.
pub(crate) fn gathered(attachment: &Attachment) -> Gathered {
    let mut gathered = Gathered::default();
    let place = attachment.place();
    for (layer, bytes) in attachment.blobs() {
        if layer.media_type == COSIGN_SIGNATURE {
            let encoded = layer.annotations.get(SIGNATURE_ANNOTATION);
            let encoded = encoded.map(String::as_str).unwrap_or_default();
            gathered.add(&place, Evidence::from_simple_signing(bytes, encoded));
        } else if is_bundle_type(&layer.media_type) {
            gathered.add(&place, Evidence::from_bundle(bytes));
        }
    }
    gathered
}
