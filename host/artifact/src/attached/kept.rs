//! What of the things beside an artifact is taken along in a bundle of it.

use super::{Attachment, Missed, Parts, Unread};
use crate::digest::Digest;
use crate::error::RegistryError;
use crate::judged::gathered;
use crate::registry::Registry;
use std::ops::ControlFlow;

/// Most manifests that are kept: releases have a handful.
const MANIFESTS: usize = 32;

/// All that was found beside an artifact, and is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attachments {
    /// What could be read, at least in part.
    pub found: Vec<Attachment>,
    /// What could not.
    pub unread: Vec<Unread>,
    /// How many things beside these were too many.
    pub left_out: usize,
    trouble: Option<RegistryError>,
}

/// What is kept so far.
#[derive(Default)]
struct Kept {
    /// It can be read as a signature.
    signatures: Vec<Attachment>,
    others: Vec<Attachment>,
    left_out: usize,
}

impl Attachments {
    /// The error for whoever needs all of it: the registry has trouble of its own, and another time more may be seen.
    pub fn trouble(&self) -> Option<&RegistryError> {
        self.trouble.as_ref()
    }
}

impl Registry {
    /// All that is attached to a manifest and may be a signature.
    pub async fn attached(&self, subject: &Digest) -> Attachments {
        let mut kept = Kept::default();
        let keep = |attachment| {
            kept.keep(attachment);
            ControlFlow::Continue(())
        };
        let missed = self.look(subject, Parts::All, keep).await;
        kept.with(missed)
    }
}

impl Kept {
    fn keep(&mut self, attachment: Attachment) {
        let list = match gathered(&attachment).evidence() {
            [] => &mut self.others,
            [_, ..] => &mut self.signatures,
        };
        match list.len() < MANIFESTS {
            true => list.push(attachment),
            false => self.left_out += 1,
        }
    }

    fn with(self, missed: Missed) -> Attachments {
        let Self {
            signatures: mut found,
            others,
            left_out,
        } = self;
        let total = found.len() + others.len();
        found.extend(others);
        found.truncate(MANIFESTS);
        Attachments {
            left_out: left_out + missed.left_out + (total - found.len()),
            trouble: missed.trouble().cloned(),
            unread: missed.unread,
            found,
        }
    }
}
