//! Caller and arguments of an authorization query, from the command line.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value};
use vmcp_core::Identity;
use vmcp_wire::{members, scan};

use crate::output::Failure;

/// Maximum size of a file of claims, in bytes. Claims of a token are smaller.
const MAX_CLAIMS_SIZE: u64 = 1 << 20;

/// Command-line options that describe the caller.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct CallerArgs {
    /// The claims of the caller's token, a JSON object.
    #[arg(long = "as", value_name = "FILE")]
    claims: Option<PathBuf>,
    /// A caller without a token.
    #[arg(long)]
    anonymous: bool,
}

/// Arguments of a call.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct CallArguments {
    /// An argument of the call. A value that is valid JSON counts as JSON, any other as text. Repeatable.
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "resource")]
    argument: Vec<String>,
    /// All arguments of the call, a JSON object.
    #[arg(long, value_name = "JSON", conflicts_with = "resource")]
    arguments: Option<String>,
}

impl CallerArgs {
    pub(crate) fn identity(&self) -> Result<Identity, Failure> {
        let Some(path) = self.claims.as_deref().filter(|_| !self.anonymous) else {
            return Ok(Identity::anonymous());
        };
        identity_of(path, "give --anonymous instead of --as")
    }
}

/// Returns the caller whose claims are in a file, the value of `--as`. `anonymous` names the options for a caller without a
/// token.
pub(crate) fn identity_of(path: &Path, anonymous: &str) -> Result<Identity, Failure> {
    let claims = read(path, anonymous)
        .map_err(|problem| Failure::Usage(format!("--as {}: {problem}", path.display())))?;
    let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
    Ok(Identity::builder(text("iss"), text("sub")).claims(claims).build())
}

fn read(path: &Path, anonymous: &str) -> Result<Map<String, Value>, String> {
    let size = std::fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?.len();
    if size > MAX_CLAIMS_SIZE {
        return Err(format!("has {size} bytes, and {MAX_CLAIMS_SIZE} at most are read"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    if text.trim_start().starts_with("eyJ") {
        return Err("is a token: the claims in it are wanted, as JSON".to_owned());
    }
    let claims = match serde_json::from_str(&text) {
        Ok(Value::Object(claims)) => claims,
        Ok(_) => return Err("must be a JSON object, such as {\"sub\": \"alice\"}".to_owned()),
        Err(error) => return Err(format!("is not valid JSON: {error}")),
    };
    match claims.get("sub") {
        Some(Value::String(subject)) if !subject.is_empty() => {}
        Some(_) => return Err("sub must be a string that is not empty".to_owned()),
        None => {
            return Err(format!(
                "sub is missing: every token has one. For a caller without a token, {anonymous}"
            ));
        }
    }
    match claims.get("iss") {
        None | Some(Value::String(_)) => Ok(claims),
        Some(_) => Err("iss must be a string".to_owned()),
    }
}

impl CallArguments {
    pub(crate) fn is_given(&self) -> bool {
        !self.argument.is_empty() || self.arguments.is_some()
    }

    /// Returns the arguments as in a message.
    pub(crate) fn json(&self) -> Result<Option<String>, Failure> {
        if let Some(json) = &self.arguments {
            let json = json.trim();
            let problem = match check_single_value(json) {
                _ if !json.starts_with('{') => Some("it must be a JSON object".to_owned()),
                check_single_value => check_single_value.err(),
            };
            return match problem {
                Some(problem) => Err(Failure::Usage(format!("--arguments: {problem}"))),
                None => Ok(Some(json.to_owned())),
            };
        }
        if self.argument.is_empty() {
            return Ok(None);
        }
        let (mut seen, mut written) = (Vec::new(), Vec::new());
        for argument in &self.argument {
            let Some((name, value)) = argument.split_once('=').filter(|(name, _)| !name.is_empty())
            else {
                let message = format!("--argument {argument}: must be NAME=VALUE");
                return Err(Failure::Usage(message));
            };
            if seen.contains(&name) {
                return Err(Failure::Usage(format!("--argument {name} is given twice")));
            }
            seen.push(name);
            let value = match check_single_value(value) {
                Ok(()) => value.to_owned(),
                Err(_) => Value::from(value).to_string(),
            };
            written.push(format!("{}:{value}", Value::from(name)));
        }
        Ok(Some(format!("{{{}}}", written.join(","))))
    }
}

/// Checks that `json` is a single value that passes the checks for MCP messages.
fn check_single_value(json: &str) -> Result<(), String> {
    let head = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":"#;
    let message = format!("{head}{{\"arguments\":{json}}}}}");
    scan(message.as_bytes()).map_err(|fault| fault.to_string())?;
    let mut found =
        members(message.get(head.len()..message.len() - 1).unwrap_or_default().as_bytes());
    match (found.next(), found.next()) {
        (Some(one), None) if one.value == json.as_bytes() => Ok(()),
        _ => Err("it is more than one JSON value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(argument: &[&str], arguments: Option<&str>) -> Result<Option<String>, Failure> {
        let argument = argument.iter().map(|&one| one.to_owned()).collect();
        CallArguments { argument, arguments: arguments.map(str::to_owned) }.json()
    }

    #[test]
    fn parses_values_as_json_without_losing_digits() {
        let values =
            ["a=1", "b=x y", "c=[1,2]", "d=\"1\"", "e=", "f=1e400", "g=1,\"h\":2", "i=a=b"];
        let json = given(&values, None).unwrap().unwrap();
        let expected =
            r#"{"a":1,"b":"x y","c":[1,2],"d":"1","e":"","f":1e400,"g":"1,\"h\":2","i":"a=b"}"#;
        assert_eq!(json, expected);
        assert_eq!(
            given(&["n=100.00000000000000001"], None).unwrap().unwrap(),
            r#"{"n":100.00000000000000001}"#
        );
    }

    #[test]
    fn rejects_malformed_arguments() {
        for (argument, arguments) in [
            (&["a"][..], None),
            (&["=1"], None),
            (&["a=1", "a=2"], None),
            (&[], Some("[]")),
            (&[], Some("{")),
            (&[], Some("{},\"x\":{}")),
            (&[], Some("")),
        ] {
            assert!(
                matches!(given(argument, arguments), Err(Failure::Usage(_))),
                "{argument:?} {arguments:?}"
            );
        }
        assert_eq!(given(&[], None).unwrap(), None);
        assert_eq!(given(&[], Some(" {\"a\":1} ")).unwrap().as_deref(), Some("{\"a\":1}"));
    }
}
