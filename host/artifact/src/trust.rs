//! The certificates that a registry is verified with: the system's and additional ones.

use crate::error::RegistryError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::fmt::Display;
use std::sync::Arc;

/// The certificates that this system trusts, DER; `SSL_CERT_FILE` names others, as for OpenSSL and Go. They are passed to the process that connects
/// to a registry, which cannot read them any more.
pub fn system_certificates() -> Vec<Vec<u8>> {
    let found = rustls_native_certs::load_native_certs();
    for error in found.errors {
        tracing::warn!(%error, "some of the system's certificates are not trusted");
    }
    found.certs.iter().map(|it| it.to_vec()).collect()
}

/// A TLS client that trusts the system's certificates and additional ones.
pub(crate) fn client(
    system_ca: &[Vec<u8>],
    extra_ca: Option<&[u8]>,
) -> Result<ClientConfig, RegistryError> {
    let mut roots = RootCertStore::empty();
    // A system certificate that cannot be parsed affects only the registries that it vouches for.
    let system = system_ca.iter().map(|der| CertificateDer::from_slice(der));
    let (trusted, ignored) = roots.add_parsable_certificates(system);
    tracing::debug!(trusted, unusable = ignored, "certificates of the system");
    if let Some(pem) = extra_ca {
        let mut extra = 0_usize;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| unusable(&error))?;
            roots.add(certificate).map_err(|error| unusable(&error))?;
            extra += 1;
        }
        if extra == 0 {
            return Err(unusable(&"there is no certificate in them"));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

pub(crate) fn unusable(reason: &dyn Display) -> RegistryError {
    RegistryError::Other(format!(
        "the certificates to trust cannot be used: {reason}; name a file of certificates in PEM"
    ))
}

/// The error of the library for a server whose own certificate is that of an authority; it has no type of its own.
const AUTHORITY_AS_SERVER: &str = "CaUsedAsEndEntity";

/// The error for a registry whose certificate is rejected for this reason.
pub(crate) fn untrusted(host: &str, reason: &str) -> RegistryError {
    RegistryError::Other(match reason.contains(AUTHORITY_AS_SERVER) {
        true => format!(
            "the registry {host} is not trusted: its certificate is that of an authority (CA:TRUE), as `openssl req -x509` makes it, which a server \
             may not use; make it with `-addext basicConstraints=critical,CA:FALSE`, or have an authority sign it, and name it or the authority \
             (`registry.caFile` in a document, --ca-file of a command that has it)"
        ),
        false => format!(
            "the registry {host} is not trusted: {reason}; name the certificate of its authority (`registry.caFile` in a document, --ca-file of a \
             command that has it), or `registry.plainHttp` and --plain-http for one without TLS"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ClientConnection, ServerConfig, ServerConnection};

    /// The error of a client that trusts the certificate of a server, which signs itself.
    fn refusal(is_ca: IsCa) -> Option<String> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = is_ca;
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = PrivateKeyDer::try_from(issuer.key().serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![issuer.der().clone()], key)
            .unwrap();
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();
        let config = client(&[], Some(issuer.pem().as_bytes())).unwrap();
        let name = "localhost".try_into().unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        while client.is_handshaking() {
            let mut to_server = Vec::new();
            client.write_tls(&mut to_server).unwrap();
            server.read_tls(&mut to_server.as_slice()).unwrap();
            server.process_new_packets().unwrap();
            let mut to_client = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut to_client).unwrap();
            }
            client.read_tls(&mut to_client.as_slice()).unwrap();
            if let Err(error) = client.process_new_packets() {
                return Some(untrusted("localhost", &error.to_string()).to_string());
            }
        }
        None
    }

    #[test]
    fn a_certificate_that_signs_itself_is_trusted_by_name() {
        assert_eq!(refusal(IsCa::NoCa), None);
        assert_eq!(refusal(IsCa::ExplicitNoCa), None);
    }

    #[test]
    fn an_authority_that_serves_is_told_what_to_make() {
        let refused = refusal(IsCa::Ca(BasicConstraints::Unconstrained)).unwrap();
        assert!(refused.contains("CA:FALSE"), "{refused}");
        let other = untrusted("localhost", "invalid peer certificate: UnknownIssuer");
        assert!(other.to_string().contains("certificate of its authority"));
    }

    fn message(pem: &[u8]) -> String {
        client(&[], Some(pem)).unwrap_err().to_string()
    }

    #[test]
    fn a_system_may_have_any_certificates_or_none() {
        client(&system_certificates(), None).unwrap();
        client(&[b"rubbish".to_vec()], None).unwrap();
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        assert!(message(b"").contains("there is no certificate"));
        let key = b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";
        assert!(message(key).contains("there is no certificate"));
        let garbage = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(message(garbage).contains("name a file of certificates"));
        let torn = b"-----BEGIN CERTIFICATE-----\nAAAA\n";
        assert!(message(torn).contains("name a file of certificates"));
    }
}
