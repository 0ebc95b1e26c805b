// Package export_wasmount_csi_capacity says what can still be made.
package export_wasmount_csi_capacity

import (
	witTypes "go.bytecodealliance.org/pkg/wit/types"

	"wit_component/backend"
	"wit_component/wasmount_csi_capacity"
)

// GetCapacity answers 0 for volumes that cannot be made.
func GetCapacity(args wasmount_csi_capacity.CapacityArgs) backend.Result[wasmount_csi_capacity.Available] {
	bytes, err := backend.AvailableBytes()
	if backend.Check(args.Capabilities, args.Parameters) != nil {
		bytes = 0
	}
	return backend.Answer(wasmount_csi_capacity.Available{AvailableBytes: bytes, MaximumVolumeBytes: witTypes.Some(bytes)}, err)
}
