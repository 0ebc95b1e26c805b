//! One attempt to have a version ready: the component and the secrets are had, compared with what is there, and proved. Apart from the actor
//! because it may take long and must be droppable at any moment: it changes nothing but caches.

use super::KeeperParts;
use crate::desired::{Desired, Fetched, Origin};
use crate::disk::Disk;
use crate::history::{Failed, Identity, Known, settings_digest};
use crate::plugin_file::digest_of;
use crate::prove::{Proof, call_at_admission, prove, prove_loaded};
use crate::refusal::Refusal;
use crate::services::Kept;
use crate::trail::Trail;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wasmount_core::backend::Backend;
use wasmount_core::migration::Migration;
use wasmount_core::rpc::Rpc;
use wasmount_engine::{BackendParts, WasmBackend};

/// What is to be got ready.
pub(super) struct Question {
    pub(super) parts: Arc<KeeperParts>,
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
    pub(super) serves: Option<Exact>,
    /// What failed, and may not come by itself.
    pub(super) failed: Option<Failed>,
    /// What was refused for good.
    pub(super) refused: Option<Exact>,
    /// What must not be taken away.
    pub(super) kept: Option<Kept>,
    /// The artifact, if its tag was resolved before; none: it is asked for.
    pub(super) known: Option<Known>,
    /// Whose records there are, by its own name of its version; none: nobody's, or another process sees to them.
    pub(super) records_of: Option<String>,
}

/// A version with its secrets.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Exact {
    pub(super) identity: Identity,
    /// Their mark.
    pub(super) secrets: String,
}

/// What it came to.
pub(super) enum Came {
    /// It may serve.
    Ready(Box<Ready>),
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
    pub(super) exact: Exact,
    pub(super) desired: Desired,
    pub(super) origin: Origin,
    pub(super) signed_by: Vec<String>,
    /// None: it is kept already.
    pub(super) wasm: Option<Arc<[u8]>>,
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
    pub(super) exact: Option<Exact>,
    /// Where its component came from.
    pub(super) origin: Option<Origin>,
}

/// A component, or that it is compiled already.
struct Had {
    digest: String,
    wasm: Option<Vec<u8>>,
    origin: Origin,
    signed_by: Vec<String>,
}

impl From<Refusal> for NotReady {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            exact: None,
            origin: None,
        }
    }
}

/// Gets it ready.
pub(super) async fn attempt(question: Question) -> Result<Came, NotReady> {
    let began = Instant::now();
    let Question {
        parts,
        disk,
        desired,
        goal,
    } = question;
    let mut compiled = None;
    let (wanted, had) = match goal {
        Goal::Wanted(wanted) => {
            let Fetched {
                wasm,
                origin,
                signed_by,
            } = fetch(&parts, &disk, &desired, wanted.known.as_ref()).await?;
            let (digest, wasm) = digested(wasm).await;
            let had = Had {
                digest,
                wasm: Some(wasm),
                origin,
                signed_by,
            };
            (Some(wanted), had)
        }
        Goal::Earlier {
            identity,
            origin,
            signed_by,
        } => {
            compiled = parts.engine.load_compiled(&identity.digest).await;
            let wasm = match compiled {
                Some(_) => None,
                None => Some(disk.component_of(&identity.digest).await?),
            };
            let had = Had {
                digest: identity.digest,
                wasm,
                origin,
                signed_by,
            };
            (None, had)
        }
    };
    let secrets = parts.sources.secrets(&desired).await?;
    let exact = Exact {
        identity: Identity {
            digest: had.digest,
            settings_digest: settings_digest(&desired.document),
        },
        secrets: disk.mark(&secrets).await,
    };
    let Had {
        wasm,
        origin,
        signed_by,
        ..
    } = had;
    let (mut kept, mut records_of) = (None, None);
    let admitted_before = wanted.is_none();
    if let Some(wanted) = wanted {
        if wanted.serves.as_ref() == Some(&exact) {
            return Ok(Came::Serves { origin, signed_by });
        }
        let fails = |failed: &Failed| failed.is(&exact.identity, &exact.secrets);
        if wanted.failed.as_ref().is_some_and(fails) {
            return Ok(Came::FailedBefore);
        }
        if wanted.refused.as_ref() == Some(&exact) {
            return Ok(Came::RefusedBefore);
        }
        kept = wanted.kept;
        records_of = wanted.records_of;
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
    let mut trail = Trail::default();
    let shared = wasm.as_deref().map(Arc::from);
    let proved = match (compiled, wasm) {
        (Some(component), _) => prove_loaded(component, proof, &mut trail).await,
        (None, wasm) => prove(&parts.engine, wasm.unwrap_or_default(), proof, &mut trail).await,
    };
    let planned = match proved {
        Ok(admitted) => plan(&admitted.backend, records_of, document.limits.time)
            .await
            .map(|migration| (admitted, migration)),
        Err(refusal) => Err(refusal),
    };
    match planned {
        Ok((admitted, migration)) => Ok(Came::Ready(Box::new(Ready {
            exact,
            desired,
            origin,
            signed_by,
            wasm: shared,
            backend: admitted.backend,
            imports_pool: admitted.imports_pool,
            migration,
            warnings: admitted.warnings,
            proving: began.elapsed(),
        }))),
        Err(refusal) => Err(NotReady {
            refusal,
            exact: Some(exact),
            origin: Some(origin),
        }),
    }
}

/// What a version makes of another's records, if anything.
async fn plan(
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

/// Of large bytes that takes a while, which other calls need not wait for.
async fn digested(wasm: Vec<u8>) -> (String, Vec<u8>) {
    let bytes: Arc<[u8]> = Arc::from(wasm.as_slice());
    let digest = tokio::task::spawn_blocking(move || digest_of(&bytes)).await;
    // It ends early only with the runtime.
    let digest = digest.unwrap_or_else(|_| digest_of(&wasm));
    (digest, wasm)
}

/// A tag is resolved once: what it stood for then is on disk. If it is not any more, the registry is asked.
async fn fetch(
    parts: &KeeperParts,
    disk: &Disk,
    desired: &Desired,
    known: Option<&Known>,
) -> Result<Fetched, Refusal> {
    if let Some(known) = known
        && let Ok(wasm) = disk.component_of(&known.digest).await
    {
        return Ok(Fetched {
            wasm,
            origin: known.origin.clone(),
            signed_by: known.signed_by.clone(),
        });
    }
    parts.sources.component(desired).await
}
