//! The imports of a component: the interfaces of the contract and the harmless part of WASI. If the document requests all of WASI, the rest is linked
//! too, for runtimes that require it; the context of each call, in [`crate::invocation`], then denies its use.

use crate::bindings::{imported, types};
use crate::error::EngineError;
use crate::invocation::Invocation;
use wasmount_core::document::Wasi;
use wasmtime::Engine;
use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::p2::bindings::{cli, random};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView};

/// The linked interfaces of the contract, each by its module and its name. Calls of their functions are counted.
macro_rules! contract {
    ($($module:ident = $interface:literal),+ $(,)?) => {
        const CONTRACT: &[&str] = &["types", $($interface),+];

        fn add_contract(linker: &mut Linker<Invocation>) -> wasmtime::Result<()> {
            types::add_to_linker::<_, HasSelf<Invocation>>(linker, |invocation| invocation)?;
            $(imported::$module::add_to_linker::<_, HasSelf<Invocation>>(linker, Invocation::counted)?;)+
            Ok(())
        }
    };
}

contract! {
    call = "call",
    node_encryption = "node-encryption",
    node_facts = "node-facts",
    node_iscsi = "node-iscsi",
    node_nvme = "node-nvme",
    node_plan = "node-plan",
    node_rbd = "node-rbd",
    nodes = "nodes",
    pool = "pool",
    sealed_secrets = "sealed-secrets",
    secrets = "secrets",
    session = "session",
    state = "state",
}

/// Interfaces of WASI that are linked, without `wasi:`.
const WASI: &[&str] = &[
    "cli/environment",
    "cli/exit",
    "cli/stderr",
    "cli/stdin",
    "cli/stdout",
    "cli/terminal-input",
    "cli/terminal-output",
    "cli/terminal-stderr",
    "cli/terminal-stdin",
    "cli/terminal-stdout",
    "clocks/monotonic-clock",
    "clocks/wall-clock",
    // Always there: what the document does not grant is answered as denied.
    "http/outgoing-handler",
    "http/types",
    "io/error",
    "io/poll",
    "io/streams",
    "random/insecure",
    "random/insecure-seed",
    "random/random",
];
/// The additional interfaces of [`Wasi::Full`].
const WASI_DENIED: &[&str] = &[
    "filesystem/preopens",
    "filesystem/types",
    "sockets/instance-network",
    "sockets/ip-name-lookup",
    "sockets/network",
    "sockets/tcp",
    "sockets/tcp-create-socket",
    "sockets/udp",
    "sockets/udp-create-socket",
];

/// The package of the contract, as in the names of imports and exports.
pub const CONTRACT_PACKAGE: &str = "wasmount:csi/";
/// The contract version that this host supports.
pub const CONTRACT_LINE: &str = "0.1";
const WASI_PACKAGE: &str = "wasi:";
const WASI_LINE: &str = "0.2";

/// Whether the host has the interface of an import, such as `wasi:io/poll@0.2.6`. Linking the component shows whether each function of it exists.
pub fn is_linked(import: &str, wasi: Wasi) -> bool {
    let (name, version) = import.split_once('@').unwrap_or((import, ""));
    if let Some(interface) = name.strip_prefix(CONTRACT_PACKAGE) {
        return is_of_line(version, CONTRACT_LINE) && CONTRACT.contains(&interface);
    }
    let is_of_wasi = |interface| match wasi {
        Wasi::Minimal => WASI.contains(&interface),
        Wasi::Full => WASI.contains(&interface) || WASI_DENIED.contains(&interface),
    };
    name.strip_prefix(WASI_PACKAGE)
        .is_some_and(|interface| is_of_line(version, WASI_LINE) && is_of_wasi(interface))
}

/// Whether a version, such as `0.1.3`, is compatible with a line, such as `0.1`. A pre-release is compatible with nothing.
pub fn is_of_line(version: &str, line: &str) -> bool {
    version
        .strip_prefix(line)
        .and_then(|rest| rest.strip_prefix('.'))
        .is_some_and(|patch| !patch.is_empty() && patch.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The linkers that all components share.
pub(crate) struct Linkers {
    minimal: Linker<Invocation>,
    full: Linker<Invocation>,
}

impl Linkers {
    /// Makes them.
    pub(crate) fn new(engine: &Engine) -> Result<Self, EngineError> {
        let made =
            |wasi| linker(engine, wasi).map_err(|error| EngineError::Start(format!("{error:#}")));
        Ok(Self {
            minimal: made(Wasi::Minimal)?,
            full: made(Wasi::Full)?,
        })
    }

    /// The linker with the part of WASI that the document selects.
    pub(crate) fn with(&self, wasi: Wasi) -> &Linker<Invocation> {
        match wasi {
            Wasi::Minimal => &self.minimal,
            Wasi::Full => &self.full,
        }
    }
}

fn linker(engine: &Engine, wasi: Wasi) -> wasmtime::Result<Linker<Invocation>> {
    let mut linker = Linker::new(engine);
    match wasi {
        Wasi::Minimal => add_harmless_wasi(&mut linker)?,
        Wasi::Full => wasmtime_wasi::p2::add_to_linker_async(&mut linker)?,
    }
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    add_contract(&mut linker)?;
    Ok(linker)
}

fn add_harmless_wasi(linker: &mut Linker<Invocation>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(linker)?;
    cli::environment::add_to_linker::<_, WasiCli>(linker, WasiCliView::cli)?;
    cli::exit::add_to_linker::<_, WasiCli>(linker, WasiCliView::cli)?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(linker, WasiCliView::cli)?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(linker, WasiCliView::cli)?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(linker, WasiCliView::cli)?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(linker, WasiCliView::cli)?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(linker, WasiCliView::cli)?;
    // Rust's hash maps take their keys from this interface.
    random::insecure::add_to_linker::<_, WasiRandom>(linker, WasiRandomView::random)?;
    random::insecure_seed::add_to_linker::<_, WasiRandom>(linker, WasiRandomView::random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contract_and_harmless_wasi_interfaces_are_linked() {
        for import in [
            "wasmount:csi/state@0.1.0",
            "wasmount:csi/node-plan@0.1.7",
            "wasmount:csi/session@0.1.0",
            "wasmount:csi/node-encryption@0.1.0",
            "wasmount:csi/node-facts@0.1.0",
            "wasmount:csi/node-iscsi@0.1.0",
            "wasmount:csi/node-nvme@0.1.0",
            "wasmount:csi/node-rbd@0.1.0",
            "wasmount:csi/nodes@0.1.0",
            "wasmount:csi/sealed-secrets@0.1.0",
            "wasi:http/outgoing-handler@0.2.6",
            "wasi:http/types@0.2.0",
            "wasi:io/poll@0.2.6",
            "wasi:cli/exit@0.2.0",
        ] {
            for wasi in [Wasi::Minimal, Wasi::Full] {
                assert!(is_linked(import, wasi), "{import}");
            }
        }
    }

    #[test]
    fn files_and_sockets_are_linked_only_where_the_document_says_so() {
        for import in ["wasi:filesystem/types@0.2.6", "wasi:sockets/tcp@0.2.6"] {
            assert!(!is_linked(import, Wasi::Minimal), "{import}");
            assert!(is_linked(import, Wasi::Full), "{import}");
        }
    }

    #[test]
    fn other_lines_and_the_unknown_are_never_linked() {
        for import in [
            "wasi:http/incoming-handler@0.2.6",
            "wasi:http/types@0.3.0",
            "wasi:filesystem/types@0.3.0",
            "wasi:io/poll@0.3.0",
            "wasi:io/poll@0.2.0-rc-2023-11-10",
            "wasi:io/poll",
            "wasmount:csi/state@0.2.0",
            "wasmount:csi/state@0.10.0",
            "wasmount:csi/controller@0.1.0",
            "env",
        ] {
            assert!(!is_linked(import, Wasi::Full), "{import}");
        }
    }
}
