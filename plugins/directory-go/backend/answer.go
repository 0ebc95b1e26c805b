// Package backend is plugins/directory in Go: volumes are directories of a pool that the administrator grants as `volumes`. The packages
// export_* serve the exported interfaces with it; packages wasmount_* and the program are generated from plugin.wit.
package backend

import (
	"fmt"
	"runtime/debug"

	witTypes "go.bytecodealliance.org/pkg/wit/types"

	"wit_component/wasmount_csi_types"
)

// Result is what exported functions answer.
type Result[T any] = witTypes.Result[T, wasmount_csi_types.Error]

// Failure is an error of the contract as one of Go.
type Failure wasmount_csi_types.Error

func (failure *Failure) Error() string {
	return failure.Message
}

// An instance serves one call and goes: to collect garbage would only cost time.
func init() {
	debug.SetGCPercent(-1)
}

// Fail makes an error with a code that Kubernetes acts on.
func Fail(code wasmount_csi_types.Code, format string, values ...any) error {
	return &Failure{Code: code, Message: fmt.Sprintf(format, values...)}
}

// Answer turns what Go functions return into what the contract wants.
func Answer[T any](value T, err error) Result[T] {
	switch err := err.(type) {
	case nil:
		return witTypes.Ok[T, wasmount_csi_types.Error](value)
	case *Failure:
		return witTypes.Err[T](wasmount_csi_types.Error(*err))
	default:
		return witTypes.Err[T](wasmount_csi_types.Error{Code: wasmount_csi_types.CodeInternal, Message: err.Error()})
	}
}

// returned is the way back: what the host answers as what Go functions return.
func returned[T any](result Result[T]) (T, error) {
	if result.IsErr() {
		var none T
		failure := Failure(result.Err())
		return none, &failure
	}
	return result.Ok(), nil
}

// done is the same for what answers nothing.
func done[T any](result Result[T]) error {
	_, err := returned(result)
	return err
}
