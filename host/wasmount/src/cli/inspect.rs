//! `wasmount inspect`: its flags, and the inspection of one component: its bytes, its imports and exports, then its answers when it is run
//! with nothing granted.

mod permissions;
mod producers;
mod report;
mod signatures;

use super::registry::{RegistryFlags, Source, source};
use super::show;
use super::subject::{CacheFlags, SecretFlags, document};
use super::transfer::write_whole;
use crate::config::Configured;
use crate::fault::Fault;
use crate::host::{TemporaryDirectory, Workbench, block_on};
use crate::regular_file;
use crate::telemetry::LogCapture;
use crate::visible;
use clap::Args;
use report::{Found, Report};
use signatures::Signatures;
use std::path::{Path, PathBuf};
use std::thread;
use wasmount_artifact::{COMPONENT_BYTES, Resolved};
use wasmount_core::document::PluginPlace;
use wasmount_engine::{EngineError, LoadedComponent};
use wasmount_versions::{AdmissionReport, Refusal};
use wit_component::{OutputToString, WitPrinter};

/// The file name of an artifact's component.
const COMPONENT: &str = "component.wasm";

const UNPRINTABLE: &str = "the component's world cannot be printed";

/// Show the exports, imports and producers of a component, and whether this host would serve it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  $ wasmount inspect plugin.wasm
  $ wasmount inspect plugin.wasm --backend backend.yaml --json
  $ wasmount inspect oci://registry.example.com/storage/nas:1.4.0
  $ wasmount inspect plugin.wasm --wit

The component is run for its name and features, with no pool and no network. With --backend it is judged under that document, otherwise
under one without settings.

Exit codes: 0 if it is a component, whatever the verdict; 1 if it is none or cannot be read; 64 for wrong flags or documents.")]
pub(crate) struct Flags {
    /// The component: a file, or an artifact (`oci://..`)
    #[arg(value_name = "FILE", value_parser = source)]
    component: Source,

    /// A StorageBackend document to check the component against
    #[arg(long, value_name = "FILE", env)]
    backend: Option<PathBuf>,

    /// Print only the WIT world; the component is not run, and a document is used for registry access only
    #[arg(long)]
    wit: bool,

    #[command(flatten)]
    cache: CacheFlags,

    #[command(flatten)]
    registry: RegistryFlags,

    #[command(flatten)]
    secrets: SecretFlags,

    /// Print one JSON object
    #[arg(long, env)]
    json: bool,
}

/// A file with the component's bytes, from any source.
struct Brought {
    file: PathBuf,
    /// Its source, as it is shown.
    origin: String,
    /// Signatures of an artifact; those beside a file are judged with it.
    signatures: Option<Signatures>,
    _place: Option<TemporaryDirectory>,
}

/// Inspects the component and prints the report.
pub(crate) fn run(flags: Flags) -> Result<(), Fault> {
    flags.consistent()?;
    drop(LogCapture::listen());
    let cache = flags.cache.directory()?;
    // The component's location is known only after it was fetched.
    let mut configured = document(flags.backend.as_deref(), &[])?;
    flags.secrets.put(&mut configured)?;
    let brought = bring(&flags, &configured)?;
    let file = &brought.file;
    let path = std::path::absolute(file).map_err(Fault::failed(unreadable(file)))?;
    configured.document.plugin.place = PluginPlace::File(path);
    if flags.wit {
        let wasm = block_on(async {
            let workbench = Workbench::for_identity(configured, cache).await?;
            // A component that the engine does not understand is not passed to the decoder.
            Ok(read(&workbench, file).await?.0)
        })?;
        let world = world(wasm)?;
        return show::print(&visible::lines(&world));
    }
    let hidden = configured.document.hidden.clone();
    let signers = match &brought.signatures {
        None => configured.document.plugin.signers.clone(),
        // The signatures are in the registry, not beside the temporary file.
        Some(_) => std::mem::take(&mut configured.document.plugin.signers),
    };
    let mut found = block_on(async {
        let workbench = Workbench::for_identity(configured, cache).await?;
        inspect(&workbench, file).await
    })?;
    let signatures = match brought.signatures {
        Some(signatures) => signatures,
        None => Signatures::beside(file, &signers, &found.report),
    };
    if let Some(reason) = signatures.refused().filter(|_| found.admitted.is_ok()) {
        let reason = reason.to_owned();
        found.admitted = Err(Refusal::Signature(reason));
    }
    let has_document = flags.backend.is_some();
    let report = Report::new(brought.origin, signatures, has_document, &hidden, found);
    show::answer(flags.json, &report.json(), |_| report.text())
}

impl Flags {
    /// Compares the values of flags: a switch that the environment sets to `0` contradicts no flag.
    fn consistent(&self) -> Result<(), Fault> {
        if !(self.wit && self.json) {
            return Ok(());
        }
        let reason = "prints WIT and nothing else; leave out --json, or unset WASMOUNT_JSON";
        Err(Fault::flag("--wit", true, reason))
    }
}

fn bring(flags: &Flags, configured: &Configured) -> Result<Brought, Fault> {
    let reference = match &flags.component {
        Source::File(file) => {
            return Ok(Brought {
                file: file.clone(),
                origin: file.display().to_string(),
                signatures: None,
                _place: None,
            });
        }
        Source::Artifact(reference) => reference,
    };
    let registry = flags.registry.connect_under(reference, configured)?;
    let (pulled, signatures) = block_on(async {
        let failed = || format!("{reference} cannot be inspected");
        let resolved = Resolved::find(&registry).await;
        let resolved = resolved.map_err(Fault::failed(failed()))?;
        let signers = &configured.document.plugin.signers;
        let signatures = Signatures::of_artifact(&registry, &resolved, signers).await;
        let pulled = resolved.fetch(&registry).await;
        Ok((pulled.map_err(Fault::failed(failed()))?, signatures))
    })?;
    let place = TemporaryDirectory::make("artifact")?;
    let file = place.path().join(COMPONENT);
    write_whole(&file, &pulled.wasm)?;
    Ok(Brought {
        file,
        origin: pulled.reference.to_string(),
        signatures: Some(signatures),
        _place: Some(place),
    })
}

async fn inspect(workbench: &Workbench, file: &Path) -> Result<Found, Fault> {
    // First, for its message about files that are not a component at all.
    let mut report = AdmissionReport::default();
    let admitted = workbench.admit(&mut report).await;
    if let Err(refusal) = &admitted
        && is_no_component(refusal)
    {
        return Err(Fault::failed(unreadable(file))(refusal.to_string()));
    }
    let (wasm, loaded) = read(workbench, file).await?;
    let imports = loaded.imports().to_vec();
    let exports = loaded.exports().to_vec();
    let digest = loaded.digest().to_owned();
    Ok(Found {
        identity: workbench.identity(loaded).await,
        report,
        admitted,
        imports,
        exports,
        digest,
        wasm,
    })
}

async fn read(workbench: &Workbench, file: &Path) -> Result<(Vec<u8>, LoadedComponent), Fault> {
    let wasm =
        regular_file::read(file, COMPONENT_BYTES).map_err(Fault::failed(unreadable(file)))?;
    let loaded = workbench.load(wasm.clone()).await;
    Ok((wasm, loaded.map_err(Fault::failed(unreadable(file)))?))
}

fn unreadable(file: &Path) -> String {
    format!("{} cannot be inspected", file.display())
}

/// Whether it was rejected before there was anything to inspect.
fn is_no_component(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Unreadable { .. }
            | Refusal::NotAFile { .. }
            | Refusal::TooLarge { .. }
            | Refusal::CoreModule
            | Refusal::NotWasm
            | Refusal::Empty
            | Refusal::Engine(EngineError::Compile(_) | EngineError::Lost)
    )
}

/// The world of a component as WIT, and every package that it depends on.
fn world(wasm: Vec<u8>) -> Result<String, Fault> {
    // On a separate thread, so that a panic becomes an error.
    let printed = thread::spawn(move || printed(&wasm)).join();
    match printed {
        Ok(text) => text.map_err(Fault::failed(UNPRINTABLE)),
        Err(_) => Err(Fault::failed(UNPRINTABLE)(
            "the WIT decoder cannot decode it",
        )),
    }
}

fn printed(wasm: &[u8]) -> Result<String, String> {
    let describe = |error: &dyn std::fmt::Display| format!("{error:#}");
    let decoded = wit_component::decode(wasm).map_err(|error| describe(&error))?;
    let resolve = decoded.resolve();
    let main = decoded.package();
    let others: Vec<_> = resolve
        .packages
        .iter()
        .map(|(id, _)| id)
        .filter(|id| *id != main)
        .collect();
    let mut printer = WitPrinter::<OutputToString>::default();
    let printed = printer.print(resolve, main, &others);
    printed.map_err(|error| describe(&error))?;
    Ok(printer.output.to_string())
}
