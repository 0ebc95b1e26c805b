{{/* The printed manifests of the release's backend, or of the node set, as text that makes one release. */}}
{{- define "wasmount.printed" -}}
{{- $namespace := .Release.Namespace -}}
{{- $drivers := 0 -}}
{{- $nodeSet := false -}}
{{- $text := include "wasmount.chosen" . -}}
{{- range regexSplit "(?m)^---\n" $text -1 -}}
{{- $object := fromYaml . -}}
{{- if $object.Error -}}
{{- fail (printf "manifests are not what `wasmount manifests` prints: %s" $object.Error) -}}
{{- else if $object -}}
{{- $own := $object.metadata.namespace | default $namespace -}}
{{- if has $object.kind (list "Namespace" "CustomResourceDefinition") -}}
{{- fail (printf "manifests have a %s: that belongs to the release wasmount-shared, for it outlives this one" $object.kind) -}}
{{- else if ne $own $namespace -}}
{{- fail (printf "the manifests are for namespace %s, the release is in %s: print them with --namespace %s" $own $namespace $namespace) -}}
{{- else if eq $object.kind "CSIDriver" -}}
{{- $drivers = add1 $drivers -}}
{{- else if and (eq $object.kind "DaemonSet") (eq $object.metadata.name "wasmount-node") -}}
{{- $nodeSet = true -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $nodeSet (include "wasmount.changesDocument" .) -}}
{{- fail "spec changes the document of one backend: print the node set again" -}}
{{- else if and $nodeSet (ne (int $drivers) 0) -}}
{{- fail "manifests have a node set and a CSIDriver: each is a release of its own" -}}
{{- else if and (not $nodeSet) (ne (int $drivers) 1) -}}
{{- fail (printf "manifests have %d CSIDrivers: a release is one backend, as `wasmount manifests --backend FILE` prints it, or a node set" $drivers) -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{/* Not empty if values change the document. */}}
{{- define "wasmount.changesDocument" -}}
{{- $spec := .Values.spec -}}
{{- range list $spec.settings $spec.limits $spec.plugin $spec.versions $spec.rollout $spec.grants.filesystems $spec.grants.pools -}}
{{- if . -}}yes{{- end -}}
{{- end -}}
{{- end -}}

{{/* The text that the values choose. */}}
{{- define "wasmount.chosen" -}}
{{- $values := .Values -}}
{{- if and $values.backend $values.manifests -}}
{{- fail "backend and manifests are both set: a release is one backend" -}}
{{- else if $values.manifests -}}
{{- if $values.kubeletDir -}}
{{- fail "kubeletDir is for a backend of the image: print the manifests with --kubelet-dir" -}}
{{- end -}}
{{- $values.manifests -}}
{{- else if $values.backend -}}
{{- $text := .Files.Get (printf "backends/%s.yaml" $values.backend) -}}
{{- if not $text -}}
{{- $known := list -}}
{{- range $path, $_ := .Files.Glob "backends/*.yaml" -}}
{{- $known = append $known (base $path | trimSuffix ".yaml") -}}
{{- end -}}
{{- fail (printf "backend %q is none of the image: %s. For one of your own set manifests" $values.backend (join ", " $known)) -}}
{{- end -}}
{{- $text = replace "wasmount-system" .Release.Namespace $text -}}
{{- if $values.kubeletDir -}}
{{- $text = replace "/var/lib/kubelet" (trimSuffix "/" $values.kubeletDir) $text -}}
{{- end -}}
{{- $text -}}
{{- else -}}
{{- fail "no backend: set backend to one of the image, or manifests to what `wasmount manifests` printed (--set-file manifests=FILE)" -}}
{{- end -}}
{{- end -}}

{{/* Fails if Prometheus cannot reach the pods: those on the network of their node show metrics to it only, by default. */}}
{{- define "wasmount.checkMonitored" -}}
{{- $values := .Values -}}
{{- range regexSplit "(?m)^---\n" (include "wasmount.printed" .) -1 -}}
{{- $object := fromYaml . -}}
{{- if has ($object.kind | default "") (list "DaemonSet" "Deployment") -}}
{{- $part := ternary "node" "controller" (eq $object.kind "DaemonSet") -}}
{{- $isHidden := and $object.spec.template.spec.hostNetwork (contains "--listen-health=127." .) -}}
{{- if and $isHidden (not (get $values $part).healthAddress) -}}
{{- fail (printf "prometheus.podMonitor: %s is on the network of its nodes, where Prometheus does not reach 127.0.0.1: set %s.healthAddress, such as to 0.0.0.0" $object.metadata.name $part) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The printed object of a kind, as JSON. */}}
{{- define "wasmount.object" -}}
{{- $kind := .kind -}}
{{- range regexSplit "(?m)^---\n" (include "wasmount.printed" .root) -1 -}}
{{- $object := fromYaml . -}}
{{- if eq ($object.kind | default "") $kind -}}
{{- toJson $object -}}
{{- end -}}
{{- end -}}
{{- end -}}
