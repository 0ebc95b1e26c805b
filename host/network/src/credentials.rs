//! The credentials that the host adds to requests, except sessions.

use crate::connector::{Connector, Outgoing};
use crate::error::SendError;
use crate::login::Login;
use crate::secret_values::secret;
use crate::token::Token;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use ring::{hmac, rand};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;
use wasmount_core::document::network::{Algorithm, Jwt};
use wasmount_core::mutex::lock;
use wasmount_core::secrets::Secrets;
use zeroize::Zeroizing;

/// The credentials of one grant.
pub(crate) enum Credentials {
    None,
    Fixed(HeaderName, HeaderValue),
    Jwt(Box<Signer>),
    Session(Arc<Login>),
}

/// Signs JSON Web Tokens and keeps the last one for half of its lifetime.
pub(crate) struct Signer {
    rules: Jwt,
    key: SigningKey,
    last: Mutex<Option<(Instant, HeaderValue)>>,
}

enum SigningKey {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair),
    Hmac(hmac::Key),
}

impl Credentials {
    /// Adds them to a request; the token of a session is returned, since the answer may say that it has ended.
    pub(crate) async fn apply(
        &self,
        request: &mut Outgoing,
        connector: &Connector,
        refused: Option<&Token>,
        deadline: Instant,
    ) -> Result<Option<Token>, SendError> {
        match self {
            Self::None => Ok(None),
            Self::Fixed(name, value) => {
                request.headers.insert(name.clone(), value.clone());
                Ok(None)
            }
            Self::Jwt(signer) => {
                let token = signer.token(connector).map_err(|reason| SendError::Login {
                    grant: connector.name.clone(),
                    reason,
                })?;
                request.headers.insert(AUTHORIZATION, token);
                Ok(None)
            }
            Self::Session(login) => {
                let token = login.token(refused, deadline).await?;
                login.give(&token, request);
                // The other grant of `sessionOf` shows it too.
                connector.keep_secret(&token);
                Ok(Some(token))
            }
        }
    }
}

impl Signer {
    pub(crate) fn new(rules: &Jwt, secrets: &Secrets) -> Result<Self, String> {
        let Jwt { algorithm, key, .. } = rules;
        let read = SigningKey::read(*algorithm, secret(key, secrets)?);
        Ok(Self {
            rules: rules.clone(),
            key: read.ok_or_else(|| {
                format!("the secret `{key}` is no key for {algorithm:?} in PKCS #8, PEM")
            })?,
            last: Mutex::default(),
        })
    }

    fn token(&self, connector: &Connector) -> Result<HeaderValue, String> {
        let now = Instant::now();
        let mut last = lock(&self.last);
        if let Some((until, value)) = &*last
            && now < *until
        {
            return Ok(value.clone());
        }
        let token = self.signed(SystemTime::now())?;
        connector.keep_secret(&token);
        let mut value = HeaderValue::try_from(format!("Bearer {}", *token))
            .map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        *last = Some((now + self.rules.lifetime / 2, value.clone()));
        Ok(value)
    }

    fn signed(&self, now: SystemTime) -> Result<Zeroizing<String>, String> {
        let issued = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let algorithm = format!("{:?}", self.rules.algorithm);
        let mut header = Map::from_iter([
            ("alg".to_owned(), json!(algorithm)),
            ("typ".to_owned(), json!("JWT")),
        ]);
        if let Some(id) = &self.rules.key_id {
            header.insert("kid".to_owned(), json!(id));
        }
        let pairs = self.rules.claims.iter();
        let mut claims: Map<String, Value> = pairs
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        let expires = issued + self.rules.lifetime;
        claims.insert("iat".to_owned(), json!(issued.as_secs()));
        claims.insert("exp".to_owned(), json!(expires.as_secs()));
        let encode = |fields| URL_SAFE_NO_PAD.encode(Value::Object(fields).to_string());
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = self.key.sign(message.as_bytes())?;
        Ok(Zeroizing::new(format!(
            "{message}.{}",
            URL_SAFE_NO_PAD.encode(signature)
        )))
    }
}

impl SigningKey {
    fn read(algorithm: Algorithm, text: &str) -> Option<Self> {
        if algorithm == Algorithm::HS256 {
            return Some(Self::Hmac(hmac::Key::new(
                hmac::HMAC_SHA256,
                text.as_bytes(),
            )));
        }
        let der = pem::parse(text).ok()?;
        match algorithm {
            Algorithm::RS256 => RsaKeyPair::from_pkcs8(der.contents()).ok().map(Self::Rsa),
            _ => {
                let random = SystemRandom::new();
                let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
                let key = EcdsaKeyPair::from_pkcs8(kind, der.contents(), &random);
                key.ok().map(Self::Ecdsa)
            }
        }
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let random = rand::SystemRandom::new();
        let failed = |_| "the token cannot be signed".to_owned();
        match self {
            Self::Hmac(key) => Ok(hmac::sign(key, message).as_ref().to_vec()),
            Self::Ecdsa(key) => {
                let signature = key.sign(&random, message).map_err(failed)?;
                Ok(signature.as_ref().to_vec())
            }
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                let done = key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature);
                done.map_err(failed).map(|()| signature)
            }
        }
    }
}
