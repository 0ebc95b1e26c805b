package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"wit_component/wasmount_csi_state"
	"wit_component/wasmount_csi_types"
)

const prefix = "directory-"

// Record is a volume's size, and when it was written.
type Record struct {
	Bytes    uint64
	Revision wasmount_csi_state.Revision
}

// IDOfName gives the id that belongs to a name, which may hold any character.
func IDOfName(name string) string {
	hash := sha256.Sum256([]byte(name))
	return prefix + hex.EncodeToString(hash[:])
}

// IsID tells whether an id can have been made here: ids arrive from clients, and one may be `../../etc`.
func IsID(id string) bool {
	digits, found := strings.CutPrefix(id, prefix)
	return found && len(digits) == 2*sha256.Size && strings.Trim(digits, "0123456789abcdef") == ""
}

// Get reads the record of a volume; nil: there is none.
func Get(id string) (*Record, error) {
	entry, err := returned(wasmount_csi_state.Get(id))
	if err != nil || entry.IsNone() {
		return nil, err
	}
	return read(entry.Some())
}

// Require reads a record that must be there.
func Require(id string) (*Record, error) {
	record, err := Get(id)
	if err == nil && record == nil {
		err = Fail(wasmount_csi_types.CodeNotFound, "`%s` does not exist", id)
	}
	return record, err
}

// Create writes a record that is not there yet. The same one is as good as ours: the call was made twice.
func Create(id string, bytes uint64) error {
	there, err := put(id, bytes, wasmount_csi_state.MakeExpectAbsent())
	if err == nil && there != nil && there.Bytes != bytes {
		err = changed(id)
	}
	return err
}

// Update replaces a record that nobody changed since it was read.
func Update(id string, bytes uint64, revision wasmount_csi_state.Revision) error {
	there, err := put(id, bytes, wasmount_csi_state.MakeExpectRevision(revision))
	if err == nil && there != nil {
		err = changed(id)
	}
	return err
}

// Delete removes a record, if there is one.
func Delete(id string) error {
	return done(wasmount_csi_state.Remove(id, wasmount_csi_state.MakeExpectAny()))
}

// put gives what is there instead, if what was expected is not true.
func put(id string, bytes uint64, expect wasmount_csi_state.Expect) (*Record, error) {
	value := strconv.AppendUint(nil, bytes, 10)
	outcome, err := returned(wasmount_csi_state.Put(id, value, expect))
	if err != nil || outcome.Tag() == wasmount_csi_state.OutcomeDone {
		return nil, err
	}
	conflict := outcome.Conflict()
	if conflict.IsNone() {
		return nil, changed(id)
	}
	return read(conflict.Some())
}

func read(entry wasmount_csi_state.Entry) (*Record, error) {
	bytes, err := strconv.ParseUint(string(entry.Value), 10, 64)
	if err != nil {
		return nil, Fail(wasmount_csi_types.CodeDataLoss, "the record of `%s` is not readable", entry.Key)
	}
	return &Record{Bytes: bytes, Revision: entry.Revision}, nil
}

func changed(id string) error {
	return Fail(wasmount_csi_types.CodeAborted, "another call changed `%s` meanwhile: retry", id)
}
