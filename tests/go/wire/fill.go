package main

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Elements of every list and entries of every map: several, and no two alike.
const several = 3

// A filler sets every field to a value that is its own: no default, and different in each variant. A variant chooses the arm of every oneof
// and the value of every enum; there are as many as the largest of these has.
type filler struct {
	variants int
}

func newFiller(file protoreflect.FileDescriptor) filler {
	most := longestEnum(file.Enums())
	// Never fails: the function does not.
	_ = everyMessage(file.Messages(), func(message protoreflect.MessageDescriptor) error {
		most = max(most, longestEnum(message.Enums()))
		for i := range message.Oneofs().Len() {
			most = max(most, message.Oneofs().Get(i).Fields().Len())
		}
		return nil
	})
	return filler{variants: most}
}

func longestEnum(enums protoreflect.EnumDescriptors) (most int) {
	for i := range enums.Len() {
		most = max(most, enums.Get(i).Values().Len())
	}
	return most
}

func (f filler) fill(message protoreflect.Message, variant int) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if oneof := field.ContainingOneof(); oneof != nil && oneof.Fields().Get(variant%oneof.Fields().Len()) != field {
			continue
		}
		switch {
		case field.IsMap():
			entries := message.Mutable(field).Map()
			for n := range several {
				key := fmt.Sprintf("%s/%d-%d", field.Name(), variant, n)
				entries.Set(protoreflect.ValueOfString(key).MapKey(), f.value(field.MapValue(), entries.NewValue(), variant+n))
			}
		case field.IsList():
			list := message.Mutable(field).List()
			for n := range several {
				list.Append(f.value(field, list.NewElement(), variant+n))
			}
		default:
			message.Set(field, f.value(field, message.NewField(field), variant))
		}
	}
}

// The empty one is given for messages alone, which are filled in place.
func (f filler) value(field protoreflect.FieldDescriptor, empty protoreflect.Value, variant int) protoreflect.Value {
	number := int64(field.Number())*1000 + int64(variant)
	// Those below zero take ten bytes on the wire. The nanoseconds of a moment are never below.
	if variant%2 == 1 && field.FullName() != "google.protobuf.Timestamp.nanos" {
		number = -number
	}
	switch field.Kind() {
	case protoreflect.MessageKind:
		f.fill(empty.Message(), variant)
		return empty
	case protoreflect.EnumKind:
		values := field.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(variant % values.Len()).Number())
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(number))
	case protoreflect.Int64Kind:
		// More than 32 bits, within the seconds that a google.protobuf.Timestamp may hold.
		return protoreflect.ValueOfInt64(number << 24)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprintf("%s ✓ %d", field.FullName(), variant))
	}
	panic(fmt.Sprintf("%s is of a kind that CSI did not have: %s", field.FullName(), field.Kind()))
}
