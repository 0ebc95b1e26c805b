// The name of the module and the line `require` are what `wit-bindgen go` generates code for.
module wit_component

go 1.25

require go.bytecodealliance.org/pkg v0.2.3
