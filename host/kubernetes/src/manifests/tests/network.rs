//! The NetworkPolicies: what pods may reach, and when there are none.

use super::*;
use wasmount_core::document::network::NetworkGrant;
use wasmount_core::document::{StorageBackend, raw};

fn peer(port: u16, ranges: &[&str], controller: bool, node: bool) -> NetworkPeer {
    NetworkPeer {
        port,
        ranges: ranges.iter().map(|range| (*range).to_owned()).collect(),
        controller,
        node,
    }
}

/// A backend with a controller, and these grants.
fn granted(network: Vec<NetworkPeer>) -> Backend {
    Backend {
        network,
        ..backend(Service::ALL, &[])
    }
}

/// Ports and ranges of the rules of each policy, by the kind of pods, without those for DNS and the API server.
fn rules(objects: &[Value]) -> BTreeMap<String, Vec<(Value, Value)>> {
    let policies = of_kind(objects, "NetworkPolicy").into_iter();
    let of_grants = |policy: &Value| {
        let rules = policy["spec"]["egress"].as_array().unwrap().iter().skip(2);
        rules
            .map(|rule| (rule["ports"][0]["port"].clone(), rule["to"].clone()))
            .collect()
    };
    policies
        .map(|policy| {
            let labels = &policy["spec"]["podSelector"]["matchLabels"];
            let part = labels["app.kubernetes.io/component"].as_str().unwrap();
            assert_eq!(policy["spec"]["policyTypes"], json!(["Egress"]));
            (part.to_owned(), of_grants(policy))
        })
        .collect()
}

fn anywhere() -> Value {
    json!([
        { "ipBlock": { "cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"] } },
        { "ipBlock": { "cidr": "::/0", "except": ["fe80::/10"] } },
    ])
}

#[test]
fn without_network_grants_there_is_no_policy() {
    for form in [Form::NodeLocal, Form::Network] {
        assert!(of_kind(&all(&granted(Vec::new()), form), "NetworkPolicy").is_empty());
    }
}

#[test]
fn each_part_reaches_the_hosts_of_its_own_grants() {
    let backend = granted(vec![
        peer(8443, &["10.1.0.0/16", "fd00:1::/64"], true, false),
        peer(3260, &[], false, true),
    ]);
    let ranges = json!([
        { "ipBlock": { "cidr": "10.1.0.0/16" } },
        { "ipBlock": { "cidr": "fd00:1::/64" } },
    ]);
    let expected = BTreeMap::from([
        ("controller".to_owned(), vec![(json!(8443), ranges.clone())]),
        ("node".to_owned(), vec![(json!(3260), anywhere())]),
    ]);
    assert_eq!(rules(&all(&backend, Form::Network)), expected);
    // One kind of pods runs both services.
    let both = vec![(json!(8443), ranges), (json!(3260), anywhere())];
    let expected = BTreeMap::from([("node".to_owned(), both)]);
    assert_eq!(rules(&all(&backend, Form::NodeLocal)), expected);
}

#[test]
fn only_a_node_that_reads_facts_reaches_the_metadata_service() {
    let with = |uses_metadata| Backend {
        uses_metadata,
        ..granted(vec![peer(8443, &["10.1.0.0/16"], true, false)])
    };
    let metadata = (
        json!(80),
        json!([{ "ipBlock": { "cidr": "169.254.169.254/32" } }]),
    );
    for (uses_metadata, of_node) in [(true, vec![metadata]), (false, Vec::new())] {
        let rules = rules(&all(&with(uses_metadata), Form::Network));
        assert_eq!(rules["node"], of_node);
        assert_eq!(rules["controller"].len(), 1);
    }
    let alone = Backend {
        uses_metadata: true,
        ..granted(Vec::new())
    };
    assert_eq!(rules(&all(&alone, Form::Network)), BTreeMap::new());
}

#[test]
fn a_controller_on_the_network_of_its_node_has_no_policy() {
    let backend = Backend {
        mounts_from_network: true,
        mounts_pools: true,
        ..granted(vec![peer(443, &["10.1.2.3/32"], true, true)])
    };
    assert_eq!(rules(&all(&backend, Form::Network)), BTreeMap::new());
}

#[test]
fn pods_on_the_network_of_their_node_have_no_policy() {
    let backend = Backend {
        mounts_from_network: true,
        ..granted(vec![peer(443, &["10.1.2.3/32"], true, true)])
    };
    let objects = all(&backend, Form::Network);
    let parts: Vec<_> = rules(&objects).into_keys().collect();
    assert_eq!(parts, ["controller"]);
    let on_host = pods(&objects)
        .into_iter()
        .map(|pod| pod["hostNetwork"] == true);
    assert_eq!(on_host.collect::<Vec<_>>(), [true, false]);
}

#[test]
fn every_policy_allows_names_and_the_api_server() {
    let objects = all(&granted(vec![peer(80, &[], true, false)]), Form::Network);
    let policies = of_kind(&objects, "NetworkPolicy");
    assert_eq!(policies.len(), 2);
    for policy in policies {
        let egress = &policy["spec"]["egress"];
        let dns = json!([{ "protocol": "UDP", "port": 53 }, { "protocol": "TCP", "port": 53 }]);
        assert_eq!(egress[0], json!({ "ports": dns }));
        let https =
            json!([{ "protocol": "TCP", "port": 443 }, { "protocol": "TCP", "port": 6443 }]);
        assert_eq!(egress[1], json!({ "ports": https, "to": anywhere() }));
    }
}

/// What is reached with this `grants.network` of a document.
fn reached(network: Value) -> Vec<NetworkPeer> {
    network_peers(&grants(network, json!({})))
}

fn grants(network: Value, secrets: Value) -> BTreeMap<String, NetworkGrant> {
    let document = json!({
        "apiVersion": "wasmount.io/v1alpha1",
        "kind": "StorageBackend",
        "metadata": { "name": "a" },
        "spec": {
            "driverName": "a.example",
            "plugin": { "path": "a.wasm" },
            "secrets": secrets,
            "grants": { "network": network },
        },
    });
    let raw: raw::Document = serde_json::from_value(document).unwrap();
    let document = StorageBackend::try_from(raw).unwrap();
    document.grants.network
}

#[test]
fn hosts_become_ports_and_ranges() {
    let network = json!({ "array": {
        "hosts": ["array.example.com", "10.1.2.3:8443", "[fd00::1]:8443"],
        "addresses": ["10.1.0.0/16", "fd00::/64"],
    } });
    let ranges = |ranges: &[&str]| peer(8443, ranges, true, false);
    let expected = [
        peer(443, &["10.1.0.0/16", "fd00::/64"], true, false),
        ranges(&["10.1.2.3/32"]),
        ranges(&["fd00::1/128"]),
    ];
    assert_eq!(reached(network), expected);
    let named = json!({ "array": { "hosts": ["array.example.com"], "services": ["node"] } });
    assert_eq!(reached(named), [peer(443, &[], false, true)]);
    assert_eq!(reached(json!({})), []);
}

#[test]
fn each_of_several_grants_has_its_own_rules() {
    let network = json!({
        "named": { "hosts": ["a.example.com:8443", "b.example.com"], "tls": { "ca": "ca" } },
        "ranged": {
            "hosts": ["10.2.0.0/28:9000"],
            "hostFrom": { "requestSecret": "backend" },
            "services": ["controller", "node"],
        },
        "relayed": { "hosts": ["c.example.com"], "proxy": "http://10.9.9.9:3128", "services": ["node"] },
    });
    let secrets = json!({ "ca": { "file": "ca.pem" } });
    let backend = granted(network_peers(&grants(network, secrets)));
    let to = |range: &str| json!([{ "ipBlock": { "cidr": range } }]);
    let expected = BTreeMap::from([
        (
            "controller".to_owned(),
            vec![
                (json!(8443), anywhere()),
                (json!(443), anywhere()),
                (json!(9000), to("10.2.0.0/28")),
            ],
        ),
        (
            "node".to_owned(),
            vec![
                (json!(9000), to("10.2.0.0/28")),
                (json!(3128), to("10.9.9.9/32")),
            ],
        ),
    ]);
    assert_eq!(rules(&all(&backend, Form::Network)), expected);
}

#[test]
fn behind_a_proxy_only_the_proxy_is_reached() {
    for (proxy, port, ranges) in [
        ("http://proxy.example.com:3128", 3128, &[][..]),
        ("http://10.9.9.9", 80, &["10.9.9.9/32"]),
        ("https://[fd00::9]", 443, &["fd00::9/128"]),
    ] {
        let network = json!({ "array": { "hosts": ["array.example.com:8443"], "proxy": proxy } });
        assert_eq!(
            reached(network),
            [peer(port, ranges, true, false)],
            "{proxy}"
        );
    }
}
