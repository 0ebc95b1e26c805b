//! Admission: everything that must hold before a plugin serves, in the order in which it is cheapest to refuse. Apart from the engine
//! because these are decisions about a version, not ways to run one. Until it is admitted nothing has changed; then its pools are opened,
//! as its first call would do.

use crate::imports::{check_imports, check_line, imports_pool, unused_grants};
use crate::plugin_file;
use crate::pools::pools_in_doubt;
use crate::refusal::Refusal;
use std::path::Path;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wasmount_core::backend::BackendError;
use wasmount_core::call::Call;
use wasmount_core::capabilities::check_features;
use wasmount_core::document::{Grants, PluginSource};
use wasmount_core::driver::Role;
use wasmount_core::rpc::Rpc;
use wasmount_core::services::{Feature, Offer};
use wasmount_engine::{BackendParts, Engine, WasmBackend};

/// Features under this prefix are anybody's: taken, and never acted on.
const EXPERIMENTAL: &str = "x-";
/// Likeness from which a known feature is offered in place of an unknown one (Jaro-Winkler; 1 is the same word).
const ALIKE: f64 = 0.8;
/// Stands in log lines of calls that no client made.
const REQUEST_ID: &str = "admission";
const NOT_READY: &str = "the plugin says that it is not ready yet";

/// A plugin that may serve.
pub struct Admitted {
    /// Ready to be put to use.
    pub backend: Arc<WasmBackend>,
    /// For the administrator; none keeps it from serving.
    pub warnings: Vec<String>,
}

/// Admits a plugin. `base` is the folder of the document; `role` is this process's: one that serves a node alone must not take the pools
/// from the controller beside it.
pub async fn admit(
    engine: &Arc<Engine>,
    plugin: &PluginSource,
    base: &Path,
    grants: &Grants,
    parts: BackendParts,
    role: Role,
) -> Result<Admitted, Refusal> {
    let wasm = plugin_file::read(plugin, base).await?;
    let component = engine.load(wasm).await?.with_wasi(plugin.wasi);

    let mut warnings = check_line(component.imports(), component.exports())?;
    check_imports(component.imports(), plugin.wasi)?;
    warnings.extend(unused_grants(component.imports(), grants.pools.len()));

    let time = parts.limits.time;
    let (driver, mounter) = (parts.driver.clone(), Arc::clone(&parts.mounter));
    let call = |rpc| Call {
        rpc,
        request_id: REQUEST_ID.to_owned(),
        secrets: Arc::default(),
        deadline: Instant::now() + time,
        cancelled: CancellationToken::new(),
    };
    let asked = call(Rpc::GetPluginInfo);
    let candidate = component.prepare(parts, &asked).await?;
    let info = candidate.plugin_info(&asked).await;
    let info = info.map_err(Refusal::Identity)?;
    let candidate = candidate.named(&info);
    let plugin = candidate.label();
    let features = known_features(&info.features).map_err(|unknown| Refusal::UnknownFeature {
        plugin: plugin.clone(),
        nearest: nearest_feature(&unknown),
        feature: unknown,
    })?;
    check_features(&Offer::new(candidate.services(), features.clone())).map_err(|source| {
        let plugin = plugin.clone();
        Refusal::Features { plugin, source }
    })?;

    let settings = candidate.check_settings(&asked).await;
    warnings.extend(settings.map_err(Refusal::Settings)?);
    match candidate.probe(&call(Rpc::Probe)).await {
        Ok(true) => {}
        Ok(false) => warnings.push(NOT_READY.to_owned()),
        // Its storage may be away for a while: to be without a plugin then would be no better.
        Err(BackendError::Answered { message, .. }) => {
            warnings.push(format!("{NOT_READY}: {message}"));
        }
        Err(error) => return Err(Refusal::Probe(error)),
    }
    if role != Role::Node && imports_pool(component.imports()) {
        let deadline = Instant::now() + time;
        warnings.extend(pools_in_doubt(&mounter, &driver, grants, deadline).await);
    }
    Ok(Admitted {
        backend: Arc::new(candidate.into_backend(info, features)),
        warnings,
    })
}

/// The features that this host acts on, or the first that is unknown: it would be a promise that nobody keeps.
fn known_features(words: &[String]) -> Result<Vec<Feature>, String> {
    let words = words.iter().filter(|word| !word.starts_with(EXPERIMENTAL));
    words
        .map(|word| Feature::of_word(word).ok_or_else(|| word.clone()))
        .collect()
}

fn nearest_feature(word: &str) -> Option<&'static str> {
    let known = Feature::ALL.iter().map(|feature| feature.word());
    let scored = known.map(|known| (strsim::jaro_winkler(known, word), known));
    let best = scored.max_by(|one, other| one.0.total_cmp(&other.0));
    best.filter(|(likeness, _)| *likeness >= ALIKE)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
        words.map(str::to_owned).into()
    }

    #[test]
    fn known_features_are_taken_and_experimental_ones_passed_over() {
        assert_eq!(
            known_features(&words(["topology", "x-anything"])).unwrap(),
            [Feature::Topology]
        );
    }

    #[test]
    fn an_unknown_feature_is_refused_with_the_nearest_known_one() {
        for (word, nearest) in [
            ("clone-volumes", Some("clone-volume")),
            ("Topology", Some("topology")),
            ("teleport", None),
        ] {
            let unknown = known_features(&words(["topology", word])).unwrap_err();
            assert_eq!(
                (unknown.as_str(), nearest_feature(&unknown)),
                (word, nearest)
            );
        }
    }
}
