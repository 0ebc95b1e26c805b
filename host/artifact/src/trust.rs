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

#[cfg(test)]
mod tests {
    use super::*;

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
