//! One attempt to have a version ready: the component and the secrets are had, compared with what is there, and proved.

use super::ReconcilerParts;
use super::candidate::{AttemptOutcome, CandidateKey, Goal, NotReady, Question, Ready};
use super::migration_plan::{allowed, owner_version, plan};
use crate::admission_report::AdmissionReport;
use crate::admission_steps::{Proof, prove_loaded, run_admission};
use crate::desired::{Desired, Fetched, Origin};
use crate::disk::Disk;
use crate::history::{Failed, Identity, Known, settings_digest};
use crate::refusal::Refusal;
use std::sync::Arc;
use tokio::time::Instant;
use wasmount_engine::{BackendParts, LoadedComponent};

/// A component, as bytes or compiled already, or both.
struct FetchedComponent {
    digest: String,
    /// None: it is kept already.
    wasm: Option<Arc<Vec<u8>>>,
    compiled: Option<LoadedComponent>,
    origin: Origin,
    signed_by: Vec<String>,
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
