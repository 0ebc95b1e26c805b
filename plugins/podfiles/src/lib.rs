//! A CSI driver for inline volumes of pods: the identity of the pod, files from its volume attributes, and the tokens of its service account, as
//! files in memory. Kubelet publishes again before a token expires (`requiresRepublish`), and the host then replaces all files at once.
use std::collections::BTreeMap;
use wasmount_guest::*;

/// The prefix of Kubernetes' own keys. A later version may send more of them.
const KUBERNETES: &str = "csi.storage.k8s.io/";
/// The request secret that holds all tokens, as one JSON document.
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";
/// The attributes with the pod's identity, and the files that repeat them.
const IDENTITY: [(&str, &str); 4] = [
    ("pod.name", "pod/name"),
    ("pod.namespace", "pod/namespace"),
    ("pod.uid", "pod/uid"),
    ("serviceAccount.name", "pod/service-account"),
];
/// The attribute `file.NAME` of the volume is the content of `files/NAME`.
const FILE: &str = "file.";
const NAME_BYTES: usize = 253; // that of a key of a ConfigMap
const PUBLIC: u32 = 0o444; // pods run as any user
const PRIVATE: u32 = 0o400; // the host lets the pod's group read, too

/// A token as kubelet sends it. Its expiration is left to kubelet.
#[derive(serde::Deserialize)]
struct Token {
    token: String,
}

struct PodFiles;
export! { identity: PodFiles, node_publish: PodFiles }

impl Identity for PodFiles {
    fn get_plugin_info() -> PluginInfo {
        PluginInfo::new("podfiles.wasmount.io", env!("CARGO_PKG_VERSION"))
            .with_feature("volume-mount-group")
    }
}

impl NodePublish for PodFiles {
    fn node_publish(args: NodePublishArgs, plan: &Plan) -> Result<(), Error> {
        args.capability.must_be_mount()?;
        let mut files = identity(&args.volume_context)?;
        if !args.ephemeral {
            let what = "only inline volumes have files: name this driver in the pod's volume";
            return Err(Error::failed_precondition(what));
        }
        files.extend(own(&args.volume_context)?);
        files.extend(tokens()?);
        plan.files(&files)
    }
}

/// The pod's identity.
fn identity(attributes: &Attributes) -> Result<Vec<File>, Error> {
    let file = |(key, path)| match attributes.value(&format!("{KUBERNETES}{key}")) {
        Some(value) => Ok(file(path, PUBLIC, value)),
        None => Err(Error::failed_precondition(format!(
            "`{KUBERNETES}{key}` is missing: set CSIDriver.podInfoOnMount, `podInfoOnMount: true` in the driver's object"
        ))),
    };
    IDENTITY.into_iter().map(file).collect()
}

/// The files from the pod's volume attributes. A misspelt attribute must not be ignored silently.
fn own(attributes: &Attributes) -> Result<Vec<File>, Error> {
    let is_own = |(key, _): &&(String, String)| !key.starts_with(KUBERNETES);
    let file = |(key, content): &(String, String)| match key.strip_prefix(FILE) {
        Some(name) if is_file_name(name) => Ok(file(&format!("files/{name}"), PUBLIC, content)),
        _ => Err(Error::invalid_argument(format!(
            "unknown attribute `{key}`: this driver knows `{FILE}NAME`, with a NAME of up to {NAME_BYTES} letters, digits, `-`, `_` and `.`, and no dot in front"
        ))),
    };
    attributes.iter().filter(is_own).map(file).collect()
}

/// One file for each audience. The audience without a name is the API server.
fn tokens() -> Result<Vec<File>, Error> {
    let Some(document) = secrets::of_request(TOKENS) else {
        return Ok(Vec::new());
    };
    // Without serde's message, which may quote a token.
    let unreadable = |error: serde_json::Error| {
        let (line, column) = (error.line(), error.column());
        let what = format!("`{TOKENS}` is not what kubelet sends, at line {line}, column {column}");
        Error::invalid_argument(what)
    };
    let tokens: BTreeMap<String, Token> =
        serde_json::from_str(document.expose()).map_err(unreadable)?;
    let path = |audience: &str| match audience {
        "" => "token".to_owned(),
        audience => format!("tokens/{}", encoded(audience)),
    };
    let file = |(audience, it): (&String, &Token)| file(&path(audience), PRIVATE, &it.token);
    Ok(tokens.iter().map(file).collect())
}

fn file(path: &str, mode: u32, content: &str) -> File {
    File {
        path: path.to_owned(),
        mode,
        content: content.as_bytes().to_vec(),
    }
}

fn is_file_name(name: &str) -> bool {
    (1..=NAME_BYTES).contains(&name.len()) && encoded(name) == name
}

/// An audience, which is often a URL, encoded as a file name: no two are equal, and none is hidden.
fn encoded(audience: &str) -> String {
    let byte = |(at, byte): (usize, u8)| match byte {
        b'.' if at > 0 => ".".to_owned(),
        b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    audience.bytes().enumerate().map(byte).collect()
}

#[cfg(test)]
mod tests;
