// Package export_wasmount_csi_controller makes and removes volumes. An id is made of the volume's name, its size is a record under the id,
// written last and removed last: a call that dies half-way is completed by its retry.
package export_wasmount_csi_controller

import (
	witTypes "go.bytecodealliance.org/pkg/wit/types"

	"wit_component/backend"
	"wit_component/wasmount_csi_controller"
	"wit_component/wasmount_csi_types"
)

const podsRunAsAnyUser = 0o777

// CreateVolume is idempotent by name.
func CreateVolume(args wasmount_csi_controller.CreateVolumeArgs) backend.Result[wasmount_csi_types.Volume] {
	return backend.Answer(create(args))
}

func create(args wasmount_csi_controller.CreateVolumeArgs) (wasmount_csi_types.Volume, error) {
	none := wasmount_csi_types.Volume{}
	if err := backend.Check(args.Capabilities, args.Parameters); err != nil {
		return none, err
	}
	if err := backend.CheckNoParameters(args.MutableParameters); err != nil {
		return none, err
	}
	if args.ContentSource.IsSome() {
		return none, backend.Fail(wasmount_csi_types.CodeInvalidArgument, "volumes of this driver start empty: create one without dataSource")
	}
	id := backend.IDOfName(args.Name)
	known, err := backend.Get(id)
	if err != nil {
		return none, err
	}
	bytes, err := backend.Agree(args.Capacity, known)
	if err != nil {
		return none, err
	}
	if err := backend.CreateDirectoryOf(id, bytes); err != nil {
		return none, err
	}
	if err := backend.SetPermissions(id, podsRunAsAnyUser); err != nil {
		return none, err
	}
	if err := backend.Create(id, bytes); err != nil {
		return none, err
	}
	// The zero Option is none; an Option in an answer need not be set.
	return wasmount_csi_types.Volume{Id: id, CapacityBytes: bytes}, nil
}

// DeleteVolume has nothing to do for an id that cannot be one of ours.
func DeleteVolume(id string) backend.Result[witTypes.Unit] {
	if !backend.IsID(id) {
		return backend.Answer(witTypes.Unit{}, nil)
	}
	err := backend.RemoveDirectory(id)
	if err == nil {
		err = backend.Delete(id)
	}
	return backend.Answer(witTypes.Unit{}, err)
}

// ValidateVolumeCapabilities says why not, where it cannot confirm.
func ValidateVolumeCapabilities(args wasmount_csi_controller.ValidateArgs) backend.Result[wasmount_csi_controller.Validation] {
	validation := wasmount_csi_controller.MakeValidationConfirmed()
	if why := backend.Check(args.Capabilities, args.Parameters); why != nil {
		validation = wasmount_csi_controller.MakeValidationUnsupported(why.Error())
	}
	_, err := backend.Require(args.Id)
	return backend.Answer(validation, err)
}
