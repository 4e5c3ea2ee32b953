//! Raw form of the strategies: a `type` and the object that belongs to it.

use super::{AwsSts, HeaderInjection, HeaderValue, Strategy, TokenExchange, UpstreamInject};
use crate::{
    config_value::{Constraint, Rule, Variant, keyword_enum, raw_conversion, section},
    context::Context,
    string_types::{EnvName, HeaderName, Secret},
    tree::Node,
};

keyword_enum! {
    /// Credentials for one backend.
    enum StrategyTag {
        /// No credentials.
        Unauthenticated = "unauthenticated",
        /// A header.
        HeaderInjection = "header_injection",
        /// An exchanged token.
        TokenExchange = "token_exchange",
        /// An upstream provider's token.
        UpstreamInject = "upstream_inject",
        /// A signature.
        AwsSts = "aws_sts",
    }
}

section! {
    /// Credentials for a backend: the `type` and the object that belongs to it.
    struct RawStrategy {
        /// Kind of credentials.
        r#type: StrategyTag;
        /// With `type: header_injection`.
        header_injection: Option<HeaderInjection>;
        /// With `type: token_exchange`.
        token_exchange: Option<TokenExchange>;
        /// With `type: upstream_inject`.
        upstream_inject: Option<UpstreamInject>;
        /// With `type: aws_sts`.
        aws_sts: Option<AwsSts>;
    }
    rules [Rule::Variants {
        tag: "type",
        default: None,
        variants: &[
            Variant {
                value: "unauthenticated",
                requires: &[],
                forbids: &["headerInjection", "tokenExchange", "upstreamInject", "awsSts"],
            },
            Variant {
                value: "header_injection",
                requires: &["headerInjection"],
                forbids: &["tokenExchange", "upstreamInject", "awsSts"],
            },
            Variant {
                value: "token_exchange",
                requires: &["tokenExchange"],
                forbids: &["headerInjection", "upstreamInject", "awsSts"],
            },
            Variant {
                value: "upstream_inject",
                requires: &["upstreamInject"],
                forbids: &["headerInjection", "tokenExchange", "awsSts"],
            },
            Variant {
                value: "aws_sts",
                requires: &["awsSts"],
                forbids: &["headerInjection", "tokenExchange", "upstreamInject"],
            },
        ],
    }]
}

section! {
    /// A header with a value that is the same for all callers.
    struct RawHeaderInjection {
        /// Name of the header.
        header_name: HeaderName;
        /// The value itself. Prefer `headerValueEnv`.
        header_value: Option<Secret>, [Constraint::NotEmpty];
        /// Environment variable with the value.
        header_value_env: Option<EnvName>;
    }
    rules [Rule::ExactlyOne(&["headerValue", "headerValueEnv"])]
}

raw_conversion!(Strategy as RawStrategy, or Strategy::Unauthenticated);
raw_conversion!(HeaderInjection as RawHeaderInjection);

// === impl Strategy ===

impl Strategy {
    fn from_raw(raw: RawStrategy, _: &Node, _: &mut Context) -> Option<Self> {
        let RawStrategy { r#type, header_injection, token_exchange, upstream_inject, aws_sts } =
            raw;
        match r#type {
            StrategyTag::Unauthenticated => Some(Self::Unauthenticated),
            StrategyTag::HeaderInjection => header_injection.map(Self::HeaderInjection),
            StrategyTag::TokenExchange => token_exchange.map(Self::TokenExchange),
            StrategyTag::UpstreamInject => upstream_inject.map(Self::UpstreamInject),
            StrategyTag::AwsSts => aws_sts.map(Self::AwsSts),
        }
    }

    fn to_raw(&self) -> RawStrategy {
        let mut form = RawStrategy {
            r#type: StrategyTag::Unauthenticated,
            header_injection: None,
            token_exchange: None,
            upstream_inject: None,
            aws_sts: None,
        };
        match self.clone() {
            Self::Unauthenticated => {}
            Self::HeaderInjection(value) => {
                form.r#type = StrategyTag::HeaderInjection;
                form.header_injection = Some(value);
            }
            Self::TokenExchange(value) => {
                form.r#type = StrategyTag::TokenExchange;
                form.token_exchange = Some(value);
            }
            Self::UpstreamInject(value) => {
                form.r#type = StrategyTag::UpstreamInject;
                form.upstream_inject = Some(value);
            }
            Self::AwsSts(value) => {
                form.r#type = StrategyTag::AwsSts;
                form.aws_sts = Some(value);
            }
        }
        form
    }
}

// === impl HeaderInjection ===

impl HeaderInjection {
    fn from_raw(raw: RawHeaderInjection, _: &Node, _: &mut Context) -> Option<Self> {
        let RawHeaderInjection { header_name, header_value, header_value_env } = raw;
        let value = match (header_value, header_value_env) {
            (Some(secret), None) => HeaderValue::Literal(secret),
            (None, Some(env)) => HeaderValue::Env(env),
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some(Self { header_name, value })
    }

    fn to_raw(&self) -> RawHeaderInjection {
        let Self { header_name, value } = self.clone();
        let (header_value, header_value_env) = match value {
            HeaderValue::Literal(secret) => (Some(secret), None),
            HeaderValue::Env(env) => (None, Some(env)),
        };
        RawHeaderInjection { header_name, header_value, header_value_env }
    }
}
