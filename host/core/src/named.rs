//! Enums whose variants have a name in CSI, in the contract or in gRPC.

/// An enum, all its variants in order, and the name of each by a method.
#[macro_export]
macro_rules! named {
    (
        $(#[$of_enum:meta])*
        pub enum $enum:ident, $name:ident {
            $($(#[$of_variant:meta])* $variant:ident = $text:literal),+ $(,)?
        }
    ) => {
        $(#[$of_enum])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $enum { $($(#[$of_variant])* $variant),+ }

        impl $enum {
            /// All variants.
            pub const ALL: &[$enum] = &[$($enum::$variant),+];

            /// The external name.
            pub fn $name(self) -> &'static str {
                match self { $($enum::$variant => $text),+ }
            }
        }
    };
}
