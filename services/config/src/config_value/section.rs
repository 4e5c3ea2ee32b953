//! Macros that generate struct, reader, writer and schema of an object from one description.

/// An object of the configuration.
///
/// `field: Type;` is required unless the type has a value for an absent key (`Option`), `field: Type = default;` is not.
/// `, [constraints]` are checked and described. `rules [..]` hold between the keys, `check path` sees the finished value.
macro_rules! section {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident $(<$generic:ident: $bound:path>)? {
            $(
                $(#[doc = $field_doc:literal])*
                $field_vis:vis $field:ident: $type:ty $(= $default:expr)? $(, [$($constraint:expr),+ $(,)?])?;
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

        impl $(<$generic: $bound>)? $crate::config_value::ConfigValue for $name $(<$generic>)? {
            fn read(node: &$crate::tree::Node, cx: &mut $crate::context::Context) -> Option<Self> {
                let mut fields = $crate::config_value::Fields::open(node, cx)?;
                $(
                    let $field: Option<$type> = fields.take(
                        stringify!($field),
                        $crate::config_value::section!(@default $($default)?),
                        &[$($($constraint),+)?],
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
                    if !$crate::config_value::ConfigValue::is_omitted($field) {
                        map.serialize_entry(&$crate::config_value::to_camel_case(stringify!($field)), $field)?;
                    }
                )*
                map.end()
            }
        }

        impl<'de $(, $generic: $bound)?> ::serde::Deserialize<'de> for $name $(<$generic>)? {
            fn deserialize<De: ::serde::Deserializer<'de>>(deserializer: De) -> Result<Self, De::Error> {
                $crate::config_value::deserialize(deserializer)
            }
        }

        impl $(<$generic: $bound>)? ::schemars::JsonSchema for $name $(<$generic>)? {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                $crate::config_value::section!(@name $name $(, $generic)?)
            }

            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                let mut object = $crate::config_value::ObjectSchema::new(&[$($doc),*]);
                $(
                    object.field::<$type>(
                        generator,
                        stringify!($field),
                        &[$($field_doc),*],
                        $crate::config_value::section!(@default $($default)?),
                        &[$($($constraint),+)?],
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
                $field_vis:vis $field:ident: $type:ty $(= $default:expr)? $(, [$($constraint:expr),+ $(,)?])?;
            )*
        }
        $($rest:tt)*
    ) => {
        $crate::config_value::section! {
            $(#[doc = $doc])*
            $vis struct $name {
                $(
                    $(#[doc = $field_doc])*
                    $field_vis $field: $type $(= $default)? $(, [$($constraint),+])?;
                )*
            }
            $($rest)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $crate::config_value::section_with_default!(@value $($default)?), )* }
            }
        }
    };

    (@value) => { Default::default() };
    (@value $default:expr) => { $default };
}

/// A type that is written as the section `$raw` and read through `fn from_raw(raw, &Node, &mut Context) -> Option<Self>`
/// and `fn to_raw(&self) -> $raw`.
macro_rules! raw_conversion {
    ($name:ident $(<$generic:ident: $bound:path>)? as $raw:ty $(, or $placeholder:expr)?) => {
        impl $(<$generic: $bound>)? $crate::config_value::ConfigValue for $name $(<$generic>)? {
            fn read(node: &$crate::tree::Node, cx: &mut $crate::context::Context) -> Option<Self> {
                let before = cx.count();
                let raw = <$raw as $crate::config_value::ConfigValue>::read(node, cx)?;
                // After a violation of a rule between keys, the intended alternative is unknown.
                if cx.count() > before { None } else { Self::from_raw(raw, node, cx) }
            }

            $(
                fn placeholder() -> Option<Self> {
                    Some($placeholder)
                }
            )?
        }

        impl $(<$generic: $bound>)? ::serde::Serialize for $name $(<$generic>)? {
            fn serialize<Ser: ::serde::Serializer>(&self, serializer: Ser) -> Result<Ser::Ok, Ser::Error> {
                self.to_raw().serialize(serializer)
            }
        }

        impl<'de $(, $generic: $bound)?> ::serde::Deserialize<'de> for $name $(<$generic>)? {
            fn deserialize<De: ::serde::Deserializer<'de>>(deserializer: De) -> Result<Self, De::Error> {
                $crate::config_value::deserialize(deserializer)
            }
        }

        impl $(<$generic: $bound>)? ::schemars::JsonSchema for $name $(<$generic>)? {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                $crate::config_value::section!(@name $name $(, $generic)?)
            }

            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                <$raw as ::schemars::JsonSchema>::json_schema(generator)
            }
        }
    };
}

pub(crate) use {raw_conversion, section, section_with_default};
