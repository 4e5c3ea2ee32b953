//! Enumerations of keywords.

/// Defines an enum whose variants are keywords in documents.
macro_rules! keyword_enum {
    (
        $(#[doc = $doc:literal])*
        $vis:vis enum $name:ident {
            $( $(#[doc = $variant_doc:literal])* $variant:ident = $word:literal $(| $alias:literal)*, )+
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name {
            $( $(#[doc = $variant_doc])* $variant, )+
        }

        impl $name {
            /// Returns the keyword in documents.
            #[must_use]
            $vis fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }

            const KEYWORDS: &'static [&'static str] = &[$( $word, $($alias,)* )+];
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::config_value::ConfigValue for $name {
            fn read(node: &$crate::tree::Node, cx: &mut $crate::context::Context) -> Option<Self> {
                match node.text() {
                    $( Some($word $(| $alias)*) => Some(Self::$variant), )+
                    _ => {
                        $crate::config_value::values::reject_keyword(node, Self::KEYWORDS, cx);
                        None
                    }
                }
            }

            fn is_text() -> bool {
                true
            }

            fn placeholder() -> Option<Self> {
                [$( Self::$variant, )+].first().copied()
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<Ser: ::serde::Serializer>(&self, serializer: Ser) -> Result<Ser::Ok, Ser::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<De: ::serde::Deserializer<'de>>(deserializer: De) -> Result<Self, De::Error> {
                $crate::config_value::deserialize(deserializer)
            }
        }

        impl ::schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                ::std::borrow::Cow::Borrowed(stringify!($name))
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!({ "type": "string", "enum": Self::KEYWORDS })
            }
        }
    };
}

pub(crate) use keyword_enum;
