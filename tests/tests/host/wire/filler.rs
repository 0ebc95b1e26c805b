//! Sets every field of a message to a value that is no default and its own, in variants that together take every arm of every oneof and every value
//! of every enum.
//!
//! Of our messages, which are those of two versions of CSI, it sets what one of them knows.

use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value,
};

/// Elements of every list and entries of every map: several, and no two alike.
const SEVERAL: usize = 3;

/// A moment that any calendar can write: seconds and nanoseconds.
const MOMENT: (i64, i32) = (1_767_225_599, 999_999_999);

/// Fills messages with what a version of CSI knows.
pub(crate) struct Filler {
    version: DescriptorPool,
}

impl Filler {
    /// For the version with these descriptors.
    pub(crate) fn new(version: DescriptorPool) -> Self {
        Self { version }
    }

    /// As many as the longest oneof has arms, or the longest enum values.
    pub(crate) fn variants(&self) -> usize {
        let enums = self.version.all_enums().map(|it| it.values().len());
        let messages = self.version.all_messages();
        let oneofs =
            messages.flat_map(|it| it.oneofs().map(|it| it.fields().len()).collect::<Vec<_>>());
        enums.chain(oneofs).max().unwrap()
    }

    /// A message of this type, filled.
    pub(crate) fn filled(&self, descriptor: MessageDescriptor, variant: usize) -> DynamicMessage {
        if descriptor.full_name() == "google.protobuf.Timestamp" {
            return moment(descriptor, variant);
        }
        let mut message = DynamicMessage::new(descriptor.clone());
        for field in descriptor.fields().filter(|it| self.knows(it)) {
            if let Some(oneof) = field.containing_oneof() {
                let arms: Vec<_> = oneof.fields().filter(|it| self.knows(it)).collect();
                if arms[variant % arms.len()] != field {
                    continue;
                }
            }
            message.set_field(&field, self.content(&field, variant));
        }
        message
    }

    fn content(&self, field: &FieldDescriptor, variant: usize) -> Value {
        let several = variant..variant + SEVERAL;
        match field.kind() {
            Kind::Message(entry) if field.is_map() => {
                let value = entry.map_entry_value_field();
                let entries = several.map(|number| {
                    let key = format!("key of {} {number}", field.name());
                    (MapKey::String(key), self.value(&value, number))
                });
                Value::Map(entries.collect())
            }
            _ if field.is_list() => {
                Value::List(several.map(|number| self.value(field, number)).collect())
            }
            _ => self.value(field, variant),
        }
    }

    fn value(&self, field: &FieldDescriptor, variant: usize) -> Value {
        let number = i32::try_from(variant).unwrap();
        match field.kind() {
            Kind::Bool => Value::Bool(true),
            // The ends of the range, and what is near to them.
            Kind::Int32 if variant.is_multiple_of(2) => Value::I32(i32::MAX - number),
            Kind::Int32 => Value::I32(i32::MIN + number),
            Kind::Int64 if variant.is_multiple_of(2) => Value::I64(i64::MAX - i64::from(number)),
            Kind::Int64 => Value::I64(i64::MIN + i64::from(number)),
            Kind::String => Value::String(format!("{} \u{1f4be} \0 {variant}", field.full_name())),
            Kind::Message(message) => Value::Message(self.filled(message, variant)),
            Kind::Enum(kind) => {
                let known = self.version.get_enum_by_name(kind.full_name()).unwrap();
                let values: Vec<_> = known.values().collect();
                Value::EnumNumber(values[variant % values.len()].number())
            }
            kind => panic!(
                "{} is of a kind that CSI did not have: {kind:?}",
                field.full_name()
            ),
        }
    }

    fn knows(&self, field: &FieldDescriptor) -> bool {
        let message = self
            .version
            .get_message_by_name(field.parent_message().full_name());
        message.is_some_and(|it| it.get_field_by_name(field.name()).is_some())
    }
}

fn moment(descriptor: MessageDescriptor, variant: usize) -> DynamicMessage {
    let (seconds, nanoseconds) = MOMENT;
    let mut message = DynamicMessage::new(descriptor);
    let earlier = i64::try_from(variant).unwrap();
    message.set_field_by_name("seconds", Value::I64(seconds - earlier));
    message.set_field_by_name("nanos", Value::I32(nanoseconds));
    message
}
