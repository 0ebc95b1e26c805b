// Package export_wasmount_csi_node_stage says what a volume is on a node.
package export_wasmount_csi_node_stage

import (
	witTypes "go.bytecodealliance.org/pkg/wit/types"

	"wit_component/backend"
	"wit_component/wasmount_csi_node_stage"
	"wit_component/wasmount_csi_types"
)

// NodeStage plans the volume's directory.
func NodeStage(args wasmount_csi_node_stage.NodeStageArgs) backend.Result[witTypes.Unit] {
	if !backend.IsID(args.Id) {
		return backend.Answer(witTypes.Unit{}, backend.Fail(wasmount_csi_types.CodeNotFound, "this driver makes no such ids: nothing has it"))
	}
	return backend.Answer(witTypes.Unit{}, backend.PlanDirectory(args.Id))
}
