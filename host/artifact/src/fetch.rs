//! Fetches a component by name: resolves it, checks signatures, fetches, compares the digest. Request and answer are messages between two processes
//! of this program.

use crate::access::{Access, silent};
use crate::attached::Extent;
use crate::digest::Digest;
use crate::error::FetchError;
use crate::judged::judged;
use crate::pull::Resolved;
use crate::registry::Registry;
use crate::signature::{Evidence, Gathered, SignerKeys, Subject, check};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use wasmount_core::document::Reference;
use zeroize::Zeroizing;

/// A request for a component, with the conditions that it must meet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FetchRequest {
    /// The component.
    pub wanted: ComponentSource,
    /// The digest of the component itself, `sha256:..`, if it is known in advance.
    pub digest: Option<String>,
    /// The required signers.
    pub signers: SignerKeys,
}

/// The source of a component.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ComponentSource {
    /// An artifact in a registry.
    Artifact {
        /// Its name.
        reference: Reference,
        /// How its registry is accessed.
        access: Box<Access>,
    },
    /// A component that was read from a file, with the signature files beside it.
    File {
        /// What the file holds.
        #[serde(with = "serde_bytes")]
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

/// A component that was fetched and meets the conditions of its request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// Its bytes.
    #[serde(with = "serde_bytes")]
    pub wasm: Vec<u8>,
    /// Its digest.
    pub digest: Digest,
    /// The artifact by the digest of its manifest; absent for a file.
    pub reference: Option<String>,
    /// The names of the requested keys that signed it.
    pub signed_by: Vec<String>,
    /// Messages about attachments that are not signatures, or could not be read.
    pub remarks: Vec<String>,
}

/// An artifact that is signed by the required signers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// Its name by the digest of what is signed: the manifest, or the index that its name led to.
    pub reference: Reference,
    /// The names of the requested keys that signed it.
    pub by: Vec<String>,
    /// Messages about attachments that are not signatures, or could not be read.
    pub remarks: Vec<String>,
}

/// A message between two processes of this program that cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a message between two processes of the host is incomplete: {0}")]
pub struct BadMessage(#[from] postcard::Error);

impl FetchRequest {
    /// Encodes the request, which may hold a password.
    pub fn encode(&self) -> Result<Zeroizing<Vec<u8>>, BadMessage> {
        Ok(postcard::to_stdvec(self).map(Zeroizing::new)?)
    }

    /// Decodes a request.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadMessage> {
        Ok(postcard::from_bytes(bytes)?)
    }
}

impl Fetched {
    /// Encodes an answer.
    pub fn encode(answer: &Result<Self, FetchError>) -> Result<Vec<u8>, BadMessage> {
        Ok(postcard::to_stdvec(answer)?)
    }

    /// Decodes an answer. The digest is computed again: the process that wrote it may have been compromised.
    pub fn decode(bytes: &[u8]) -> Result<Result<Self, FetchError>, BadMessage> {
        let answer: Result<Self, FetchError> = postcard::from_bytes(bytes)?;
        Ok(answer.map(|fetched| Self {
            digest: Digest::of(&fetched.wasm),
            ..fetched
        }))
    }
}

/// Carries out a request.
pub async fn fetch(request: FetchRequest) -> Result<Fetched, FetchError> {
    let (digest, signers) = (request.digest.as_deref(), &request.signers);
    match request.wanted {
        ComponentSource::Artifact { reference, access } => {
            let registry = Registry::connect(&reference, *access, Arc::new(silent))?;
            artifact(&registry, digest, signers).await
        }
        ComponentSource::File { wasm, beside } => check_file(wasm, &beside, digest, signers),
    }
}

/// Finds the signers of the artifact with this name, and what is signed by digest; the component is not fetched.
pub async fn signers(registry: &Registry, keys: &SignerKeys) -> Result<Signed, FetchError> {
    let found = Resolved::find(registry).await?;
    // A user who runs this command needs the result of each key.
    signed(registry, &found, keys, Extent::All).await
}

async fn artifact(
    registry: &Registry,
    digest: Option<&str>,
    signers: &SignerKeys,
) -> Result<Fetched, FetchError> {
    let found = Resolved::find(registry).await?;
    // Both are known from the manifest: a component that would be rejected is not fetched.
    same(&registry.reference().to_string(), digest, found.component())?;
    let Signed { by, remarks, .. } = signed(registry, &found, signers, Extent::UntilSigned).await?;
    let pulled = found.fetch(registry).await?;
    Ok(Fetched {
        wasm: pulled.wasm,
        digest: pulled.digest,
        reference: Some(pulled.reference.to_string()),
        signed_by: by,
        remarks,
    })
}

/// Carries out a request for a file. It opens nothing and waits for nothing, so a process that may do neither can run it.
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

/// The evidence of a signature in the files beside a component.
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

fn same(what: &str, expected: Option<&str>, got: &Digest) -> Result<(), FetchError> {
    match expected {
        Some(expected) if expected != got.as_str() => Err(FetchError::AnotherComponent {
            what: what.to_owned(),
            wanted: expected.to_owned(),
            got: got.to_string(),
        }),
        _ => Ok(()),
    }
}

/// Checks whether the manifest itself is signed, or the index that its name led to, which names it by digest.
async fn signed(
    registry: &Registry,
    found: &Resolved,
    signers: &SignerKeys,
    extent: Extent,
) -> Result<Signed, FetchError> {
    let signed = |digest: &Digest, by, remarks| Signed {
        reference: registry.reference().pinned(digest.to_string()),
        by,
        remarks,
    };
    if signers.is_empty() {
        return Ok(signed(&found.raw.digest, Vec::new(), Vec::new()));
    }
    let own = judged(registry, &found.raw, signers, extent).await;
    let rejection = match own.verdict {
        Ok(by) => return Ok(signed(&found.raw.digest, by, own.remarks)),
        Err(rejection) => rejection,
    };
    let Some(list) = &found.list else {
        return Err(rejection);
    };
    let of_list = judged(registry, list, signers, extent).await;
    match of_list.verdict {
        Ok(by) => Ok(signed(&list.digest, by, of_list.remarks)),
        Err(_) => Err(rejection),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Login;
    use crate::error::RegistryError;

    #[test]
    fn a_request_arrives_as_it_was_sent() {
        let login = Login {
            user: "ann".to_owned(),
            password: Zeroizing::new("hunter2".to_owned()),
            found: "f".to_owned(),
        };
        let request = FetchRequest {
            wanted: ComponentSource::Artifact {
                reference: Reference::parse("a.b/c:1").unwrap(),
                access: Box::new(Access {
                    credentials: Some(login),
                    plain_http: true,
                    ..Access::default()
                }),
            },
            digest: Some("sha256:00".to_owned()),
            signers: SignerKeys::default(),
        };
        let bytes = request.encode().unwrap();
        let arrived = FetchRequest::decode(&bytes).unwrap();
        let ComponentSource::Artifact { reference, access } = arrived.wanted else {
            panic!("a file");
        };
        assert_eq!(reference.to_string(), "oci://a.b/c:1");
        let login = access.credentials.unwrap();
        assert_eq!(
            (login.user.as_str(), login.password.as_str()),
            ("ann", "hunter2")
        );
        assert!(access.plain_http);
        assert_eq!(arrived.digest.as_deref(), Some("sha256:00"));
        assert!(FetchRequest::decode(&bytes[..bytes.len() / 2]).is_err());
    }

    #[test]
    fn a_file_arrives_with_what_lies_beside_it() {
        let beside = Beside {
            signature: Some(b"sig".to_vec()),
            bundle: None,
        };
        let request = FetchRequest {
            wanted: ComponentSource::File {
                wasm: b"\0asm".to_vec(),
                beside: beside.clone(),
            },
            digest: None,
            signers: SignerKeys::default(),
        };
        let arrived = FetchRequest::decode(&request.encode().unwrap()).unwrap();
        let ComponentSource::File { wasm, beside: same } = arrived.wanted else {
            panic!("an artifact");
        };
        assert_eq!((wasm.as_slice(), same), (&b"\0asm"[..], beside));
    }

    #[test]
    fn an_answer_arrives_and_its_digest_is_counted_anew() {
        let fetched = Fetched {
            wasm: b"\0asm".to_vec(),
            digest: Digest::of(b"a lie"),
            reference: Some("oci://a.b/c@sha256:00".to_owned()),
            signed_by: vec!["ann".to_owned()],
            remarks: vec!["a remark".to_owned()],
        };
        let bytes = Fetched::encode(&Ok(fetched.clone())).unwrap();
        let arrived = Fetched::decode(&bytes).unwrap().unwrap();
        assert_eq!(arrived.digest, Digest::of(b"\0asm"));
        assert_eq!(arrived.signed_by, fetched.signed_by);
        assert_eq!(arrived.remarks, fetched.remarks);
        assert_eq!(arrived.wasm, fetched.wasm);
        let error = FetchError::Registry(RegistryError::NotFound {
            what: "x".to_owned(),
            host: "y".to_owned(),
        });
        let bytes = Fetched::encode(&Err(error.clone())).unwrap();
        assert_eq!(Fetched::decode(&bytes).unwrap(), Err(error));
        assert!(Fetched::decode(&[]).is_err());
    }
}
