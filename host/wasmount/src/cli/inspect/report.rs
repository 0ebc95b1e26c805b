//! The report about a component, for people and for programs.

use super::permissions::{contract_versions, needs, permissions};
use super::producers::Makers;
use super::signatures::Signatures;
use crate::cli::show::{Table, Tone, bytes, harmless};
use crate::host::Identity;
use crate::visible;
use serde::Serialize;
use serde_json::{Value, json};
use wasmount_core::capabilities::{Capabilities, Hidden};
use wasmount_core::driver::{Profile, Role};
use wasmount_core::services::{Feature, Service, ServiceSet};
use wasmount_engine::{CONTRACT_LINE, CONTRACT_PACKAGE};
use wasmount_versions::{AdmissionReport, Admitted, Refusal};

/// The results of an inspection.
pub(super) struct Found {
    /// The component's answers about itself, or why it has none.
    pub(super) identity: Result<Identity, String>,
    /// Whether a host would serve it.
    pub(super) admitted: Result<Admitted, Refusal>,
    /// The steps of the admission.
    pub(super) report: AdmissionReport,
    /// Names of the imports.
    pub(super) imports: Vec<String>,
    /// Names of the exports.
    pub(super) exports: Vec<String>,
    /// `sha256:..`.
    pub(super) digest: String,
    /// Its bytes.
    pub(super) wasm: Vec<u8>,
}

/// The same, formatted.
pub(super) struct Report {
    /// A file, or a reference with the digest of its manifest.
    origin: String,
    found: Found,
    offer: ServiceSet,
    makers: Makers,
    signatures: Signatures,
    verdict: Verdict,
    capabilities: [(&'static str, Capabilities); 2],
}

/// Whether a host would serve it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Verdict {
    /// `serves`, `depends` or `refused`.
    word: &'static str,
    /// The kind of rejection, for programs.
    kind: Option<&'static str>,
    reason: Option<String>,
    /// What the document must contain.
    needs: Vec<&'static str>,
    warnings: Vec<String>,
}

impl Report {
    pub(super) fn new(
        origin: String,
        signatures: Signatures,
        has_document: bool,
        hidden: &Hidden,
        found: Found,
    ) -> Self {
        let offer = offer(&found);
        let derive = |profile| Capabilities::derive(&offer, Role::All, profile, hidden);
        Self {
            capabilities: [
                ("1.12", derive(Profile::V1_12)),
                ("1.13", derive(Profile::V1_13)),
            ],
            verdict: verdict(&found, has_document),
            makers: Makers::of(&found.wasm),
            signatures,
            origin,
            offer,
            found,
        }
    }

    /// The report for programs: docs/inspect.md has the keys.
    pub(super) fn json(&self) -> Value {
        let found = &self.found;
        let plugin = found.identity.as_ref().ok().map(|identity| {
            let info = &identity.info;
            json!({
                "name": info.name.as_str(),
                "version": info.version,
                "manifest": info.manifest.clone().into_map(),
                "features": info.features,
            })
        });
        let capabilities = self.capabilities.iter();
        let capabilities =
            capabilities.map(|(version, it)| ((*version).to_owned(), capabilities_json(it)));
        let contract_versions = contract_versions(&found.imports, &found.exports);
        json!({
            "origin": self.origin,
            "sizeBytes": found.wasm.len(),
            "digest": found.digest,
            "contract": { "versions": contract_versions, "hostLine": CONTRACT_LINE },
            "plugin": plugin,
            "services": self.services(),
            "features": self.features(),
            "capabilities": capabilities.collect::<serde_json::Map<_, _>>(),
            "imports": found.imports,
            "exports": found.exports,
            "permissions": permissions(&found.imports),
            "producers": self.makers,
            "signatures": self.signatures.json(),
            "verdict": self.verdict,
        })
    }

    /// The report for people.
    pub(super) fn text(&self) -> String {
        let found = &self.found;
        let mut table = Table::default();
        table.row("origin", harmless(&self.origin));
        let size = u64::try_from(found.wasm.len()).unwrap_or(u64::MAX);
        table.row("size", format!("{} ({size} bytes)", bytes(size)));
        table.row("digest", found.digest.clone());
        match &found.identity {
            Ok(identity) => {
                let info = &identity.info;
                let name = harmless(info.name.as_str());
                table.row("plugin", format!("{name} {}", harmless(&info.version)));
                let manifest = info.manifest.clone().into_map().into_iter();
                let manifest = manifest
                    .map(|(key, value)| format!("{}: {}", harmless(&key), harmless(&value)));
                table.rows("manifest", manifest.collect());
            }
            Err(reason) => table.row("plugin", Tone::Bad.paint(&harmless(reason))),
        }
        let versions = contract_versions(&found.imports, &found.exports).join(", ");
        let versions = if versions.is_empty() {
            "none"
        } else {
            &versions
        };
        let line = format!(
            "{CONTRACT_PACKAGE}* {}; this host speaks {CONTRACT_LINE}",
            harmless(versions)
        );
        table.row("contract", line);
        table.rows("services", wrapped(&self.services()));
        table.rows("features", wrapped(&self.features()));
        for (version, capabilities) in &self.capabilities {
            let lists = capabilities.names().into_iter();
            let lists = lists.filter(|(_, names)| !names.is_empty());
            let lines = lists.flat_map(|(service, names)| {
                let mut lines = wrapped(&names);
                if let Some(first) = lines.first_mut() {
                    *first = format!("{service}: {first}");
                }
                lines
            });
            table.rows(&format!("CSI {version}"), lines.collect());
        }
        let requested = permissions(&found.imports).into_iter();
        let requested = requested.map(|it| format!("{:12}{}", it.name, it.means));
        table.rows("asks for", requested.collect());
        for (field, label) in [
            ("language", "language"),
            ("sdk", "SDK"),
            ("processed-by", "made by"),
        ] {
            let names = self.makers.names(field);
            table.rows(label, names.iter().map(|name| harmless(name)).collect());
        }
        table.rows("signature", self.signature_lines());
        table.rows("verdict", self.verdict.lines());
        table.print()
    }

    /// Reasons are the host's own sentences with text of a plugin in them; they are not truncated.
    fn signature_lines(&self) -> Vec<String> {
        let places = self.signatures.places.iter().map(|place| harmless(place));
        let mut lines: Vec<_> = places.collect();
        if lines.is_empty() {
            lines.push(Tone::Quiet.paint("none found"));
        }
        lines.push(match &self.signatures.judged {
            None => Tone::Quiet
                .paint("no document names a key: `wasmount verify` checks signatures against keys"),
            Some(Ok(signers)) => format!(
                "{} {}",
                Tone::Good.paint("as the document wants:"),
                visible::line(&signers.join(", "))
            ),
            Some(Err(reason)) => Tone::Bad.paint(&visible::line(reason)),
        });
        let remarks = self.signatures.remarks.iter();
        lines.extend(remarks.map(|it| format!("ignored: {}", visible::line(it))));
        lines
    }

    fn services(&self) -> Vec<&'static str> {
        self.offer.services().map(Service::interface).collect()
    }

    fn features(&self) -> Vec<&'static str> {
        self.offer.features().map(Feature::name).collect()
    }
}

impl Verdict {
    fn lines(&self) -> Vec<String> {
        let (tone, headline) = match self.word {
            "serves" => (Tone::Good, "this host would serve it"),
            "depends" => (
                Tone::Warning,
                "this host would serve it under a document that says what it needs",
            ),
            _ => (Tone::Bad, "this host would refuse it"),
        };
        let mut lines = vec![tone.paint(headline)];
        lines.extend(self.reason.iter().map(|reason| visible::line(reason)));
        let needs = self.needs.iter();
        lines.extend(needs.map(|need| format!("the document must say {need}")));
        let warnings = self.warnings.iter();
        lines.extend(
            warnings.map(|it| format!("{} {}", Tone::Warning.paint("warning"), visible::line(it))),
        );
        lines
    }
}

fn offer(found: &Found) -> ServiceSet {
    if let Ok(identity) = &found.identity {
        let names = identity.info.features.iter();
        let features = names.filter_map(|name| Feature::parse(name));
        return ServiceSet::new(identity.services.iter().copied(), features);
    }
    // It cannot be called, so the names of its exports are used.
    let interfaces = found.exports.iter().filter_map(|name| {
        let (interface, _) = name.strip_prefix(CONTRACT_PACKAGE)?.split_once('@')?;
        Some(interface)
    });
    let interfaces: Vec<_> = interfaces.collect();
    let exported = Service::ALL
        .iter()
        .copied()
        .filter(|service| interfaces.contains(&service.interface()));
    ServiceSet::new(exported, [])
}

fn verdict(found: &Found, has_document: bool) -> Verdict {
    let needs = if has_document {
        Vec::new()
    } else {
        needs(&found.imports)
    };
    let (word, reason, warnings) = match &found.admitted {
        // It was inspected with all of WASI, which a document does not grant by default.
        Ok(admitted) if !needs.is_empty() => ("depends", None, admitted.warnings.clone()),
        Ok(admitted) => ("serves", None, admitted.warnings.clone()),
        Err(refusal @ (Refusal::Settings(_) | Refusal::SettingsUnchecked(_))) if !has_document => {
            ("depends", Some(refusal.to_string()), Vec::new())
        }
        Err(refusal) => ("refused", Some(refusal.to_string()), Vec::new()),
    };
    Verdict {
        word,
        kind: found.admitted.as_ref().err().map(|it| it.kind().as_str()),
        reason,
        needs,
        // Without a document nothing is granted, as every user expects.
        warnings: warnings
            .into_iter()
            .filter(|it| has_document || !it.contains("document grants no "))
            .collect(),
    }
}

fn capabilities_json(capabilities: &Capabilities) -> Value {
    let lists = capabilities.names().into_iter();
    let lists = lists.map(|(service, names)| (service.to_owned(), json!(names)));
    Value::Object(lists.collect())
}

/// Items in lines that fit a terminal.
fn wrapped(items: &[&str]) -> Vec<String> {
    const WIDTH: usize = 90;
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if line.len() + item.len() < WIDTH => {
                line.push_str(", ");
                line.push_str(item);
            }
            _ => lines.push((*item).to_owned()),
        }
    }
    lines
}
