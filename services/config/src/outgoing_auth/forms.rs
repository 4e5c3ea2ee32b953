//! Document form of the strategies: a `type` and the object that belongs to it.

use super::{AwsSts, HeaderInjection, HeaderValue, Strategy, TokenExchange, UpstreamInject};
use crate::{
    context::Context,
    shape::{Limit, Rule, Variant, alternative, choice, section},
    text::{EnvName, HeaderName, Secret},
    tree::Node,
};

choice! {
    /// Credentials for one backend.
    enum StrategyWord {
        /// Nothing.
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
    struct StrategyForm {
        /// Which kind of credentials.
        r#type: StrategyWord;
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
                needs: &[],
                refuses: &["headerInjection", "tokenExchange", "upstreamInject", "awsSts"],
            },
            Variant {
                value: "header_injection",
                needs: &["headerInjection"],
                refuses: &["tokenExchange", "upstreamInject", "awsSts"],
            },
            Variant {
                value: "token_exchange",
                needs: &["tokenExchange"],
                refuses: &["headerInjection", "upstreamInject", "awsSts"],
            },
            Variant {
                value: "upstream_inject",
                needs: &["upstreamInject"],
                refuses: &["headerInjection", "tokenExchange", "awsSts"],
            },
            Variant {
                value: "aws_sts",
                needs: &["awsSts"],
                refuses: &["headerInjection", "tokenExchange", "upstreamInject"],
            },
        ],
    }]
}

section! {
    /// A header with a value that is the same for all callers.
    struct HeaderInjectionForm {
        /// Name of the header.
        header_name: HeaderName;
        /// The value itself. Prefer `headerValueEnv`.
        header_value: Option<Secret>, [Limit::NotEmpty];
        /// Environment variable with the value.
        header_value_env: Option<EnvName>;
    }
    rules [Rule::ExactlyOne(&["headerValue", "headerValueEnv"])]
}

alternative!(Strategy as StrategyForm, or Strategy::Unauthenticated);
alternative!(HeaderInjection as HeaderInjectionForm);

// === impl Strategy ===

impl Strategy {
    fn from_wire(wire: StrategyForm, _: &Node, _: &mut Context) -> Option<Self> {
        let StrategyForm { r#type, header_injection, token_exchange, upstream_inject, aws_sts } =
            wire;
        match r#type {
            StrategyWord::Unauthenticated => Some(Self::Unauthenticated),
            StrategyWord::HeaderInjection => header_injection.map(Self::HeaderInjection),
            StrategyWord::TokenExchange => token_exchange.map(Self::TokenExchange),
            StrategyWord::UpstreamInject => upstream_inject.map(Self::UpstreamInject),
            StrategyWord::AwsSts => aws_sts.map(Self::AwsSts),
        }
    }

    fn wire(&self) -> StrategyForm {
        let mut form = StrategyForm {
            r#type: StrategyWord::Unauthenticated,
            header_injection: None,
            token_exchange: None,
            upstream_inject: None,
            aws_sts: None,
        };
        match self.clone() {
            Self::Unauthenticated => {}
            Self::HeaderInjection(value) => {
                form.r#type = StrategyWord::HeaderInjection;
                form.header_injection = Some(value);
            }
            Self::TokenExchange(value) => {
                form.r#type = StrategyWord::TokenExchange;
                form.token_exchange = Some(value);
            }
            Self::UpstreamInject(value) => {
                form.r#type = StrategyWord::UpstreamInject;
                form.upstream_inject = Some(value);
            }
            Self::AwsSts(value) => {
                form.r#type = StrategyWord::AwsSts;
                form.aws_sts = Some(value);
            }
        }
        form
    }
}

// === impl HeaderInjection ===

impl HeaderInjection {
    fn from_wire(wire: HeaderInjectionForm, _: &Node, _: &mut Context) -> Option<Self> {
        let HeaderInjectionForm { header_name, header_value, header_value_env } = wire;
        let value = match (header_value, header_value_env) {
            (Some(secret), None) => HeaderValue::Literal(secret),
            (None, Some(env)) => HeaderValue::Env(env),
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some(Self { header_name, value })
    }

    fn wire(&self) -> HeaderInjectionForm {
        let Self { header_name, value } = self.clone();
        let (header_value, header_value_env) = match value {
            HeaderValue::Literal(secret) => (Some(secret), None),
            HeaderValue::Env(env) => (None, Some(env)),
        };
        HeaderInjectionForm { header_name, header_value, header_value_env }
    }
}
