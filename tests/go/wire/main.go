// The wire form of CSI as its official Go module has it: tests/tests/host/wire.rs asks, this answers. It knows no message by name, so that it
// serves every version of the module (go.mod has 1.12, go-1.13.mod has 1.13).
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
)

// A longer message or line is a mistake of the test: the longest is some ten kilobytes.
const longest = 1 << 20

func main() {
	if err := run(os.Args[1:], bufio.NewReader(os.Stdin), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string, in *bufio.Reader, out io.Writer) error {
	if len(arguments) != 1 {
		return fmt.Errorf("usage: wire describe|fill|decode|encode, not %q", arguments)
	}
	switch arguments[0] {
	case "describe":
		return describe(out)
	case "fill":
		return fill(out)
	case "decode":
		return decode(in, out)
	case "encode":
		return encode(in, out)
	}
	return fmt.Errorf("unknown command %q", arguments[0])
}

// Writes a google.protobuf.FileDescriptorSet: CSI's file behind those that it imports.
func describe(out io.Writer) error {
	var files descriptorpb.FileDescriptorSet
	imports := csi.File_csi_proto.Imports()
	for i := range imports.Len() {
		files.File = append(files.File, protodesc.ToFileDescriptorProto(imports.Get(i).FileDescriptor))
	}
	files.File = append(files.File, protodesc.ToFileDescriptorProto(csi.File_csi_proto))
	bytes, err := proto.Marshal(&files)
	if err != nil {
		return err
	}
	_, err = out.Write(bytes)
	return err
}

// Writes every message in all variants, as length-delimited google.protobuf.Any.
func fill(out io.Writer) error {
	filler := newFiller(csi.File_csi_proto)
	return everyMessage(csi.File_csi_proto.Messages(), func(descriptor protoreflect.MessageDescriptor) error {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.FullName())
		if err != nil {
			return err
		}
		for variant := range filler.variants {
			message := kind.New()
			filler.fill(message, variant)
			if err := write(out, message.Interface()); err != nil {
				return err
			}
		}
		return nil
	})
}

// Reads length-delimited google.protobuf.Any and writes each as a line of canonical JSON. What is unknown anywhere in it is an error.
func decode(in *bufio.Reader, out io.Writer) error {
	options := protodelim.UnmarshalOptions{MaxSize: longest}
	for {
		var packed anypb.Any
		if err := options.UnmarshalFrom(in, &packed); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		message, err := packed.UnmarshalNew()
		if err != nil {
			return fmt.Errorf("%s: %w", packed.TypeUrl, err)
		}
		if err := allKnown(message.ProtoReflect()); err != nil {
			return fmt.Errorf("%s: %w", packed.TypeUrl, err)
		}
		line, err := protojson.Marshal(&packed)
		if err != nil {
			return fmt.Errorf("%s: %w", packed.TypeUrl, err)
		}
		if _, err := fmt.Fprintf(out, "%s\n", line); err != nil {
			return err
		}
	}
}

// Reads lines of the JSON of google.protobuf.Any and writes each length-delimited.
func encode(in *bufio.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		var packed anypb.Any
		if err := protojson.Unmarshal(lines.Bytes(), &packed); err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		message, err := packed.UnmarshalNew()
		if err != nil {
			return err
		}
		if err := write(out, message); err != nil {
			return err
		}
	}
	return lines.Err()
}

func write(out io.Writer, message proto.Message) error {
	packed := new(anypb.Any)
	if err := anypb.MarshalFrom(packed, message, proto.MarshalOptions{Deterministic: true}); err != nil {
		return err
	}
	_, err := protodelim.MarshalTo(out, packed)
	return err
}

// Calls for every message and those inside of it; the entries of maps are none.
func everyMessage(messages protoreflect.MessageDescriptors, call func(protoreflect.MessageDescriptor) error) error {
	for i := range messages.Len() {
		message := messages.Get(i)
		if message.IsMapEntry() {
			continue
		}
		if err := call(message); err != nil {
			return err
		}
		if err := everyMessage(message.Messages(), call); err != nil {
			return err
		}
	}
	return nil
}

// An error for a field, or a value of an enum, that the module does not know.
func allKnown(message protoreflect.Message) (err error) {
	if unknown := message.GetUnknown(); len(unknown) > 0 {
		return fmt.Errorf("%s has fields that this version does not know: %x", message.Descriptor().FullName(), unknown)
	}
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		each := func(value protoreflect.Value) bool {
			err = valueKnown(field, value)
			return err == nil
		}
		switch {
		case field.IsMap():
			// Strings all: the specification has no other maps.
		case field.IsList():
			for i := 0; i < value.List().Len() && each(value.List().Get(i)); i++ {
			}
		default:
			each(value)
		}
		return err == nil
	})
	return err
}

func valueKnown(field protoreflect.FieldDescriptor, value protoreflect.Value) error {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return allKnown(value.Message())
	case protoreflect.EnumKind:
		if field.Enum().Values().ByNumber(value.Enum()) == nil {
			return fmt.Errorf("%s has no value %d", field.Enum().FullName(), value.Enum())
		}
	}
	return nil
}
