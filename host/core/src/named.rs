//! Enums whose variants have a name in CSI, in the contract or in gRPC.

/// An enum, all its variants in order, the name of each by a method, and the way back.
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

            /// The variant of this name.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.$name() == name)
            }

            /// All names, for an error message about an unknown one.
            pub fn names() -> String {
                let names: Vec<_> = Self::ALL
                    .iter()
                    .map(|it| format!("`{}`", it.$name()))
                    .collect();
                names.join(", ")
            }
        }
    };
}
