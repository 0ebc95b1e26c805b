{{/* What values change in printed objects. Each takes `object` and `root`, changes the object in place, and prints nothing. */}}

{{/* A DaemonSet or a Deployment. */}}
{{- define "wasmount.changeWorkload" -}}
{{- $root := .root.Values -}}
{{- $values := ternary $root.node $root.controller (eq .object.kind "DaemonSet") -}}
{{- $spec := .object.spec -}}
{{- $metadata := $spec.template.metadata -}}
{{- $pod := $spec.template.spec -}}
{{- with $values.replicas -}}{{- $_ := set $spec "replicas" (int .) -}}{{- end -}}
{{- with $values.updateStrategy -}}
{{- $_ := set $spec (ternary "updateStrategy" "strategy" (eq $.object.kind "DaemonSet")) . -}}
{{- end -}}
{{- with $values.podAnnotations -}}{{- $_ := set $metadata "annotations" . -}}{{- end -}}
{{- range $name, $label := $values.podLabels -}}
{{- if hasKey $metadata.labels $name -}}
{{- fail (printf "podLabels: %s selects the pods, and cannot be another" $name) -}}
{{- end -}}
{{- $_ := set $metadata.labels $name $label -}}
{{- end -}}
{{- range $key := list "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" -}}
{{- with get $values $key -}}{{- $_ := set $pod $key . -}}{{- end -}}
{{- end -}}
{{- range $name, $label := $values.nodeSelector -}}{{- $_ := set $pod.nodeSelector $name $label -}}{{- end -}}
{{- with $root.imagePullSecrets -}}{{- $_ := set $pod "imagePullSecrets" . -}}{{- end -}}
{{- $health := $values.healthPort -}}
{{- range $pod.containers -}}
{{- if eq .name "wasmount" -}}{{- $health = $health | default (index .ports 0).containerPort -}}{{- end -}}
{{- end -}}
{{- range $pod.containers -}}
{{- include "wasmount.changeContainer" (dict "container" . "root" $root "values" $values "health" (int $health) "tag" $.root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "wasmount.changeContainer" -}}
{{- $container := .container -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $name := $container.name -}}
{{- if and $root.seLinuxOptions (not $container.securityContext.privileged) -}}
{{- $_ := set $container.securityContext "seLinuxOptions" $root.seLinuxOptions -}}
{{- end -}}
{{- with get $root.resources $name -}}{{- $_ := set $container "resources" . -}}{{- end -}}
{{- if hasPrefix "csi-" $name -}}
{{- $registry := $root.sidecars.registry | default (dir $container.image) -}}
{{- $tag := get $root.sidecars.tags $name | default (regexFind "[^:]+$" $container.image) -}}
{{- $_ := set $container "image" (printf "%s/%s:%s" (trimSuffix "/" $registry) $name $tag) -}}
{{- with $root.sidecars.pullPolicy -}}{{- $_ := set $container "imagePullPolicy" . -}}{{- end -}}
{{- /* On the network of a node they show no metrics unless an address is chosen. Ports are those of `wasmount manifests --health-address`. */ -}}
{{- if and $values.healthAddress (not $container.ports) -}}
{{- range $index, $sidecar := list "csi-provisioner" "csi-attacher" "csi-resizer" "csi-snapshotter" -}}
{{- if eq $sidecar $name -}}
{{- $port := add $.health 100 $index -}}
{{- $_ := set $container "ports" (list (dict "name" $name "containerPort" $port)) -}}
{{- $_ := set $container "args" (append $container.args (printf "--http-endpoint=%s:%d" $values.healthAddress $port)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- $image := $root.image -}}
{{- if or $image.repository $image.tag $image.digest -}}
{{- $repository := $image.repository | default (regexReplaceAll "(@|:[^:/]*$).*" $container.image "") -}}
{{- $tag := $image.tag | default $.tag -}}
{{- $_ := set $container "image" (ternary (printf "%s@%s" $repository $image.digest) (printf "%s:%s" $repository $tag) (ne $image.digest "")) -}}
{{- end -}}
{{- with $image.pullPolicy -}}{{- $_ := set $container "imagePullPolicy" . -}}{{- end -}}
{{- with $root.env -}}{{- $_ := set $container "env" (concat ($container.env | default list) .) -}}{{- end -}}
{{- end -}}
{{- if eq $name "wasmount" -}}
{{- $port := index $container.ports 0 -}}
{{- $old := printf ":%d" (int $port.containerPort) -}}
{{- $new := printf ":%d" .health -}}
{{- $arguments := list -}}
{{- range $container.args -}}
{{- $argument := . -}}
{{- if hasPrefix "--listen-health=" $argument -}}
{{- $address := $values.healthAddress | default (trimPrefix "--listen-health=" $argument | trimSuffix $old) -}}
{{- $argument = printf "--listen-health=%s%s" $address $new -}}
{{- end -}}
{{- $arguments = append $arguments $argument -}}
{{- end -}}
{{- $_ := set $container "args" $arguments -}}
{{- $_ := set $port "containerPort" .health -}}
{{- end -}}
{{- end -}}

{{/* The document of a ConfigMap. Its text stays as it is unless values change it. */}}
{{- define "wasmount.changeConfigMap" -}}
{{- $followed := include "wasmount.object" (dict "kind" "StorageBackend" "root" .root) -}}
{{- if and .root.Values.spec.rollout (not $followed) -}}
{{- fail "spec.rollout: only a StorageBackend object has steps: print the manifests with --storage-backends" -}}
{{- end -}}
{{- if include "wasmount.changesDocument" .root -}}
{{- $document := fromYaml (get .object.data "backend.yaml") -}}
{{- include "wasmount.changeDocument" (dict "object" $document "root" .root) -}}
{{- $_ := set .object.data "backend.yaml" (toYaml $document) -}}
{{- end -}}
{{- end -}}

{{/* A StorageBackend. What decides about other objects, such as the pools of nodes and the types of file systems, cannot be changed. */}}
{{- define "wasmount.changeDocument" -}}
{{- $wanted := .root.Values.spec -}}
{{- $spec := .object.spec -}}
{{- range $part := list "settings" "limits" -}}
{{- range $key, $value := get $wanted $part -}}
{{- $_ := set $spec $part (set (get $spec $part | default dict) $key $value) -}}
{{- end -}}
{{- end -}}
{{- if and $wanted.plugin (not $spec.plugin.reference) -}}
{{- fail "spec.plugin: the printed document names no registry, and other objects depend on that: print manifests of a document with plugin.reference" -}}
{{- end -}}
{{- range $part := list "plugin" "versions" "rollout" -}}
{{- with get $wanted $part -}}{{- $_ := set $spec $part . -}}{{- end -}}
{{- end -}}
{{- $grants := $spec.grants | default dict -}}
{{- with $wanted.grants.filesystems -}}
{{- $types := list -}}
{{- range $grants.filesystems -}}{{- $types = append $types .type -}}{{- end -}}
{{- range . -}}
{{- if not (has .type $types) -}}
{{- fail (printf "spec.grants.filesystems: the printed document grants no %s, and other objects depend on that: print manifests of a document that does" .type) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $grants "filesystems" . -}}
{{- end -}}
{{- range $name, $pool := $wanted.grants.pools -}}
{{- $printed := get ($grants.pools | default dict) $name | default dict -}}
{{- if not $printed.mount -}}
{{- fail (printf "spec.grants.pools: the printed document has no pool %s with `mount`, and other objects depend on that: print manifests of a document that does" $name) -}}
{{- end -}}
{{- $_ := set $printed "mount" $pool.mount -}}
{{- end -}}
{{- end -}}

{{/* An uninstall must not delete it: its hosts remove its finalizer, and they go with the release. */}}
{{- define "wasmount.changeStorageBackend" -}}
{{- include "wasmount.changeDocument" . -}}
{{- $annotations := .object.metadata.annotations | default dict -}}
{{- $_ := set .object.metadata "annotations" (set $annotations "helm.sh/resource-policy" "keep") -}}
{{- end -}}

{{- define "wasmount.changeStorageClass" -}}
{{- $class := .root.Values.storageClass -}}
{{- with $class.annotations -}}{{- $_ := set $.object.metadata "annotations" . -}}{{- end -}}
{{- range $key, $value := $class.parameters -}}{{- $_ := set $.object.parameters $key $value -}}{{- end -}}
{{- range $key := list "mountOptions" "reclaimPolicy" "volumeBindingMode" -}}
{{- with get $class $key -}}{{- $_ := set $.object $key . -}}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "wasmount.changeSnapshotClass" -}}
{{- $class := get .root.Values (untitle .object.kind) -}}
{{- with $class.annotations -}}{{- $_ := set $.object.metadata "annotations" . -}}{{- end -}}
{{- end -}}
