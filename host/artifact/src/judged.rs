//! Which of the required signers signed an artifact: reads what is attached to it in its registry, and judges each item in turn.

use crate::attached::{Attachment, Extent, Missed};
use crate::digest::Digest;
use crate::error::FetchError;
use crate::media_type::COSIGN_SIGNATURE;
use crate::registry::{RawManifest, Registry};
use crate::signature::{
    Evidence, Gathered, Judgement, SIGNATURE_ANNOTATION, SignerKeys, Subject, is_bundle_type,
};
use std::ops::ControlFlow;

/// Most manifests that are copied with an artifact: releases have a handful.
const COPIED: usize = 32;

/// The result of a search for signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Where signatures, or data in place of a signature, were found: tags, and digests of manifests.
    pub places: Vec<String>,
    /// The keys that signed it, or why they do not suffice.
    pub verdict: Result<Vec<String>, FetchError>,
    /// Messages about attachments that are not signatures, or could not be read.
    pub remarks: Vec<String>,
}

/// Looks for signatures of a manifest or an index, and judges them.
pub async fn judged<D>(
    registry: &Registry,
    signed: &RawManifest<D>,
    keys: &SignerKeys,
    extent: Extent,
) -> Judged {
    let mut judgement = Judgement::new(keys, Subject::new(&signed.bytes));
    let mut places = Vec::new();
    let examine = |attachment: Attachment| {
        let gathered = gathered(&attachment);
        judgement.take_in(&gathered);
        if !gathered.is_empty() {
            let digest = attachment.raw.digest.to_string();
            places.push(attachment.tag.unwrap_or(digest));
        }
        match extent == Extent::UntilSigned && judgement.verdict().is_ok() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let missed = registry.search(&signed.digest, extent, examine).await;
    for remark in &missed.unread {
        judgement.remarks.add(remark);
    }
    judgement.remarks.left_out += missed.left_out;
    let verdict = match (judgement.verdict(), missed.trouble) {
        (Ok(by), _) => Ok(by),
        // The required signature may be just what the registry failed to send.
        (Err(_), Some(trouble)) => Err(trouble.into()),
        (Err(rejection), None) => Err(rejection.into()),
    };
    Judged {
        places,
        verdict,
        remarks: judgement.remarks.messages(),
    }
}

impl Registry {
    /// Everything attached to a manifest that may be a signature and is copied with it, read at least in part; readable signatures come first.
    pub async fn attached(&self, subject: &Digest) -> (Vec<Attachment>, Missed) {
        let (mut found, mut others, mut left_out) = (Vec::new(), Vec::new(), 0);
        let keep = |attachment: Attachment| {
            let list = match gathered(&attachment).evidence() {
                [] => &mut others,
                [_, ..] => &mut found,
            };
            match list.len() < COPIED {
                true => list.push(attachment),
                false => left_out += 1,
            }
            ControlFlow::Continue(())
        };
        let mut missed = self.search(subject, Extent::All, keep).await;
        found.append(&mut others);
        missed.left_out += left_out + found.len().saturating_sub(COPIED);
        found.truncate(COPIED);
        (found, missed)
    }
}

/// The evidence of a signature in an attachment.
fn gathered(attachment: &Attachment) -> Gathered {
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
