//! TLS of one grant: which certificates are trusted, and how the host identifies itself.

use crate::secret_values::secret;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;
use wasmount_core::document::network::{Protocol, Tls};
use wasmount_core::secrets::Secrets;

/// Verifies a system as its grant says.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// None: every certificate is accepted.
    trusted: Option<Arc<WebPkiServerVerifier>>,
    /// The name in the certificate, if it is not the host's.
    name: Option<ServerName<'static>>,
    /// SHA-256 of a certificate or of its public key (RFC 7469), in hexadecimal. Empty: all.
    pins: BTreeSet<String>,
}

/// The configuration of a client. An error says what is wrong, without the value of a secret.
pub(crate) fn client(
    tls: &Tls,
    protocol: Protocol,
    secrets: &Secrets,
) -> Result<ClientConfig, String> {
    let mut config = verified(tls, secrets)?;
    // In the order of preference (RFC 7301).
    let names: &[&str] = match protocol {
        Protocol::Auto => &["h2", "http/1.1"],
        Protocol::Http1 => &["http/1.1"],
        Protocol::Http2 => &["h2"],
    };
    config.alpn_protocols = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(config)
}

/// The configuration of a client that uses no TLS.
pub(crate) fn trusting_nobody() -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| failed(&error))?;
    let config = config.with_root_certificates(RootCertStore::empty());
    Ok(config.with_no_client_auth())
}

fn verified(tls: &Tls, secrets: &Secrets) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trusted = match tls.skip_verify {
        true => None,
        false => {
            let roots = Arc::new(roots(tls, secrets)?);
            let verifier =
                WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
            Some(verifier.map_err(|error| failed(&error))?)
        }
    };
    let name = tls.server_name.clone().map(ServerName::try_from);
    let verifier = Verifier {
        provider: Arc::clone(&provider),
        trusted,
        name: name.transpose().map_err(|error| failed(&error))?,
        pins: tls.pins.clone(),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let Some(client) = &tls.client else {
        return Ok(config.with_no_client_auth());
    };
    let chain = certificates(&client.certificate, secrets)?;
    let key = PrivateKeyDer::from_pem_slice(secret(&client.key, secrets)?.as_bytes())
        .map_err(|_| invalid(&client.key, "is not a private key in PEM"))?;
    config
        .with_client_auth_cert(chain, key)
        .map_err(|_| invalid(&client.key, "does not belong to the client's certificate"))
}

fn roots(tls: &Tls, secrets: &Secrets) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(ca) = &tls.ca else {
        // A certificate that cannot be parsed affects only the systems that it vouches for.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    for certificate in certificates(ca, secrets)? {
        let added = roots.add(certificate);
        added.map_err(|_| invalid(ca, "has a certificate that cannot be trusted"))?;
    }
    Ok(roots)
}

fn certificates(name: &str, secrets: &Secrets) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = secret(name, secrets)?.as_bytes();
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(invalid(name, "is not a list of certificates in PEM")),
    }
}

fn failed(error: &dyn std::fmt::Display) -> String {
    format!("TLS cannot be set up: {error}")
}

fn invalid(secret: &str, reason: &str) -> String {
    format!("the secret `{secret}` {reason}")
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.pins.is_empty() {
            let key = ParsedCertificate::try_from(end_entity)?.subject_public_key_info();
            let is_pinned = |bytes: &[u8]| self.pins.contains(&hex::encode(Sha256::digest(bytes)));
            if !is_pinned(end_entity) && !is_pinned(&key) {
                let reason = "neither its certificate nor its key is in `tls.pinSha256`";
                return Err(Error::General(reason.to_owned()));
            }
        }
        match &self.trusted {
            Some(trusted) => {
                let name = self.name.as_ref().unwrap_or(host);
                trusted.verify_server_cert(end_entity, intermediates, name, ocsp, now)
            }
            None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
