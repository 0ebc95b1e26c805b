//! Requests and answers as bytes, for the pipe between two processes of one program.

use super::{Beside, FetchError, FetchRequest, Fetched, Wanted};
use crate::access::Access;
use crate::digest::Digest;
use crate::signature::SignerKeys;
use serde::{Deserialize, Serialize};
use wasmount_core::document::Reference;
use zeroize::Zeroizing;

/// Bytes that the other side did not write so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the message between two processes of this program is torn: {0}")]
pub struct BadMessage(String);

#[derive(Serialize, Deserialize)]
struct Request {
    from: From,
    digest: Option<String>,
    signers: SignerKeys,
}

#[derive(Serialize, Deserialize)]
enum From {
    Artifact {
        reference: String,
        access: Box<Access>,
    },
    File(Beside),
}

#[derive(Serialize, Deserialize)]
struct Answer {
    reference: Option<String>,
    signed_by: Vec<String>,
    remarks: Vec<String>,
}

impl FetchRequest {
    /// As bytes, which may hold a password.
    pub fn encode(self) -> Result<Zeroizing<Vec<u8>>, BadMessage> {
        let Self {
            wanted,
            digest,
            signers,
        } = self;
        let (from, wasm) = match wanted {
            Wanted::Artifact { reference, access } => {
                let reference = reference.to_string();
                (From::Artifact { reference, access }, Vec::new())
            }
            Wanted::File { wasm, beside } => (From::File(beside), wasm),
        };
        let head = Request {
            from,
            digest,
            signers,
        };
        joined(&head, wasm).map(Zeroizing::new)
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadMessage> {
        let (head, rest): (Request, _) = postcard::take_from_bytes(bytes).map_err(torn)?;
        let Request {
            from,
            digest,
            signers,
        } = head;
        let wanted = match from {
            From::Artifact { reference, access } => Wanted::Artifact {
                reference: Reference::parse(&reference)
                    .map_err(|invalid| BadMessage(format!("{reference} {invalid}")))?,
                access,
            },
            From::File(beside) => Wanted::File {
                wasm: rest.to_vec(),
                beside,
            },
        };
        Ok(Self {
            wanted,
            digest,
            signers,
        })
    }
}

impl Fetched {
    /// An answer as bytes.
    pub fn encode(answer: Result<Self, FetchError>) -> Result<Vec<u8>, BadMessage> {
        let (head, wasm) = match answer {
            Err(error) => (Err(error), Vec::new()),
            Ok(Self {
                wasm,
                // The other side counts for itself: it has more to lose.
                digest: _,
                reference,
                signed_by,
                remarks,
            }) => {
                let head = Answer {
                    reference,
                    signed_by,
                    remarks,
                };
                (Ok(head), wasm)
            }
        };
        joined::<Result<Answer, FetchError>>(&head, wasm)
    }

    /// An answer from bytes. The digest is that of what came.
    pub fn decode(mut bytes: Vec<u8>) -> Result<Result<Self, FetchError>, BadMessage> {
        let (head, rest): (Result<Answer, FetchError>, &[u8]) =
            postcard::take_from_bytes(&bytes).map_err(torn)?;
        let behind = bytes.len() - rest.len();
        let Answer {
            reference,
            signed_by,
            remarks,
        } = match head {
            Err(error) => return Ok(Err(error)),
            Ok(answer) => answer,
        };
        let wasm = bytes.split_off(behind);
        Ok(Ok(Self {
            digest: Digest::of(&wasm),
            wasm,
            reference,
            signed_by,
            remarks,
        }))
    }
}

fn joined<T: Serialize>(head: &T, behind: Vec<u8>) -> Result<Vec<u8>, BadMessage> {
    let mut bytes = postcard::to_stdvec(head).map_err(torn)?;
    bytes.extend(behind);
    Ok(bytes)
}

fn torn(error: postcard::Error) -> BadMessage {
    BadMessage(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Credentials, Login};
    use crate::error::RegistryError;

    #[test]
    fn a_request_arrives_as_it_was_sent() {
        let password = Zeroizing::new("hunter2".to_owned());
        let login = Login::new("ann".to_owned(), password, "f".to_owned());
        let request = FetchRequest {
            wanted: Wanted::Artifact {
                reference: Reference::parse("a.b/c:1").unwrap(),
                access: Box::new(Access {
                    credentials: Credentials::Login(login),
                    plain_http: true,
                    ..Access::default()
                }),
            },
            digest: Some("sha256:00".to_owned()),
            signers: SignerKeys::default(),
        };
        let bytes = request.encode().unwrap();
        let arrived = FetchRequest::decode(&bytes).unwrap();
        let Wanted::Artifact { reference, access } = arrived.wanted else {
            panic!("a file");
        };
        assert_eq!(reference.to_string(), "oci://a.b/c:1");
        let Credentials::Login(login) = access.credentials else {
            panic!("nobody");
        };
        assert_eq!((login.user(), login.password()), ("ann", "hunter2"));
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
            wanted: Wanted::File {
                wasm: b"\0asm".to_vec(),
                beside: beside.clone(),
            },
            digest: None,
            signers: SignerKeys::default(),
        };
        let arrived = FetchRequest::decode(&request.encode().unwrap()).unwrap();
        let Wanted::File { wasm, beside: same } = arrived.wanted else {
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
        let bytes = Fetched::encode(Ok(fetched.clone())).unwrap();
        let arrived = Fetched::decode(bytes).unwrap().unwrap();
        assert_eq!(arrived.digest, Digest::of(b"\0asm"));
        assert_eq!(arrived.signed_by, fetched.signed_by);
        assert_eq!(arrived.remarks, fetched.remarks);
        assert_eq!(arrived.wasm, fetched.wasm);
        let error = FetchError::Registry(RegistryError::NotFound {
            what: "x".to_owned(),
            host: "y".to_owned(),
        });
        let bytes = Fetched::encode(Err(error.clone())).unwrap();
        assert_eq!(Fetched::decode(bytes).unwrap(), Err(error));
        assert!(Fetched::decode(Vec::new()).is_err());
    }
}
