//! The generated messages, client and server trait of `proto/`.

/// Registration with kubelet: package `pluginregistration`, which has no version upstream.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    reason = "generated; the words are kubelet's"
)]
pub mod pluginregistration {
    include!(concat!(env!("OUT_DIR"), "/pluginregistration.rs"));
}

#[cfg(test)]
mod tests {
    use super::pluginregistration::registration_server::SERVICE_NAME;
    use super::pluginregistration::{PluginInfo, RegistrationStatus};
    use prost::Message;

    #[test]
    fn registration_is_kubelets() {
        assert_eq!(SERVICE_NAME, "pluginregistration.Registration");
        let methods = include_str!("../proto/pluginregistration.proto");
        let methods: Vec<_> = methods
            .lines()
            .filter_map(|line| line.trim().strip_prefix("rpc ")?.split('(').next())
            .collect();
        assert_eq!(methods, ["GetInfo", "NotifyRegistrationStatus"]);
    }

    /// Field numbers as in k8s.io/kubelet, pkg/apis/pluginregistration/v1/api.proto.
    #[test]
    fn fields_lie_where_kubelet_looks_for_them() {
        let info = PluginInfo {
            r#type: "a".to_owned(),
            name: "b".to_owned(),
            endpoint: "c".to_owned(),
            supported_versions: vec!["d".to_owned(), "e".to_owned()],
        };
        assert_eq!(
            info.encode_to_vec(),
            b"\x0a\x01a\x12\x01b\x1a\x01c\x22\x01d\x22\x01e"
        );
        let status = RegistrationStatus {
            plugin_registered: true,
            error: "f".to_owned(),
        };
        assert_eq!(status.encode_to_vec(), b"\x08\x01\x12\x01f");
    }
}
