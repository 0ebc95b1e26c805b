//! Fetches plugins and verifies their signatures in a child process: code that speaks TLS, HTTP and JSON with other machines can neither mount nor
//! read anything of the node.
//!
//! The parent reads the files, since it may: the plugin, its signatures, keys, credentials, certificates. The child's answer about signatures is
//! trusted; the parent computes the digest of the component that it receives again.

use super::settled_file::blocking;
use crate::regular_file;
use crate::signature_files::{beside, signer_keys};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wasmount_artifact::{
    Access, COMPONENT_BYTES, ComponentSource, FetchError, FetchRequest, Fetched, Login,
    RegistryError, TransferLimits, check_file, system_certificates,
};
use wasmount_child::{Bounds, Task};
use wasmount_core::document::{PluginSource, RegistryPlace};
use wasmount_core::text::chain;
use wasmount_versions::Refusal;

/// The subcommand that a child is started with.
const SUBCOMMAND: &str = "fetch-child";
/// Memory of one child, in bytes: the component, once more as the answer, and space for TLS.
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

/// The component of a document: found, bounded, its digest compared by the child, its signatures verified. `wanted` may block: it is [`artifact`] or
/// [`file`]. `place` names the artifact or file in messages.
pub(super) async fn fetch(
    plugin: &PluginSource,
    place: &str,
    wanted: impl FnOnce() -> Result<ComponentSource, String> + Send + 'static,
) -> Result<Fetched, Refusal> {
    // The component cannot be had from its place now.
    let failed = |reason| Refusal::Source {
        place: place.to_owned(),
        reason,
        passes: true,
    };
    let signers = plugin.signers.clone();
    let (signers, wanted) = blocking(move || (signer_keys(&signers), wanted())).await?;
    let request = FetchRequest {
        signers: signers.map_err(Refusal::Signature)?,
        wanted: wanted.map_err(failed)?,
        digest: plugin.digest.clone(),
    };
    let work = match &request.wanted {
        ComponentSource::Artifact { .. } => FetchWork::Registry,
        ComponentSource::File { .. } => FetchWork::File,
    };
    let argument = work.to_possible_value();
    let task = Task {
        subcommand: SUBCOMMAND,
        arguments: argument.iter().map(|it| it.get_name().into()).collect(),
        bounds: bounds(work),
    };
    let message = request.encode().map_err(|error| failed(chain(&error)))?;
    let answer = wasmount_child::run(&task, message.to_vec()).await;
    let answer = answer.map_err(|error| {
        failed(format!(
            "the child process that fetches plugins: {}",
            chain(&error)
        ))
    })?;
    let fetched = Fetched::decode(&answer).map_err(|error| failed(chain(&error)))?;
    let fetched = fetched.map_err(|error| refusal(error, place.to_owned()))?;
    for remark in &fetched.remarks {
        tracing::warn!(remark, "a signature of the plugin was ignored");
    }
    Ok(fetched)
}

/// Does the work on standard input in the confined child, and ends the process.
pub(crate) fn fetch_as_child(work: FetchWork) -> ! {
    wasmount_child::serve(&bounds(work), |message| {
        let request = FetchRequest::decode(&message).map_err(|error| error.to_string())?;
        let answer = match (work, &request.wanted) {
            (FetchWork::Registry, ComponentSource::Artifact { .. }) => in_runtime(request)?,
            // The child may have only three descriptors, and a runtime needs more.
            (FetchWork::File, ComponentSource::File { wasm, beside }) => {
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

fn bounds(work: FetchWork) -> Bounds {
    let (network, readable) = match work {
        FetchWork::Registry => (true, NAME_FILES.iter().map(PathBuf::from).collect()),
        FetchWork::File => (false, Vec::new()),
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

/// An artifact, with what its registry needs to know of this host. It blocks.
pub(super) fn artifact(
    place: &RegistryPlace,
    credentials: Option<Login>,
) -> Result<ComponentSource, String> {
    let read = |path: &PathBuf| {
        let bytes = regular_file::read(path, CERTIFICATES_BYTES);
        bytes.map_err(|error| format!("the certificates {}: {error}", path.display()))
    };
    Ok(ComponentSource::Artifact {
        reference: place.reference.clone(),
        access: Box::new(Access {
            credentials,
            system_ca: system_certificates(),
            extra_ca: place.ca_file.as_ref().map(read).transpose()?,
            plain_http: place.plain_http,
            limits: TransferLimits::default(),
        }),
    })
}

/// A component that was read from a file, with the signatures beside that. It blocks.
pub(super) fn file(path: &Path, wasm: Vec<u8>) -> Result<ComponentSource, String> {
    let beside = beside(path)?;
    Ok(ComponentSource::File { wasm, beside })
}

/// Why a component was not fetched, as a reason of admission.
fn refusal(error: FetchError, place: String) -> Refusal {
    match error {
        FetchError::Signature(error) => Refusal::Signature(error.to_string()),
        FetchError::AnotherComponent { wanted, got, .. } => Refusal::OtherDigest {
            expected: wanted,
            found: got,
        },
        FetchError::Registry(error) => Refusal::Source {
            place,
            reason: chain(&error),
            passes: may_pass(&error),
        },
    }
}

/// Whether a registry may succeed later with nothing changed here. Rejected credentials are not tried again: some registries lock an account
/// after too many failures.
fn may_pass(error: &RegistryError) -> bool {
    matches!(
        error,
        RegistryError::Down { .. }
            | RegistryError::Slow { .. }
            | RegistryError::Busy { .. }
            | RegistryError::Truncated { .. }
            | RegistryError::WrongDigest { .. }
            | RegistryError::NotFound { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fetch_child_has_network_and_none_reads_files() {
        let pulls = bounds(FetchWork::Registry);
        assert!(pulls.network && !pulls.readable.iter().any(|it| it == Path::new("/etc")));
        let checks = bounds(FetchWork::File);
        assert!(!checks.network && checks.readable.is_empty());
    }

    #[test]
    fn the_child_is_started_with_its_subcommand() {
        let works = [FetchWork::Registry, FetchWork::File];
        for (work, name) in works.into_iter().zip(["registry", "file"]) {
            assert_eq!(FetchWork::from_str(name, false), Ok(work));
            assert_eq!(work.to_possible_value().unwrap().get_name(), name);
        }
    }

    #[test]
    fn a_file_is_asked_for_with_what_lies_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.wasm.sig"), "signature").unwrap();
        let wanted = file(&folder.path().join("p.wasm"), b"wasm".to_vec());
        let ComponentSource::File { wasm, beside } = wanted.unwrap() else {
            panic!("an artifact");
        };
        assert_eq!(wasm, b"wasm");
        assert_eq!(beside.signature.as_deref(), Some(&b"signature"[..]));
        assert_eq!(beside.bundle, None);
    }
}
