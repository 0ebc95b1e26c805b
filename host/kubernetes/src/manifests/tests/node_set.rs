//! One DaemonSet for many backends: what of a node it has, what its account may do, and what each backend still has of its own.

use super::*;

/// Makes a backend need something of a node.
type Need = fn(&mut Backend);

/// A backend of this name, for the network topology.
fn named(name: &str) -> Backend {
    let mut backend = backend(Service::ALL, &[]);
    backend.name = name.to_owned();
    backend.driver = DriverName::parse(format!("{name}.example")).unwrap();
    backend.document = format!("kind: StorageBackend # {name}\n");
    backend.object = Some(json!({
        "apiVersion": "wasmount.io/v1alpha1", "kind": "StorageBackend", "metadata": { "name": name },
    }));
    backend
}

fn node_set(backends: &[Backend]) -> Vec<Value> {
    let made = node_set_manifests(backends, &choices(Form::Network)).unwrap();
    made.into_iter().map(|manifest| manifest.object).collect()
}

/// A backend that the node set serves.
fn in_set(backend: &Backend, form: Form) -> Result<Vec<Value>, ManifestsError> {
    let choices = Choices {
        in_node_set: true,
        ..choices(form)
    };
    let made = manifests(backend, &choices)?;
    Ok(made.into_iter().map(|manifest| manifest.object).collect())
}

fn one<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let [object] = of_kind(objects, kind).try_into().unwrap();
    object
}

fn args(container: &Value) -> Vec<&str> {
    let args = container["args"].as_array().unwrap().iter();
    args.map(|it| it.as_str().unwrap()).collect()
}

/// The places of the node that the pod sees, by the container's name.
fn places(daemon_set: &Value) -> BTreeSet<(String, String)> {
    let pod = &daemon_set["spec"]["template"]["spec"];
    let of_node = |name: &Value| {
        let mut volumes = pod["volumes"].as_array().unwrap().iter();
        let volume = volumes.find(|it| it["name"] == *name).unwrap();
        volume["hostPath"]["path"].as_str().map(str::to_owned)
    };
    let containers = pod["containers"].as_array().unwrap().iter();
    let mounts = containers.flat_map(|container| {
        let name = container["name"].as_str().unwrap();
        let mounts = container["volumeMounts"].as_array().unwrap().iter();
        mounts.filter_map(move |it| Some((name.to_owned(), of_node(&it["name"])?)))
    });
    mounts.collect()
}

#[test]
fn a_node_set_is_one_host_and_mounter_for_all_backends() {
    let objects = node_set(&[named("a"), named("b")]);
    let kinds: Vec<_> = objects
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "ConfigMap",
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "DaemonSet",
        ]
    );
    let daemon_set = one(&objects, "DaemonSet");
    assert_eq!(daemon_set["metadata"]["name"], "wasmount-node");
    let pod = &daemon_set["spec"]["template"]["spec"];
    let [host, mounter] = &pod["containers"].as_array().unwrap()[..] else {
        panic!("{pod}");
    };
    for flag in [
        "--storage-backends=wasmount.io/node-set=wasmount-node",
        "--storage-backend-status=off",
        "--role=node",
        "--socket-dir=/var/lib/kubelet/plugins/wasmount",
        "--csidriver=off",
    ] {
        assert!(args(host).contains(&flag), "{flag}: {:?}", args(host));
    }
    assert!(args(mounter).contains(&"--backend-dir=/etc/wasmount"));
    assert_eq!(
        one(&objects, "ConfigMap")["data"],
        json!({
            "a.yaml": "kind: StorageBackend # a\n",
            "b.yaml": "kind: StorageBackend # b\n",
        })
    );
    // What is staged lies beside the sockets' directory, and the host does not see it.
    let of_host = places(daemon_set)
        .into_iter()
        .filter(|it| it.0 == "wasmount");
    let of_host: Vec<_> = of_host.map(|(_, path)| path).collect();
    assert_eq!(
        of_host,
        [
            "/var/lib/kubelet/plugins/wasmount",
            "/var/lib/kubelet/plugins_registry",
            "/var/lib/wasmount/node-set/store",
        ]
    );
}

#[test]
fn a_backend_with_known_needs_leaves_the_daemon_set_as_it_is() {
    let pooled = |name: &str, path: &str| Backend {
        pools: [("volumes".to_owned(), PathBuf::from(path))].into(),
        ..named(name)
    };
    let of = |backends: &[Backend]| one(&node_set(backends), "DaemonSet").clone();
    let two = of(&[pooled("a", "/srv"), pooled("b", "/srv")]);
    assert_eq!(
        of(&[
            pooled("a", "/srv"),
            pooled("b", "/srv"),
            pooled("c", "/srv")
        ]),
        two
    );
    assert_eq!(of(&[pooled("b", "/srv"), named("z")]), two);
    let other = of(&[pooled("a", "/srv"), pooled("b", "/other")]);
    assert_ne!(other, two);
    let paths: BTreeSet<_> = places(&other).into_iter().map(|it| it.1).collect();
    assert!(
        paths.contains("/srv") && paths.contains("/other"),
        "{paths:?}"
    );
}

#[test]
fn a_node_set_has_of_a_node_what_any_backend_needs() {
    let needs: [(Need, &str); 4] = [
        (|it| it.uses_devices = true, "\"path\":\"/dev\""),
        (|it| it.mounts_from_network = true, "\"hostNetwork\":true"),
        (|it| it.reads_etc = true, "\"mountPath\":\"/node/etc\""),
        (|it| it.attaches_disks = true, "\"path\":\"/\","),
    ];
    let plain = node_set(&[named("a"), named("b")]);
    let plain = one(&plain, "DaemonSet").to_string();
    for (need, shown) in needs {
        let mut needy = named("b");
        need(&mut needy);
        let objects = node_set(&[named("a"), needy]);
        let printed = one(&objects, "DaemonSet").to_string();
        assert!(!plain.contains(shown), "{shown}: {plain}");
        assert!(printed.contains(shown), "{shown}: {printed}");
    }
}

#[test]
fn an_account_of_a_node_set_may_do_what_its_nodes_do() {
    let mut secret = named("a");
    secret.secrets = vec!["token".to_owned()];
    secret.tells_facts = true;
    let mut other = named("b");
    other.named_secrets = ["password".to_owned()].into();
    let objects = node_set(&[secret, other, named("c")]);
    let verbs = |kind: &str| -> BTreeMap<String, Value> {
        let rules = one(&objects, kind)["rules"].as_array().unwrap().iter();
        let named = rules.map(|rule| {
            let names = match &rule["resourceNames"] {
                Value::Null => String::new(),
                names => format!(" {}", names[0].as_str().unwrap()),
            };
            let resource = rule["resources"][0].as_str().unwrap();
            (format!("{resource}{names}"), rule["verbs"].clone())
        });
        named.collect()
    };
    let read = json!(["get", "list", "watch"]);
    let expected = [
        ("csinodes", read.clone()),
        ("events", json!(["create", "patch"])),
        ("nodefacts", json!(["get", "create", "patch"])),
        ("nodes", json!(["get", "list", "watch", "patch"])),
        ("storagebackendnodes", json!(["get", "create", "patch"])),
        ("storagebackends", read.clone()),
    ];
    let expected = expected.map(|(what, verbs)| (what.to_owned(), verbs));
    assert_eq!(verbs("ClusterRole"), expected.into());
    let secrets = ["secrets password", "secrets wasmount-a-secrets"];
    let secrets = secrets.map(|what| (what.to_owned(), read.clone()));
    assert_eq!(verbs("Role"), secrets.into());

    let policies = of_kind(&objects, "ValidatingAdmissionPolicy");
    let expressions = |name: &str| {
        let found = policies.iter().find(|it| it["metadata"]["name"] == name);
        let spec = &found.unwrap()["spec"];
        let account =
            "request.userInfo.username in ['system:serviceaccount:storage:wasmount-node']";
        assert_eq!(spec["matchConditions"][0]["expression"], account);
        spec["validations"].to_string()
    };
    let taints = "o.key == 'a.example/agent-not-ready' || o.key == 'b.example/agent-not-ready' || \
                  o.key == 'c.example/agent-not-ready' || variables.taints.exists";
    assert!(expressions("wasmount-own-node").contains(taints));
    let own = expressions("wasmount-own-objects");
    assert!(
        own.contains("['a', 'b', 'c'].exists(it, request.name.startsWith(it + '.')"),
        "{own}"
    );
    // The others tell nothing.
    assert!(
        own.contains("['a.example'].exists(it, request.name.startsWith(it + '.')"),
        "{own}"
    );
}

#[test]
fn a_backend_in_a_node_set_has_its_controller_and_no_nodes() {
    let backend = named("a");
    let whole = all(&backend, Form::Network);
    let own = in_set(&backend, Form::Network).unwrap();
    assert_eq!(of_kind(&own, "DaemonSet"), [&Value::Null; 0]);
    for name in ["wasmount-a-node", "wasmount-a-own-node"] {
        let is_there = |objects: &[Value]| objects.iter().any(|it| it["metadata"]["name"] == name);
        assert!(is_there(&whole) && !is_there(&own), "{name}");
        assert!(
            !own.iter().any(|it| it.to_string().contains(name)),
            "{name}"
        );
    }
    for kind in [
        "CSIDriver",
        "StorageClass",
        "ConfigMap",
        "Deployment",
        "PodDisruptionBudget",
    ] {
        assert_eq!(of_kind(&own, kind), of_kind(&whole, kind), "{kind}");
    }
    let labels = &one(&own, "StorageBackend")["metadata"]["labels"];
    assert_eq!(labels["wasmount.io/node-set"], "wasmount-node");
    // By this one its own controller finds it.
    assert_eq!(labels["app.kubernetes.io/instance"], "a");
    let marked = own
        .iter()
        .filter(|it| it.to_string().contains("wasmount.io/node-set"));
    assert_eq!(marked.count(), 1);
}

#[test]
fn no_object_of_a_node_set_is_one_of_a_backend() {
    let backends = [named("a"), named("node")];
    let identity = |it: &Value| (it["kind"].to_string(), it["metadata"]["name"].to_string());
    let set: BTreeSet<_> = node_set(&backends).iter().map(identity).collect();
    for backend in &backends {
        let own = in_set(backend, Form::Network).unwrap();
        for object in own.iter().chain(&all(backend, Form::Network)) {
            assert!(
                !set.contains(&identity(object)),
                "{}",
                object["metadata"]["name"]
            );
        }
    }
}

#[test]
fn a_backend_that_no_node_set_can_serve_is_refused_with_why() {
    let refused = |backend: &Backend, form| {
        let refused = in_set(backend, form).unwrap_err().to_string();
        assert!(
            refused.contains("Print it without --in-node-set"),
            "{refused}"
        );
        refused
    };
    assert!(refused(&named("a"), Form::NodeLocal).contains("each node has sidecars"));
    let inline = Backend {
        name: "inline".to_owned(),
        ..backend(&[Service::NodePublish], &[])
    };
    assert!(
        refused(&inline, Form::Network)
            .contains("`inline` cannot be in the node set: it has no sidecars")
    );
    let file = Backend {
        component: Some(vec![0]),
        ..named("a")
    };
    assert!(refused(&file, Form::Network).contains("--plugin-in-image"));

    let of_one_node = Backend {
        pools: [("p".to_owned(), PathBuf::from("pools/p"))].into(),
        ..named("b")
    };
    let backends = [named("a"), of_one_node];
    let refused = node_set_manifests(&backends, &choices(Form::Network)).unwrap_err();
    assert!(
        matches!(refused, ManifestsError::PoolOfOneNode { .. }),
        "{refused}"
    );
    let long = Backend {
        document: "x".repeat(CONFIG_MAP_BYTES),
        ..named("b")
    };
    let refused = node_set_manifests(&[named("a"), long], &choices(Form::Network)).unwrap_err();
    assert!(
        matches!(refused, ManifestsError::TooManyDocuments { .. }),
        "{refused}"
    );
}

#[test]
fn a_node_set_reaches_what_the_nodes_of_any_backend_reach() {
    let peer = |port, node| NetworkPeer {
        port,
        ranges: vec!["10.1.0.0/16".to_owned()],
        controller: true,
        node,
    };
    let mut first = named("a");
    first.network = vec![peer(8443, true), peer(9000, false)];
    let mut second = named("b");
    second.network = vec![peer(8443, true), peer(3260, true)];
    let objects = node_set(&[first, second]);
    let policy = one(&objects, "NetworkPolicy");
    assert_eq!(policy["metadata"]["name"], "wasmount-node");
    let selected = &policy["spec"]["podSelector"]["matchLabels"];
    let pods = &one(&objects, "DaemonSet")["spec"]["template"]["metadata"]["labels"];
    assert_eq!(selected, pods);
    let rules = policy["spec"]["egress"].as_array().unwrap().iter().skip(2);
    let ports: Vec<_> = rules.map(|rule| &rule["ports"][0]["port"]).collect();
    assert_eq!(ports, [8443, 3260]);
}
