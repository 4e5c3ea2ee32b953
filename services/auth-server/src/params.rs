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
    twice: Vec<Cow<'a, str>>,
}

/// Error of a request with more than [`MAX_PARAMS`] parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl<'a> Params<'a> {
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, TooMany> {
        let mut params = Self { pairs: Vec::new(), twice: Vec::new() };
        for (count, (name, value)) in form_urlencoded::parse(text).enumerate() {
            if count == MAX_PARAMS {
                return Err(TooMany);
            }
            if params.pairs.iter().any(|(known, _)| *known == name) {
                params.twice.push(name);
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
    pub(crate) fn any_twice(&self) -> bool {
        !self.twice.is_empty()
    }

    /// Returns `true` if this parameter is repeated.
    pub(crate) fn is_twice(&self, name: &str) -> bool {
        self.twice.iter().any(|known| known == name)
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
    fn a_parameter_that_comes_twice_is_noticed_however_it_is_written() {
        let params = Params::parse(b"st%61te=a&b=1&state=b").unwrap();
        assert!(params.any_twice() && params.is_twice("state") && !params.is_twice("b"));
        assert_eq!(params.get("state"), Some("a"));
        assert!(!Params::parse(b"a=1&b=2").unwrap().any_twice());
    }

    #[test]
    fn an_empty_one_is_an_absent_one() {
        let params = Params::parse(b"scope=&x").unwrap();
        assert_eq!(
            (params.get("scope"), params.has("scope"), params.has("y")),
            (None, true, false)
        );
    }

    #[test]
    fn their_number_is_bounded() {
        let text = (0..65).map(|at| format!("p{at}=1")).collect::<Vec<_>>().join("&");
        assert!(Params::parse(text.as_bytes()).is_err());
    }

    #[test]
    fn no_value_is_in_the_debug_form() {
        assert_eq!(format!("{:?}", Params::parse(b"code=canary").unwrap()), "{\"code\"}");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(pairs in proptest::collection::btree_map("\\PC{1,8}", "\\PC{1,8}", 0..20)) {
            let text = form_urlencoded::Serializer::new(String::new()).extend_pairs(&pairs).finish();
            let params = Params::parse(text.as_bytes()).unwrap();
            prop_assert!(!params.any_twice());
            for (name, value) in &pairs {
                prop_assert_eq!(params.get(name), Some(value.as_str()));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Params::parse(&bytes);
        }
    }
}
