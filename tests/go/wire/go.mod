// The official Go module of CSI 1.12, for the comparison of the wire form. The same sources are built with go-1.13.mod.
module github.com/wasmount/wasmount/tests/go/wire

go 1.25.0

require (
	github.com/container-storage-interface/spec v1.12.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/golang/protobuf v1.5.4 // indirect
	golang.org/x/net v0.38.0 // indirect
	golang.org/x/sys v0.31.0 // indirect
	golang.org/x/text v0.23.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20230803162519-f966b187b2e5 // indirect
	google.golang.org/grpc v1.57.1 // indirect
)
