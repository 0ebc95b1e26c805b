//! Fetches plugins and verifies their signatures in a child process: code that speaks TLS, HTTP and JSON with other machines can neither mount nor
//! read anything of the node.
//!
//! The parent reads the files, since it may: the plugin, its signatures, keys, credentials, certificates. The child's answer about signatures is
//! trusted; the parent computes the digest of the component that it receives again.

use crate::regular_file::{self, Refused};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wasmount_artifact::signature::{KEY_BYTES, SIGNATURE_BYTES, SignerKeys, SignerKeysError};
use wasmount_artifact::signature::{bundle_file, signature_file};
use wasmount_artifact::{
    Access, BadMessage, Beside, COMPONENT_BYTES, Credentials, DockerConfigError, FetchError,
    FetchRequest, Fetched, TransferLimits, Wanted, check_file, login, system_certificates,
};
use wasmount_child::{Bounds, ChildError, Task};
use wasmount_core::document::{PluginPlace, PluginSource, RegistryPlace};

/// The subcommand that a child is started with.
const SUBCOMMAND: &str = "fetch-child";
/// Memory of one child, in bytes: the component, once more as the answer, and room for TLS.
const MEMORY_BYTES: u64 = 512 << 20;
/// Processor time of one child: the largest component is decrypted and hashed in a second or two, more slowly in a build without optimisation.
const CPU: Duration = Duration::from_secs(60);
/// What an answer holds beside the component, in bytes: an error with its message, or the names of keys.
const HEAD_BYTES: u64 = 1 << 20;
/// Largest file of certificates, in bytes: what a Kubernetes Secret can hold.
const CERTIFICATES_BYTES: u64 = 1 << 20;

/// Files that resolving a host name reads (resolv.conf(5), nsswitch.conf(5)), and the libraries that it may load for that.
const NAME_FILES: [&str; 8] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/ld.so.cache",
    "/lib",
    "/usr/lib",
];

/// What a child is to do: only one of the two may reach the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FetchWork {
    /// Pull from a registry.
    Registry,
    /// Check the signatures of a file.
    File,
}

/// docker's `config.json` for the pull, from whichever source, and its name in messages.
#[derive(Clone)]
pub(crate) struct RegistryConfig {
    /// Its content.
    pub(crate) content: Vec<u8>,
    /// Its source: the file, or the Secret.
    pub(crate) found: String,
}

/// Why a plugin was not fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfetched {
    /// The plugin's own file.
    #[error("the plugin {}: {source}", .path.display())]
    Plugin {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: Refused,
    },
    /// A file beside the plugin, or one that the document names.
    #[error("the {what} {}: {source}", .path.display())]
    File {
        /// The purpose of the file.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: Refused,
    },
    /// The signers' keys of the document.
    #[error(transparent)]
    Keys(#[from] SignerKeysError),
    /// The credentials.
    #[error(transparent)]
    Credentials(#[from] DockerConfigError),
    /// The fetch failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The child process failed.
    #[error("the process that fetches plugins: {0}")]
    Child(#[from] ChildError),
    /// The child's answer is invalid.
    #[error(transparent)]
    Answer(#[from] BadMessage),
    /// The host is shutting down.
    #[error("the reading of files was stopped")]
    Stopped,
}

impl std::fmt::Debug for RegistryConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistryConfig")
            .field("found", &self.found)
            .finish_non_exhaustive()
    }
}

/// The component of a document in `folder`: found, bounded, its digest compared, its signatures verified. `config` holds the credentials for
/// its registry.
pub(crate) async fn fetch(
    plugin: &PluginSource,
    folder: &Path,
    config: Option<RegistryConfig>,
) -> Result<Fetched, Unfetched> {
    let (source, folder) = (plugin.clone(), folder.to_owned());
    let prepared = tokio::task::spawn_blocking(move || request(&source, &folder, config));
    let (work, request) = prepared.await.map_err(|_| Unfetched::Stopped)??;
    let task = Task {
        subcommand: SUBCOMMAND,
        arguments: vec![work.word().into()],
        bounds: bounds(work),
    };
    let message = request.encode()?;
    let answer = wasmount_child::run(&task, message.to_vec()).await?;
    let fetched = Fetched::decode(&answer)??;
    for remark in &fetched.remarks {
        tracing::warn!(remark, "a signature of the plugin was ignored");
    }
    // The child compared it too; a compromised child could answer anything.
    match &plugin.digest {
        Some(wanted) if wanted != fetched.digest.as_str() => Err(FetchError::AnotherComponent {
            what: "what was fetched".to_owned(),
            wanted: wanted.clone(),
            got: fetched.digest.to_string(),
        }
        .into()),
        _ => Ok(fetched),
    }
}

/// Does the work on standard input in the confined child, and ends the process.
pub(crate) fn fetch_as_child(work: FetchWork) -> ! {
    wasmount_child::serve(&bounds(work), |message| {
        let request = FetchRequest::decode(&message).map_err(|error| error.to_string())?;
        let answer = match (work, &request.wanted) {
            (FetchWork::Registry, Wanted::Artifact { .. }) => in_runtime(request)?,
            // The child may have only three descriptors, and a runtime needs more.
            (FetchWork::File, Wanted::File { wasm, beside }) => {
                let (digest, signers) = (request.digest.as_deref(), &request.signers);
                check_file(wasm.clone(), beside, digest, signers)
            }
            _ => return Err("the request is for another kind of work".to_owned()),
        };
        Fetched::encode(&answer).map_err(|error| error.to_string())
    })
}

fn in_runtime(request: FetchRequest) -> Result<Result<Fetched, FetchError>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    Ok(runtime.block_on(wasmount_artifact::fetch(request)))
}

impl FetchWork {
    fn word(self) -> &'static str {
        match self {
            Self::Registry => "registry",
            Self::File => "file",
        }
    }
}

fn bounds(work: FetchWork) -> Bounds {
    let network = work == FetchWork::Registry;
    let readable = match work {
        FetchWork::Registry => NAME_FILES.iter().map(PathBuf::from).collect(),
        FetchWork::File => Vec::new(),
    };
    Bounds {
        memory_bytes: MEMORY_BYTES,
        cpu: CPU,
        // The child times out earlier and says why; this limit is for one that does not.
        wall: TransferLimits::default().total + Duration::from_secs(10),
        output_bytes: COMPONENT_BYTES + HEAD_BYTES,
        network,
        readable,
    }
}

/// Reads the files that the request needs. It blocks.
fn request(
    plugin: &PluginSource,
    folder: &Path,
    config: Option<RegistryConfig>,
) -> Result<(FetchWork, FetchRequest), Unfetched> {
    let signers = plugin.signers.clone().resolved(folder);
    let signers = SignerKeys::of(&signers, |path| {
        regular_file::read(path, KEY_BYTES as u64).map_err(|refused| refused.to_string())
    })?;
    let (work, wanted) = match &plugin.place {
        PluginPlace::Registry(place) => (FetchWork::Registry, artifact(place, folder, config)?),
        PluginPlace::File(path) => (FetchWork::File, file(folder.join(path))?),
    };
    let request = FetchRequest {
        wanted,
        digest: plugin.digest.clone(),
        signers,
    };
    Ok((work, request))
}

fn artifact(
    place: &RegistryPlace,
    folder: &Path,
    config: Option<RegistryConfig>,
) -> Result<Wanted, Unfetched> {
    let extra_ca = match &place.ca_file {
        None => None,
        Some(path) => {
            let path = folder.join(path);
            let read = regular_file::read(&path, CERTIFICATES_BYTES);
            Some(read.map_err(|source| Unfetched::File {
                what: "certificates",
                path,
                source,
            })?)
        }
    };
    let credentials = match config {
        None => Credentials::Anonymous,
        Some(RegistryConfig { content, found }) => login(&content, &found, &place.reference)?,
    };
    Ok(Wanted::Artifact {
        reference: place.reference.clone(),
        access: Box::new(Access {
            credentials,
            system_ca: system_certificates(),
            extra_ca,
            plain_http: place.plain_http,
            limits: TransferLimits::default(),
        }),
    })
}

fn file(path: PathBuf) -> Result<Wanted, Unfetched> {
    let beside = Beside {
        signature: optional(signature_file(&path))?,
        bundle: optional(bundle_file(&path))?,
    };
    match regular_file::read(&path, COMPONENT_BYTES) {
        Ok(wasm) => Ok(Wanted::File { wasm, beside }),
        Err(source) => Err(Unfetched::Plugin { path, source }),
    }
}

/// A file that may be absent.
fn optional(path: PathBuf) -> Result<Option<Vec<u8>>, Unfetched> {
    regular_file::read_if_there(&path, SIGNATURE_BYTES as u64).map_err(|source| Unfetched::File {
        what: "signature",
        path,
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_pulls_reaches_the_network_and_nobody_reads_the_node() {
        let pulls = bounds(FetchWork::Registry);
        assert!(pulls.network && !pulls.readable.iter().any(|it| it == Path::new("/etc")));
        let checks = bounds(FetchWork::File);
        assert!(!checks.network && checks.readable.is_empty());
    }

    #[test]
    fn the_child_is_started_with_a_word_that_it_knows() {
        for work in [FetchWork::Registry, FetchWork::File] {
            assert_eq!(FetchWork::from_str(work.word(), false), Ok(work));
        }
    }

    #[test]
    fn a_file_is_asked_for_with_what_lies_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.wasm"), "wasm").unwrap();
        std::fs::write(folder.path().join("p.wasm.sig"), "signature").unwrap();
        let plugin = PluginSource::file("p.wasm");
        let (work, request) = request(&plugin, folder.path(), None).unwrap();
        assert_eq!(work, FetchWork::File);
        let Wanted::File { wasm, beside } = request.wanted else {
            panic!("an artifact");
        };
        assert_eq!(wasm, b"wasm");
        assert_eq!(beside.signature.as_deref(), Some(&b"signature"[..]));
        assert_eq!(beside.bundle, None);
        std::fs::remove_file(folder.path().join("p.wasm")).unwrap();
        let error = super::request(&plugin, folder.path(), None).unwrap_err();
        assert!(matches!(error, Unfetched::Plugin { .. }), "{error}");
    }
}
