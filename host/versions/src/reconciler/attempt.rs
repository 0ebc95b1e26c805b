//! One attempt to have a version ready: the component and the secrets are had, compared with what is there, and proved.

use super::quiesce::Prepared;
use super::{Migrates, ReconcilerParts};
use crate::admission_report::AdmissionReport;
use crate::admission_steps::{Proof, call_at_admission, prove_loaded, run_admission};
use crate::desired::{Desired, Fetched, Origin};
use crate::disk::Disk;
use crate::history::{Failed, Identity, Known, settings_digest};
use crate::migration::Records;
use crate::refusal::Refusal;
use crate::services::Kept;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wasmount_core::backend::Backend;
use wasmount_core::migration::Migration;
use wasmount_core::rpc::Rpc;
use wasmount_engine::{BackendParts, LoadedComponent, WasmBackend};

/// What is to be got ready.
pub(super) struct Question {
    pub(super) parts: Arc<ReconcilerParts>,
    pub(super) disk: Arc<Disk>,
    pub(super) desired: Desired,
    pub(super) goal: Goal,
}

/// Which way.
pub(super) enum Goal {
    /// What the document points to now.
    Wanted(Box<Wanted>),
    /// A version that served before, from disk.
    Earlier {
        identity: Identity,
        origin: Origin,
        signed_by: Vec<String>,
    },
}

/// What is there already, and what must not come.
pub(super) struct Wanted {
    /// What serves.
    pub(super) serves: Option<CandidateKey>,
    /// What failed, and may not come by itself.
    pub(super) failed: Option<Failed>,
    /// What was refused for good.
    pub(super) refused: Option<CandidateKey>,
    /// What must not be taken away.
    pub(super) kept: Option<Kept>,
    /// The artifact, if its tag was resolved before; none: it is asked for.
    pub(super) known: Option<Known>,
    /// Whose records there are, by its own name of its version; none: nobody's, or another process sees to them.
    pub(super) records_of: Option<String>,
}

/// A version with its secrets.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct CandidateKey {
    pub(super) identity: Identity,
    /// Their mark.
    pub(super) secrets: String,
}

/// What it came to.
pub(super) enum AttemptOutcome {
    /// It may serve.
    Ready(Box<Ready>),
    /// And nothing need be waited for any more.
    Prepared(Box<Ready>, Box<Prepared>),
    /// It does.
    Serves {
        origin: Origin,
        signed_by: Vec<String>,
    },
    /// It failed before.
    FailedBefore,
    /// It was refused before, and nothing has changed.
    RefusedBefore,
}

/// A version that may serve.
pub(super) struct Ready {
    pub(super) candidate: CandidateKey,
    pub(super) desired: Desired,
    pub(super) origin: Origin,
    pub(super) signed_by: Vec<String>,
    /// None: it is kept already.
    pub(super) wasm: Option<Arc<Vec<u8>>>,
    pub(super) backend: Arc<WasmBackend>,
    pub(super) imports_pool: bool,
    /// What becomes of records of the version before, and how that is called; none: nothing.
    pub(super) migration: Option<(Migration, String)>,
    pub(super) warnings: Vec<String>,
    pub(super) proving: Duration,
}

/// Why not, and of what.
pub(super) struct NotReady {
    pub(super) refusal: Refusal,
    /// None: it was not had.
    pub(super) candidate: Option<CandidateKey>,
    /// Where its component came from.
    pub(super) origin: Option<Origin>,
}

/// A component, as bytes or compiled already, or both.
struct FetchedComponent {
    digest: String,
    /// None: it is kept already.
    wasm: Option<Arc<Vec<u8>>>,
    compiled: Option<LoadedComponent>,
    origin: Origin,
    signed_by: Vec<String>,
}

impl From<Refusal> for NotReady {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            candidate: None,
            origin: None,
        }
    }
}

/// Gets it ready.
pub(super) async fn attempt(question: Question) -> Result<AttemptOutcome, NotReady> {
    let began = Instant::now();
    let Question {
        parts,
        disk,
        desired,
        goal,
    } = question;
    let (wanted, had) = match goal {
        Goal::Wanted(wanted) => {
            let had = desired_component(&parts, &disk, &desired, wanted.known.as_ref()).await?;
            (Some(wanted), had)
        }
        Goal::Earlier {
            identity,
            origin,
            signed_by,
        } => {
            let known = Known {
                digest: identity.digest,
                origin,
                signed_by,
            };
            (None, kept(&parts, &disk, &known).await?)
        }
    };
    let secrets = parts.sources.secrets(&desired).await?;
    let candidate = CandidateKey {
        identity: Identity {
            digest: had.digest,
            settings_digest: settings_digest(&desired.document),
        },
        secrets: disk.mark(&secrets).await,
    };
    let FetchedComponent {
        digest: _,
        wasm,
        compiled,
        origin,
        signed_by,
    } = had;
    let (mut kept, mut records_of) = (None, None);
    let admitted_before = wanted.is_none();
    if let Some(wanted) = wanted {
        if wanted.serves.as_ref() == Some(&candidate) {
            return Ok(AttemptOutcome::Serves { origin, signed_by });
        }
        let fails = |failed: &Failed| failed.is(&candidate.identity, &candidate.secrets);
        if wanted.failed.as_ref().is_some_and(fails) {
            return Ok(AttemptOutcome::FailedBefore);
        }
        if wanted.refused.as_ref() == Some(&candidate) {
            return Ok(AttemptOutcome::RefusedBefore);
        }
        kept = wanted.kept;
        records_of = owner_version(&parts, wanted.records_of).await?;
    }
    let document = &desired.document;
    let proof = Proof {
        wasi: document.plugin.wasi,
        grants: &document.grants,
        parts: BackendParts {
            driver: document.driver_name.clone(),
            limits: document.limits.clone(),
            settings: document.settings.clone(),
            secrets: Arc::new(secrets),
            node_name: parts.node_name.clone(),
            state: Arc::clone(&parts.state),
            mounter: Arc::clone(&parts.mounter),
        },
        hidden: &document.hidden,
        kept: kept.as_ref(),
        admitted_before,
    };
    let mut report = AdmissionReport::default();
    let proved = match (compiled, &wasm) {
        (Some(component), _) => prove_loaded(component, proof, &mut report).await,
        (None, wasm) => {
            let wasm = wasm.as_deref().cloned().unwrap_or_default();
            run_admission(&parts.engine, wasm, proof, &mut report).await
        }
    };
    let planned = match proved {
        Ok(admitted) => plan(&admitted.backend, records_of, document.limits.time)
            .await
            .and_then(|migration| allowed(&parts, migration))
            .map(|migration| (admitted, migration)),
        Err(refusal) => Err(refusal),
    };
    match planned {
        Ok((admitted, migration)) => Ok(AttemptOutcome::Ready(Box::new(Ready {
            candidate,
            desired,
            origin,
            signed_by,
            wasm,
            backend: admitted.backend,
            imports_pool: admitted.imports_pool,
            migration,
            warnings: admitted.warnings,
            proving: began.elapsed(),
        }))),
        Err(refusal) => Err(NotReady {
            refusal,
            candidate: Some(candidate),
            origin: Some(origin),
        }),
    }
}

/// Where others share the records, what is noted beside them counts, and not what has served here; where nobody does, it is asked if the history
/// does not know. `own`: as the history has it.
pub(super) async fn owner_version(
    parts: &ReconcilerParts,
    own: Option<String>,
) -> Result<Option<String>, Refusal> {
    let records = Records::of(&parts.state, parts.driver.name());
    match (parts.migrates, own) {
        (Migrates::AnotherProcess, _) => Ok(None),
        (Migrates::ThisProcess, Some(own)) => Ok(Some(own)),
        (Migrates::ThisProcess, None) => records.made_for().await,
        (Migrates::TheElected, own) => Ok(records.made_for().await?.or(own)),
    }
}

/// Who stands by waits for whoever works.
pub(super) fn allowed<T>(
    parts: &ReconcilerParts,
    migration: Option<T>,
) -> Result<Option<T>, Refusal> {
    if migration.is_some() && !parts.may_migrate() {
        return Err(Refusal::NotElected);
    }
    Ok(migration)
}

/// What a version makes of another's records, if anything.
pub(super) async fn plan(
    backend: &WasmBackend,
    records_of: Option<String>,
    time: Duration,
) -> Result<Option<(Migration, String)>, Refusal> {
    let Some(from) = records_of.filter(|from| *from != backend.label().version) else {
        return Ok(None);
    };
    let call = call_at_admission(Rpc::GetPluginInfo, time);
    let planned = backend.plan_migration(&call, &from).await;
    match planned {
        Ok(Migration::Unneeded) => Ok(None),
        Ok(migration) => Ok(Some((migration, from))),
        Err(error) => Err(Refusal::Migration {
            reason: error.to_string(),
        }),
    }
}

/// What the document points to. A tag is resolved once: what it stood for then is on disk. If it is not any more, the registry is asked.
async fn desired_component(
    parts: &ReconcilerParts,
    disk: &Arc<Disk>,
    desired: &Desired,
    known: Option<&Known>,
) -> Result<FetchedComponent, Refusal> {
    if let Some(known) = known
        && let Ok(had) = kept(parts, disk, known).await
    {
        return Ok(had);
    }
    let Fetched {
        component,
        origin,
        signed_by,
    } = parts.sources.component(desired).await?;
    let (digest, wasm) = component.into_parts();
    Ok(FetchedComponent {
        compiled: parts.engine.load_compiled(&digest).await,
        digest,
        wasm: Some(Arc::new(wasm)),
        origin,
        signed_by,
    })
}

/// One that is on disk. Its bytes are read only if its compiled form is not there.
async fn kept(
    parts: &ReconcilerParts,
    disk: &Arc<Disk>,
    known: &Known,
) -> Result<FetchedComponent, Refusal> {
    let Known {
        digest,
        origin,
        signed_by,
    } = known.clone();
    let compiled = parts.engine.load_compiled(&digest).await;
    let wasm = match compiled {
        Some(_) => None,
        None => Some(Arc::new(disk.component_of(&digest).await?)),
    };
    Ok(FetchedComponent {
        digest,
        wasm,
        compiled,
        origin,
        signed_by,
    })
}
