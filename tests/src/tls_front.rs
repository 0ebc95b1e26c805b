//! TLS in front of a server without it: a client must present a certificate of the front's own authority.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;
use xtask::failure::Failure;

/// The bytes before the number of a private key of P-256 in PKCS #8: version 1, and an octet string of 32 bytes (RFC 5915).
const BEFORE_NUMBER: [u8; 5] = [2, 1, 1, 4, 32];
/// Size of that number in bytes, which is the whole secret of the key.
const NUMBER_BYTES: usize = 32;
/// The line of the key in PEM that has most of the number. The first one is mostly the same for all keys, the last ones are the public key.
const SECRET_LINE: usize = 2;

/// A running front; it stops when dropped.
#[derive(Debug)]
pub struct TlsFront {
    address: SocketAddr,
    ca: String,
    client: Client,
    _accepting: AbortOnDropHandle<()>,
}

/// How a client identifies itself, in PEM.
#[derive(Debug)]
struct Client {
    certificate: String,
    key: String,
    number: Vec<u8>,
}

impl TlsFront {
    /// Starts a front of a server.
    pub async fn start(to: SocketAddr) -> Result<Self, Failure> {
        let failed = || Failure::cannot("listen for a TLS front");
        let (acceptor, ca, client) = identities().map_err(Failure::cannot("make certificates"))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(failed())?;
        let address = listener.local_addr().map_err(failed())?;
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(join(acceptor.clone(), stream, to));
            }
        });
        Ok(Self {
            address,
            ca,
            client,
            _accepting: AbortOnDropHandle::new(accepting),
        })
    }

    /// The address of the front, which is the name in its certificate.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Files for a client, by the names of secrets: `ca`, `certificate` and `key`, in PEM.
    pub fn files(&self) -> [(&str, &str); 3] {
        [
            ("ca", &self.ca),
            ("certificate", &self.client.certificate),
            ("key", &self.client.key),
        ]
    }

    /// What shows the client's key: a line of its PEM, and its number as bytes and in hexadecimal.
    pub fn key_forms(&self) -> [Vec<u8>; 3] {
        let Client { key, number, .. } = &self.client;
        let line = key.lines().nth(SECRET_LINE).unwrap_or_default();
        [
            line.as_bytes().to_vec(),
            number.clone(),
            hex::encode(number).into_bytes(),
        ]
    }
}

fn identities() -> Result<(TlsAcceptor, String, Client), Box<dyn Error + Send + Sync>> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let issue = |name: String| -> Result<_, rcgen::Error> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec![name])?.signed_by(&key, &authority)?;
        Ok((certificate, key))
    };
    let (own, own_key) = issue(Ipv4Addr::LOCALHOST.to_string())?;
    let (certificate, key) = issue("client".to_owned())?;
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier.build()?)
        .with_single_cert(
            vec![own.der().clone()],
            PrivateKeyDer::try_from(own_key.serialize_der())?,
        )?;
    let der = key.serialize_der();
    let mut ends = (BEFORE_NUMBER.len()..der.len())
        .filter_map(|at| der.get(..at)?.ends_with(&BEFORE_NUMBER).then_some(at));
    let number = ends.find_map(|at| der.get(at..at + NUMBER_BYTES));
    let client = Client {
        certificate: certificate.pem(),
        number: number.ok_or("the key has another form")?.to_owned(),
        key: key.serialize_pem(),
    };
    Ok((TlsAcceptor::from(Arc::new(config)), authority.pem(), client))
}

/// Copies until one of the two ends, or the front is dropped.
async fn join(acceptor: TlsAcceptor, stream: TcpStream, to: SocketAddr) {
    let (Ok(mut server), Ok(mut client)) =
        (TcpStream::connect(to).await, acceptor.accept(stream).await)
    else {
        return;
    };
    // An error is the end of the connection, for both.
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    fn holds(content: &[u8], bytes: &[u8]) -> bool {
        content.windows(bytes.len()).any(|it| it == bytes)
    }

    #[tokio::test]
    async fn a_key_has_its_forms_and_a_certificate_does_not() {
        let nowhere = SocketAddr::from(([192, 0, 2, 1], 9));
        let front = TlsFront::start(nowhere).await.unwrap();
        let [_, (_, certificate), (_, key)] = front.files();
        let [line, number, digits] = front.key_forms();
        let der = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        assert!(holds(key.as_bytes(), &line) && holds(der.secret_der(), &number));
        assert_eq!(digits, hex::encode(&number).into_bytes());
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        assert!(!holds(certificate.as_bytes(), &line) && !holds(&der, &number));
    }
}
