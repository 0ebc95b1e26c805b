// Package export_wasmount_csi_controller_expand lets volumes grow.
package export_wasmount_csi_controller_expand

import (
	"wit_component/backend"
	"wit_component/wasmount_csi_controller_expand"
)

// ExpandVolume never shrinks a volume; the node has nothing to do.
func ExpandVolume(args wasmount_csi_controller_expand.ExpandArgs) backend.Result[wasmount_csi_controller_expand.Expanded] {
	bytes, err := expand(args)
	return backend.Answer(wasmount_csi_controller_expand.Expanded{CapacityBytes: bytes}, err)
}

func expand(args wasmount_csi_controller_expand.ExpandArgs) (uint64, error) {
	volume, err := backend.Require(args.Id)
	if err != nil {
		return 0, err
	}
	bytes, err := backend.Grown(args.Capacity, volume.Bytes)
	if err != nil {
		return 0, err
	}
	if err := backend.SetQuota(args.Id, bytes); err != nil {
		return 0, err
	}
	return bytes, backend.Update(args.Id, bytes, volume.Revision)
}
