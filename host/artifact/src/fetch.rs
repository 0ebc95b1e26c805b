//! Everything between a name and a component that may be looked at: resolved, signatures checked, fetched, digest compared.

mod message;

use crate::access::Access;
use crate::digest::Digest;
use crate::error::FetchError;
use crate::judged::{Extent, judged};
use crate::progress::silent;
use crate::pull::Resolved;
use crate::registry::{RawManifest, Registry};
use crate::signature::{Evidence, Gathered, SignerKeys, Subject, check};
pub use message::BadMessage;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use wasmount_core::document::Reference;

/// A component that is wanted, and what must be true of it.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    /// Which.
    pub wanted: Wanted,
    /// The digest of the component itself, `sha256:..`, if it is known before.
    pub digest: Option<String>,
    /// Who must have signed it.
    pub signers: SignerKeys,
}

/// Which component.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// One in a registry.
    Artifact {
        /// Its name.
        reference: Reference,
        /// How its registry is reached.
        access: Box<Access>,
    },
    /// One that was read from a file, with what lay beside it.
    File {
        /// What the file holds.
        wasm: Vec<u8>,
        /// Signatures over these bytes.
        beside: Beside,
    },
}

/// Files beside that of a component.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    /// `.sig`, as `cosign sign-blob` writes it.
    pub signature: Option<Vec<u8>>,
    /// `.bundle`, a Sigstore bundle.
    pub bundle: Option<Vec<u8>>,
}

/// A component that is what was wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// It itself.
    pub wasm: Vec<u8>,
    /// Its digest.
    pub digest: Digest,
    /// The artifact by the digest of its manifest; absent for a file.
    pub reference: Option<String>,
    /// The names of the keys by which it is signed, of those that were asked for.
    pub signed_by: Vec<String>,
    /// What lay among its signatures and is none, or could not be read: in words.
    pub remarks: Vec<String>,
}

/// An artifact that is signed by whom it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// Its name by the digest of what is signed: the manifest, or the list that its name led to.
    pub reference: Reference,
    /// The names of the keys, of those that were asked for.
    pub by: Vec<String>,
    /// What lay among the signatures and is none, or could not be read: in words.
    pub remarks: Vec<String>,
}

/// Does all of it.
pub async fn fetch(request: FetchRequest) -> Result<Fetched, FetchError> {
    let FetchRequest {
        wanted,
        digest,
        signers,
    } = request;
    match wanted {
        Wanted::Artifact { reference, access } => {
            let registry = Registry::connect(&reference, *access, Arc::new(silent))?;
            artifact(&registry, digest.as_deref(), &signers).await
        }
        Wanted::File { wasm, beside } => check_file(wasm, &beside, digest.as_deref(), &signers),
    }
}

/// Who signed what an artifact's name means, and what is signed by digest; the component is not fetched.
pub async fn signers(registry: &Registry, keys: &SignerKeys) -> Result<Signed, FetchError> {
    let found = Resolved::find(registry).await?;
    // A person who asks wants to know of each key.
    let SignedThing {
        digest,
        by,
        remarks,
    } = signed(registry, &found, keys, Extent::All).await?;
    Ok(Signed {
        reference: registry.reference().pinned(digest.to_string()),
        by,
        remarks,
    })
}

async fn artifact(
    registry: &Registry,
    digest: Option<&str>,
    signers: &SignerKeys,
) -> Result<Fetched, FetchError> {
    let found = Resolved::find(registry).await?;
    // Both are known from the manifest: what would be refused is not even fetched.
    same(&registry.reference().to_string(), digest, found.component())?;
    let SignedThing { by, remarks, .. } =
        signed(registry, &found, signers, Extent::UntilSigned).await?;
    let pulled = found.fetch(registry).await?;
    Ok(Fetched {
        wasm: pulled.wasm,
        digest: pulled.digest,
        reference: Some(pulled.reference.to_string()),
        signed_by: by,
        remarks,
    })
}

/// All of it for a file. It opens nothing and waits for nothing, so a process that may do neither can do it.
pub fn check_file(
    wasm: Vec<u8>,
    beside: &Beside,
    digest: Option<&str>,
    signers: &SignerKeys,
) -> Result<Fetched, FetchError> {
    let got = Digest::of(&wasm);
    same("the file", digest, &got)?;
    let gathered = gathered_beside(beside);
    let signed_by = check(signers, &Subject::new(&wasm), &gathered)?;
    Ok(Fetched {
        wasm,
        digest: got,
        reference: None,
        signed_by,
        remarks: gathered.remarks(),
    })
}

/// What of the files beside a component may prove that somebody signed it.
pub fn gathered_beside(beside: &Beside) -> Gathered {
    let mut gathered = Gathered::default();
    if let Some(signature) = &beside.signature {
        gathered.add("the .sig file", Evidence::from_signature_file(signature));
    }
    if let Some(bundle) = &beside.bundle {
        gathered.add("the .bundle file", Evidence::from_bundle(bundle));
    }
    gathered
}

fn same(what: &str, wanted: Option<&str>, got: &Digest) -> Result<(), FetchError> {
    match wanted {
        Some(wanted) if wanted != got.as_str() => Err(FetchError::AnotherComponent {
            what: what.to_owned(),
            wanted: wanted.to_owned(),
            got: got.to_string(),
        }),
        _ => Ok(()),
    }
}

/// What of an artifact is signed, by whom, and remarks.
struct SignedThing {
    digest: Digest,
    by: Vec<String>,
    remarks: Vec<String>,
}

/// Whether the manifest itself is signed, or the list that its name led to, which names it by digest.
async fn signed(
    registry: &Registry,
    found: &Resolved,
    signers: &SignerKeys,
    extent: Extent,
) -> Result<SignedThing, FetchError> {
    let thing = |raw: &RawManifest, by, remarks| SignedThing {
        digest: raw.digest.clone(),
        by,
        remarks,
    };
    if signers.is_empty() {
        return Ok(thing(&found.raw, Vec::new(), Vec::new()));
    }
    let own = judged(registry, &found.raw, signers, extent).await;
    let refused = match own.verdict {
        Ok(by) => return Ok(thing(&found.raw, by, own.remarks)),
        Err(refused) => refused,
    };
    let Some(list) = &found.list else {
        return Err(refused);
    };
    let of_list = judged(registry, list, signers, extent).await;
    match of_list.verdict {
        Ok(by) => Ok(thing(list, by, of_list.remarks)),
        Err(_) => Err(refused),
    }
}
