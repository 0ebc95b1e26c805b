//! Credentials for an API server: a token and a kubeconfig for each user, and the key that signs service accounts' tokens.
//!
//! It grants no rights: those follow from the user's and the group's names (RBAC and the Node authorizer are on).

use crate::failure::Failure;
use crate::files;
use pem::Pem;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddrV4;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The only node of a cluster.
pub const NODE_NAME: &str = "node-1";

/// The file with the address of the API server.
const ADDRESS: &str = "address";

/// Bytes of a token: 128 bits cannot be guessed.
const TOKEN_BYTES: usize = 16;

/// The DER prefix of the point of a P-256 key in a SubjectPublicKeyInfo (RFC 5480 §2).
const P256_PUBLIC_KEY: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Mode of files with secrets: readable by their owner only.
const SECRET_MODE: u32 = 0o600;

/// A name of the API server that its certificate contains whatever its address is.
const SERVER_NAME: &str = "kubernetes.default.svc";

/// A user of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// The administrator, who may do everything.
    Admin,
    /// The kubelet of the node, and processes that use its rights.
    Node,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
}

/// The credential files of all users.
#[derive(Debug, Clone)]
pub struct Access {
    directory: PathBuf,
    /// The address of the API server.
    pub(super) server: SocketAddrV4,
}

impl User {
    /// All users.
    const ALL: [Self; 4] = [
        Self::Admin,
        Self::Node,
        Self::ControllerManager,
        Self::Scheduler,
    ];

    /// The user's name and group.
    fn identity(self) -> (String, &'static str) {
        match self {
            Self::Admin => ("admin".to_owned(), "system:masters"),
            Self::Node => (format!("system:node:{NODE_NAME}"), "system:nodes"),
            Self::ControllerManager => ("system:kube-controller-manager".to_owned(), ""),
            Self::Scheduler => ("system:kube-scheduler".to_owned(), ""),
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Admin => "admin.kubeconfig",
            Self::Node => "node.kubeconfig",
            Self::ControllerManager => "controller-manager.kubeconfig",
            Self::Scheduler => "scheduler.kubeconfig",
        }
    }
}

impl Access {
    /// Creates all credentials for the API server at an address.
    pub fn create(directory: &Path, server: SocketAddrV4) -> Result<Self, Failure> {
        files::create_directory(&directory.join("certificates"))?;
        let access = Self {
            directory: directory.to_owned(),
            server,
        };
        write_secret(&directory.join(ADDRESS), &server.to_string())?;
        let mut tokens = String::new();
        for user in User::ALL {
            let token = hex::encode(super::random::<TOKEN_BYTES>());
            let (name, group) = user.identity();
            // The columns of a static token file: token, user, uid, groups.
            let _ = writeln!(tokens, "{token},{name},{name},{group}");
            let text = kubeconfig(server, &access.certificate(), &token);
            write_secret(&access.kubeconfig(user), &text)?;
        }
        write_secret(&access.tokens(), &tokens)?;
        let [private, public] = signing_key()?;
        write_secret(&access.signing_key(), &private)?;
        write_secret(&access.public_key(), &public)?;
        Ok(access)
    }

    /// The credentials that were created in this directory before.
    pub(super) fn of(directory: &Path) -> Result<Self, Failure> {
        let path = directory.join(ADDRESS);
        let server = files::read_text(&path)?.parse();
        Ok(Self {
            directory: directory.to_owned(),
            server: server.map_err(Failure::cannot(format!("parse {}", path.display())))?,
        })
    }

    /// A user's kubeconfig.
    pub fn kubeconfig(&self, user: User) -> PathBuf {
        self.directory.join(user.file())
    }

    /// Creates the kubeconfig of a user with this bearer token, such as a service account.
    pub fn kubeconfig_of(&self, name: &str, token: &str) -> Result<PathBuf, Failure> {
        let path = self.directory.join(format!("{name}.kubeconfig"));
        write_secret(&path, &kubeconfig(self.server, &self.certificate(), token))?;
        Ok(path)
    }

    /// For `--token-auth-file`.
    pub(super) fn tokens(&self) -> PathBuf {
        self.directory.join("tokens.csv")
    }

    /// The private key that signs the tokens of service accounts.
    pub(super) fn signing_key(&self) -> PathBuf {
        self.directory.join("service-account.key")
    }

    /// The public key that verifies them.
    pub(super) fn public_key(&self) -> PathBuf {
        self.directory.join("service-account.pub")
    }

    /// For `--cert-dir`: the API server creates its certificate itself.
    pub(super) fn certificates(&self) -> PathBuf {
        self.directory.join("certificates")
    }

    /// The certificate, with that of the authority that the API server created for it.
    pub fn certificate(&self) -> PathBuf {
        self.certificates().join("apiserver.crt")
    }
}

/// JSON is YAML, so no YAML writer is needed here.
fn kubeconfig(server: SocketAddrV4, certificate: &Path, token: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "cluster",
        "contexts": [{"name": "cluster", "context": {"cluster": "cluster", "user": "user"}}],
        "clusters": [{"name": "cluster", "cluster": {
            "server": format!("https://{server}"),
            "certificate-authority": certificate,
            "tls-server-name": SERVER_NAME,
        }}],
        "users": [{"name": "user", "user": {"token": token}}],
    })
    .to_string()
}

/// A new ECDSA key: the private one (PKCS#8) and the public one, as PEM.
fn signing_key() -> Result<[String; 2], Failure> {
    let random = SystemRandom::new();
    let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random);
    let pair = pair.map_err(|_| {
        Failure::Unexpected("the system gives no random numbers for a key".to_owned())
    })?;
    let read = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pair.as_ref(), &random);
    let read = read
        .map_err(|rejected| Failure::Unexpected(format!("a new key cannot be read: {rejected}")))?;
    let public = [&P256_PUBLIC_KEY, read.public_key().as_ref()].concat();
    Ok([
        pem::encode(&Pem::new("PRIVATE KEY", pair.as_ref())),
        pem::encode(&Pem::new("PUBLIC KEY", public)),
    ])
}

fn write_secret(path: &Path, text: &str) -> Result<(), Failure> {
    File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(SECRET_MODE)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(Failure::cannot(format!("write {}", path.display())))
}
