package backend

import (
	"math"
	"strings"

	witTypes "go.bytecodealliance.org/pkg/wit/types"

	"wit_component/wasmount_csi_types"
)

const (
	minimumBytes = 4 << 10 // one block of a file system
	defaultBytes = 1 << 30 // for a claim that names no size
)

// Check refuses what a directory cannot be: it is no block device, is on one node at a time, and has nothing to choose.
func Check(capabilities []wasmount_csi_types.VolumeCapability, parameters wasmount_csi_types.Attributes) error {
	if err := CheckNoParameters(parameters); err != nil {
		return err
	}
	for _, capability := range capabilities {
		if capability.AccessType.Tag() != wasmount_csi_types.AccessTypeMount {
			return Fail(wasmount_csi_types.CodeInvalidArgument, "volumes of this driver are file systems: use volumeMode Filesystem")
		}
		switch capability.AccessMode.Tag() {
		case wasmount_csi_types.AccessModeSingleNodeWriter, wasmount_csi_types.AccessModeSingleNodeReaderOnly,
			wasmount_csi_types.AccessModeSingleNodeSingleWriter, wasmount_csi_types.AccessModeSingleNodeMultiWriter:
		default:
			return Fail(wasmount_csi_types.CodeInvalidArgument,
				"volumes of this driver are used on one node at a time: use ReadWriteOnce or ReadWriteOncePod")
		}
	}
	return nil
}

// CheckNoParameters refuses a misspelt parameter: this backend knows none.
func CheckNoParameters(parameters []witTypes.Tuple2[string, string]) error {
	for _, parameter := range parameters {
		if !isReserved(parameter.F0) {
			return Fail(wasmount_csi_types.CodeInvalidArgument, "unknown parameter `%s`: this driver knows none", parameter.F0)
		}
	}
	return nil
}

// isReserved tells whether Kubernetes itself adds such a key, for example external-provisioner with `--extra-create-metadata`.
func isReserved(key string) bool {
	return strings.HasPrefix(key, "csi.storage.k8s.io/") || strings.HasPrefix(key, "storage.kubernetes.io/")
}

// Agree gives the size of a volume that an earlier call of the same name may have made; nil: it is new.
func Agree(capacity wasmount_csi_types.CapacityRange, known *Record) (uint64, error) {
	if known != nil {
		if known.Bytes < capacity.RequiredBytes.SomeOr(0) || known.Bytes > limit(capacity) {
			return 0, Fail(wasmount_csi_types.CodeAlreadyExists, "a volume of this name is there with %d bytes: use another name", known.Bytes)
		}
		return known.Bytes, nil
	}
	bytes := capacity.RequiredBytes.SomeOr(min(defaultBytes, limit(capacity)))
	return withinLimit(capacity, max(bytes, minimumBytes))
}

// Grown gives the size of a volume that shall grow; it never shrinks.
func Grown(capacity wasmount_csi_types.CapacityRange, bytes uint64) (uint64, error) {
	return withinLimit(capacity, max(bytes, capacity.RequiredBytes.SomeOr(0)))
}

func limit(capacity wasmount_csi_types.CapacityRange) uint64 {
	return capacity.LimitBytes.SomeOr(math.MaxUint64)
}

func withinLimit(capacity wasmount_csi_types.CapacityRange, bytes uint64) (uint64, error) {
	if most := limit(capacity); bytes > most {
		return 0, Fail(wasmount_csi_types.CodeOutOfRange, "the volume takes %d bytes, the limit is %d: raise the limit", bytes, most)
	}
	return bytes, nil
}
