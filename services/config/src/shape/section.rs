//! The macros that turn one description of an object into its struct, reader, writer and schema.

/// An object of the configuration.
///
/// `field: Type;` is required unless the type has a value for an absent key (`Option`), `field: Type = default;` is not.
/// `, [limits]` are checked and described. `rules [..]` hold between the keys, `check path` sees the finished value.
macro_rules! section {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident $(<$generic:ident: $bound:path>)? {
            $(
                $(#[doc = $field_doc:literal])*
                $field_vis:vis $field:ident: $type:ty $(= $default:expr)? $(, [$($limit:expr),+ $(,)?])?;
            )*
        }
        $(rules [$($rule:expr),+ $(,)?])?
        $(check $check:path)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::struct_field_names)] // The names are the document's.
        $vis struct $name $(<$generic: $bound>)? {
            $( $(#[doc = $field_doc])* $field_vis $field: $type, )*
        }

        impl $(<$generic: $bound>)? $crate::shape::Shape for $name $(<$generic>)? {
            fn read(node: &$crate::tree::Node, cx: &mut $crate::context::Context) -> Option<Self> {
                let mut fields = $crate::shape::Fields::open(node, cx)?;
                $(
                    let $field: Option<$type> = fields.take(
                        stringify!($field),
                        $crate::shape::section!(@default $($default)?),
                        &[$($($limit),+)?],
                        cx,
                    );
                )*
                let before = cx.count();
                fields.finish(&[$($($rule),+)?], cx);
                let value = Self { $( $field: $field?, )* };
                if cx.count() == before {
                    $( ($check)(&value, node, cx); )?
                }
                Some(value)
            }
        }

        impl $(<$generic: $bound>)? ::serde::Serialize for $name $(<$generic>)? {
            fn serialize<Ser: ::serde::Serializer>(&self, serializer: Ser) -> Result<Ser::Ok, Ser::Error> {
                use ::serde::ser::SerializeMap as _;
                let Self { $( $field, )* } = self;
                let mut map = serializer.serialize_map(None)?;
                $(
                    if !$crate::shape::Shape::is_absent($field) {
                        map.serialize_entry(&$crate::shape::camel(stringify!($field)), $field)?;
                    }
                )*
                map.end()
            }
        }

        impl<'de $(, $generic: $bound)?> ::serde::Deserialize<'de> for $name $(<$generic>)? {
            fn deserialize<De: ::serde::Deserializer<'de>>(deserializer: De) -> Result<Self, De::Error> {
                $crate::shape::deserialize(deserializer)
            }
        }

        impl $(<$generic: $bound>)? ::schemars::JsonSchema for $name $(<$generic>)? {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                $crate::shape::section!(@name $name $(, $generic)?)
            }

            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                let mut object = $crate::shape::ObjectSchema::new(&[$($doc),*]);
                $(
                    object.field::<$type>(
                        generator,
                        stringify!($field),
                        &[$($field_doc),*],
                        $crate::shape::section!(@default $($default)?),
                        &[$($($limit),+)?],
                    );
                )*
                object.finish(&[$($($rule),+)?])
            }
        }
    };

    (@default) => { None };
    (@default $default:expr) => { Some($default) };
    (@name $name:ident) => { ::std::borrow::Cow::Borrowed(stringify!($name)) };
    (@name $name:ident, $generic:ident) => {
        ::std::borrow::Cow::Owned(format!("{}Of{}", stringify!($name), $generic::schema_name()))
    };
}

/// As [`section!`], with a `Default` made of the defaults of the fields.
macro_rules! section_with_default {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $field_doc:literal])*
                $field_vis:vis $field:ident: $type:ty $(= $default:expr)? $(, [$($limit:expr),+ $(,)?])?;
            )*
        }
        $($rest:tt)*
    ) => {
        $crate::shape::section! {
            $(#[doc = $doc])*
            $vis struct $name {
                $(
                    $(#[doc = $field_doc])*
                    $field_vis $field: $type $(= $default)? $(, [$($limit),+])?;
                )*
            }
            $($rest)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $crate::shape::section_with_default!(@value $($default)?), )* }
            }
        }
    };

    (@value) => { Default::default() };
    (@value $default:expr) => { $default };
}

/// A type that is written as the section `$wire` and read through `fn from_wire(wire, &Node, &mut Context) -> Option<Self>`
/// and `fn wire(&self) -> $wire`.
macro_rules! alternative {
    ($name:ident $(<$generic:ident: $bound:path>)? as $wire:ty $(, or $placeholder:expr)?) => {
        impl $(<$generic: $bound>)? $crate::shape::Shape for $name $(<$generic>)? {
            fn read(node: &$crate::tree::Node, cx: &mut $crate::context::Context) -> Option<Self> {
                let before = cx.count();
                let wire = <$wire as $crate::shape::Shape>::read(node, cx)?;
                // After a violation of a rule between keys, the intended alternative is unknown.
                if cx.count() > before { None } else { Self::from_wire(wire, node, cx) }
            }

            $(
                fn placeholder() -> Option<Self> {
                    Some($placeholder)
                }
            )?
        }

        impl $(<$generic: $bound>)? ::serde::Serialize for $name $(<$generic>)? {
            fn serialize<Ser: ::serde::Serializer>(&self, serializer: Ser) -> Result<Ser::Ok, Ser::Error> {
                self.wire().serialize(serializer)
            }
        }

        impl<'de $(, $generic: $bound)?> ::serde::Deserialize<'de> for $name $(<$generic>)? {
            fn deserialize<De: ::serde::Deserializer<'de>>(deserializer: De) -> Result<Self, De::Error> {
                $crate::shape::deserialize(deserializer)
            }
        }

        impl $(<$generic: $bound>)? ::schemars::JsonSchema for $name $(<$generic>)? {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                $crate::shape::section!(@name $name $(, $generic)?)
            }

            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                <$wire as ::schemars::JsonSchema>::json_schema(generator)
            }
        }
    };
}

pub(crate) use {alternative, section, section_with_default};
