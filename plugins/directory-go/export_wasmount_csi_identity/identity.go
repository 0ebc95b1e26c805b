// Package export_wasmount_csi_identity says who the backend is. The generated code wants one package of this name for each exported interface.
package export_wasmount_csi_identity

import (
	"wit_component/backend"
	"wit_component/wasmount_csi_identity"
)

// GetPluginInfo is asked once, at admission.
func GetPluginInfo() wasmount_csi_identity.PluginInfo {
	return wasmount_csi_identity.PluginInfo{
		Name:     "directory-go.wasmount.io",
		Version:  "0.1.0",
		Features: []string{"single-node-multi-writer"},
	}
}

// Probe answers that there is nothing to wait for.
func Probe() backend.Result[bool] {
	return backend.Answer(true, nil)
}

// CheckSettings has no warning: there is nothing to set.
func CheckSettings() backend.Result[[]string] {
	return backend.Answer[[]string](nil, nil)
}
