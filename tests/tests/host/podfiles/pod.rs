//! A pod with an inline volume, as kubelet sends it, and what the pod then finds. Each renewal is a generation, whose number stands in every
//! file that it renews.

use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use tonic::Status;
use wasmount_csi::wire::csi::v1::NodePublishVolumeRequest;
use wasmount_tests::host::Host;
use wasmount_tests::kinds::random_bytes;
use wasmount_tests::requests;
use xtask::clients::Clients;

/// Where kubelet puts tokens.
pub(crate) const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// Audiences, and the files of their tokens. The last is long enough to be taken for a secret itself.
const AUDIENCES: [(&str, &str); 3] = [
    ("", "token"),
    (
        "https://vault.example",
        "tokens/https%3A%2F%2Fvault.example",
    ),
    (
        "monitoring.production.example",
        "tokens/monitoring.production.example",
    ),
];
/// What is renewed besides.
const OWN: &str = "files/generation";

/// How tokens come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// In the volume context, unless the CSIDriver object says otherwise.
    Context,
    /// With `serviceAccountTokenInSecrets`.
    Secret,
}

impl Arrival {
    pub(crate) const BOTH: [Self; 2] = [Self::Context, Self::Secret];
}

/// A pod, and where its volume goes.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) target: PathBuf,
    /// Stands in each of its tokens and nowhere else in the world.
    pub(crate) secret: String,
}

impl Pod {
    /// What lies above its target is made.
    pub(crate) fn new(host: &Host, name: &str) -> Self {
        let above = host
            .kubelet()
            .join("pods")
            .join(name)
            .join("volumes/kubernetes.io~csi/identity");
        fs::create_dir_all(&above).unwrap();
        let secret = random_bytes(24);
        Self {
            name: name.to_owned(),
            target: above.join("mount"),
            secret: hex::encode(secret),
        }
    }

    pub(crate) fn id(&self) -> String {
        format!("csi-{}", self.name)
    }

    pub(crate) fn token(&self, generation: usize) -> String {
        format!("eyJhbGciOiJSUzI1NiJ9.{}.{generation}", self.secret)
    }

    /// All tokens of a generation, as kubelet writes them.
    fn tokens(&self, generation: usize) -> String {
        let token = serde_json::json!({
            "token": self.token(generation),
            "expirationTimestamp": "2026-01-01T00:00:00Z",
        });
        let tokens = AUDIENCES.map(|(audience, _)| (audience.to_owned(), token.clone()));
        serde_json::Value::from_iter(tokens).to_string()
    }

    pub(crate) fn request(&self, arrival: Arrival, generation: usize) -> NodePublishVolumeRequest {
        let mut request = requests::publish(&self.id(), Path::new(""), &self.target);
        request.volume_context = [
            ("csi.storage.k8s.io/pod.name", self.name.clone()),
            ("csi.storage.k8s.io/pod.namespace", "shop".to_owned()),
            ("csi.storage.k8s.io/pod.uid", format!("uid-{}", self.name)),
            ("csi.storage.k8s.io/serviceAccount.name", "web".to_owned()),
            ("csi.storage.k8s.io/ephemeral", "true".to_owned()),
            ("file.generation", generation.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        let words = match arrival {
            Arrival::Context => &mut request.volume_context,
            Arrival::Secret => &mut request.secrets,
        };
        words.insert(TOKENS.to_owned(), self.tokens(generation));
        request
    }

    pub(crate) async fn publish(
        &self,
        clients: &Clients,
        arrival: Arrival,
        generation: usize,
    ) -> Result<(), Status> {
        let request = self.request(arrival, generation);
        clients.clone().node.node_publish_volume(request).await?;
        Ok(())
    }

    pub(crate) async fn unpublish(&self, clients: &Clients) -> Result<(), Status> {
        let request = requests::unpublish(&self.id(), &self.target);
        clients.clone().node.node_unpublish_volume(request).await?;
        Ok(())
    }

    pub(crate) fn read(&self, file: &str) -> io::Result<String> {
        fs::read_to_string(self.target.join(file))
    }

    /// The generation of one file.
    fn generation_in(&self, file: &str, content: &str) -> usize {
        let number = match file {
            OWN => Some(content),
            _ => content.rsplit_once('.').map(|(_, number)| number),
        };
        let number = number.and_then(|number| number.parse().ok());
        let number = number.unwrap_or_else(|| panic!("{file} is cut: {content:?}"));
        if file != OWN {
            assert_eq!(content, self.token(number), "{file}");
        }
        number
    }

    /// The generations of all files, each by its own path: of two at most, where it is renewed meanwhile.
    pub(crate) fn by_paths(&self) -> io::Result<BTreeSet<usize>> {
        renewed()
            .map(|file| Ok(self.generation_in(file, &self.read(file)?)))
            .collect()
    }

    /// The same through one directory, as a program reads that wants them to belong together.
    pub(crate) fn at_once(&self) -> io::Result<BTreeSet<usize>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(self.target.join("..data"), flags, Mode::empty())?;
        let data = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        renewed()
            .map(|file| {
                let content = fs::read_to_string(data.join(file))?;
                Ok(self.generation_in(file, &content))
            })
            .collect()
    }
}

/// Files that change with the generation.
fn renewed() -> impl Iterator<Item = &'static str> {
    AUDIENCES.into_iter().map(|(_, file)| file).chain([OWN])
}
