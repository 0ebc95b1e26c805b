package backend

import (
	witTypes "go.bytecodealliance.org/pkg/wit/types"

	"wit_component/wasmount_csi_node_plan"
	"wit_component/wasmount_csi_pool"
)

const volumes = "volumes"

// CreateDirectoryOf makes a directory and promises bytes to it, or neither: a directory that was there before stays.
func CreateDirectoryOf(path string, bytes uint64) error {
	before, err := returned(wasmount_csi_pool.Stat(volumes, path))
	if err != nil {
		return err
	}
	if err := done(wasmount_csi_pool.CreateDirectory(volumes, path)); err != nil {
		return err
	}
	promised := SetQuota(path, bytes)
	if promised != nil && before.IsNone() {
		if err := RemoveDirectory(path); err != nil {
			return err
		}
	}
	return promised
}

// RemoveDirectory takes everything in it, and its quota.
func RemoveDirectory(path string) error {
	return done(wasmount_csi_pool.RemoveDirectory(volumes, path))
}

// SetPermissions sets the permission bits of a directory; its owner stays.
func SetPermissions(path string, mode uint32) error {
	return done(wasmount_csi_pool.SetPermissions(volumes, path, mode, witTypes.None[uint32](), witTypes.None[uint32]()))
}

// SetQuota promises bytes to a directory.
func SetQuota(path string, bytes uint64) error {
	return done(wasmount_csi_pool.SetQuota(volumes, path, witTypes.Some(bytes)))
}

// AvailableBytes is what is not promised yet.
func AvailableBytes() (uint64, error) {
	usage, err := returned(wasmount_csi_pool.Capacity(volumes))
	return usage.AvailableBytes, err
}

// PlanDirectory says that the volume at hand is this directory.
func PlanDirectory(path string) error {
	return done(wasmount_csi_node_plan.Directory(volumes, path))
}
