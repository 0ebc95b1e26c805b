//! Which certificates make a registry trusted: the system's and those that are named beside.
//!
//! The list is that of OpenSSL's builds on common systems; all of them are files that a distribution keeps.

use crate::error::RegistryError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

/// Names another file, as for OpenSSL and Go.
const OVERRIDE: &str = "SSL_CERT_FILE";

/// Where systems have all of their certificates in one file; the first that is there counts.
const BUNDLES: [&str; 5] = [
    // Debian, Ubuntu, Alpine, Arch
    "/etc/ssl/certs/ca-certificates.crt",
    // Fedora, RHEL
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    // SUSE
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Largest file of the system's certificates, in bytes: Debian's has a quarter of a megabyte.
const BUNDLE_BYTES: u64 = 8 << 20;

/// The certificates that this system trusts, PEM; none where it has none. For whoever then speaks to a registry, which may be a process that
/// cannot read them any more.
pub fn system_certificates() -> Vec<u8> {
    let named = std::env::var_os(OVERRIDE).map(PathBuf::from);
    let known = BUNDLES.map(PathBuf::from);
    let Some(path) = named.into_iter().chain(known).find(|path| path.is_file()) else {
        return Vec::new();
    };
    let mut pem = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(BUNDLE_BYTES).read_to_end(&mut pem));
    match read {
        Ok(_) => pem,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the system's certificates are not trusted");
            Vec::new()
        }
    }
}

/// TLS that trusts the system's certificates and further ones.
pub(crate) fn client(
    system_ca: &[u8],
    extra_ca: Option<&[u8]>,
) -> Result<ClientConfig, RegistryError> {
    let bad = |reason: String| RegistryError::BadCertificates { reason };
    let mut roots = RootCertStore::empty();
    // One of the system's that is not understood concerns only whom it vouches for.
    let readable = CertificateDer::pem_slice_iter(system_ca).filter_map(Result::ok);
    let (trusted, unusable) = roots.add_parsable_certificates(readable);
    tracing::debug!(trusted, unusable, "certificates of the system");
    if let Some(pem) = extra_ca {
        let mut extra = 0_usize;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| bad(error.to_string()))?;
            roots
                .add(certificate)
                .map_err(|error| bad(error.to_string()))?;
            extra += 1;
        }
        if extra == 0 {
            return Err(bad("there is no certificate in them".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(pem: &[u8]) -> String {
        client(b"", Some(pem)).unwrap_err().to_string()
    }

    #[test]
    fn a_system_may_have_any_certificates_or_none() {
        client(&system_certificates(), None).unwrap();
        client(b"rubbish", None).unwrap();
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        assert!(said(b"").contains("there is no certificate"));
        let key = b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";
        assert!(said(key).contains("there is no certificate"));
        let garbage = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(said(garbage).contains("name a file of certificates"));
        let torn = b"-----BEGIN CERTIFICATE-----\nAAAA\n";
        assert!(said(torn).contains("name a file of certificates"));
    }
}
