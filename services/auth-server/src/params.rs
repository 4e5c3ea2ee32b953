//! Request parameters, each allowed at most once (RFC 6749 section 3.1).

use std::borrow::Cow;
use std::fmt;

/// Maximum number of parameters in a request.
const MAX_PARAMS: usize = 64;

/// Parameters of a query or of a form (`application/x-www-form-urlencoded`).
///
/// An empty parameter counts as absent. A repeated one is recorded rather than rejected, so that the client can still
/// receive the error if its other parameters are valid. `Debug` omits the values.
pub(crate) struct Params<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    repeated: Vec<Cow<'a, str>>,
}

/// Error of a request with more than [`MAX_PARAMS`] parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyParams;

impl<'a> Params<'a> {
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, TooManyParams> {
        let mut params = Self { pairs: Vec::new(), repeated: Vec::new() };
        for (count, (name, value)) in form_urlencoded::parse(text).enumerate() {
            if count == MAX_PARAMS {
                return Err(TooManyParams);
            }
            if params.pairs.iter().any(|(known, _)| *known == name) {
                params.repeated.push(name);
            } else {
                params.pairs.push((name, value));
            }
        }
        Ok(params)
    }

    /// Returns the value of the parameter, unless it is absent or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.pairs.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value).filter(|value| !value.is_empty())
    }

    /// Returns `true` if the parameter is present, even if empty.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(known, _)| known == name)
    }

    /// Returns `true` if any parameter is repeated.
    pub(crate) fn has_repeated(&self) -> bool {
        !self.repeated.is_empty()
    }

    /// Returns `true` if this parameter is repeated.
    pub(crate) fn is_repeated(&self, name: &str) -> bool {
        self.repeated.iter().any(|known| known == name)
    }
}

impl fmt::Debug for Params<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.pairs.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn detects_repeated_parameters_in_any_encoding() {
        let params = Params::parse(b"st%61te=a&b=1&state=b").unwrap();
        assert!(params.has_repeated() && params.is_repeated("state") && !params.is_repeated("b"));
        assert_eq!(params.get("state"), Some("a"));
        assert!(!Params::parse(b"a=1&b=2").unwrap().has_repeated());
    }

    #[test]
    fn treats_empty_parameter_as_absent() {
        let params = Params::parse(b"scope=&x").unwrap();
        assert_eq!(
            (params.get("scope"), params.has("scope"), params.has("y")),
            (None, true, false)
        );
    }

    #[test]
    fn limits_number_of_parameters() {
        let text = (0..65).map(|at| format!("p{at}=1")).collect::<Vec<_>>().join("&");
        assert!(Params::parse(text.as_bytes()).is_err());
    }

    #[test]
    fn debug_output_omits_parameter_values() {
        assert_eq!(format!("{:?}", Params::parse(b"code=canary").unwrap()), "{\"code\"}");
    }

    proptest! {
        #[test]
        fn parameters_round_trip(pairs in proptest::collection::btree_map("\\PC{1,8}", "\\PC{1,8}", 0..20)) {
            let text = form_urlencoded::Serializer::new(String::new()).extend_pairs(&pairs).finish();
            let params = Params::parse(text.as_bytes()).unwrap();
            prop_assert!(!params.has_repeated());
            for (name, value) in &pairs {
                prop_assert_eq!(params.get(name), Some(value.as_str()));
            }
        }

        #[test]
        fn parses_or_rejects_any_bytes(bytes: Vec<u8>) {
            let _ = Params::parse(&bytes);
        }
    }
}
