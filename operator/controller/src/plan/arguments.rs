//! Command line of the server.

use std::net::SocketAddr;

use vmcp_api::{
    conversion::{Conversion, SECRETS_PATH},
    names::{SERVER_PORT, peer_service_name, service_hosts, service_name},
    virtual_mcp_server::IncomingAuthType,
};

use super::{
    config_map::{CONFIG_FILE, CONFIG_PATH},
    metadata::Owner,
    shutdown::Shutdown,
    volumes::SEAL_PATH,
};
use crate::Settings;

/// Port on which a server listens for its other replicas.
pub(super) const PEER_PORT: u16 = 4485;

/// Options that follow from the rest of the pod. A pod template cannot change them.
const OWNED: [&str; 10] = [
    "--config",
    "-c",
    "--host",
    "--port",
    "--env-dir",
    "--seal-key",
    "--peer-listen",
    "--peer-address",
    "--peer-service",
    "--virtual-mcp-server",
];

/// Options of which a command has each value, others only the last.
const REPEATABLE: [&str; 3] = ["--allow-host", "--allow-origin", "--telemetry-attribute"];

/// Returns the arguments of the server.
pub(super) fn arguments(
    owner: Owner<'_>,
    conversion: &Conversion,
    shutdown: Shutdown,
    settings: &Settings,
) -> Vec<String> {
    let Settings { listen, defaults, .. } = settings;
    let hosts = |service: &str| service_hosts(service, owner.namespace(), defaults);
    let [.., peers] = hosts(&peer_service_name(owner.name()));
    let mut arguments = vec![
        "serve".to_owned(),
        format!("--config={CONFIG_PATH}/{CONFIG_FILE}"),
        format!("--env-dir={SECRETS_PATH}"),
        format!("--seal-key={SEAL_PATH}"),
        format!("--host={listen}"),
        format!("--port={SERVER_PORT}"),
        format!("--peer-listen={}", SocketAddr::new(*listen, PEER_PORT)),
        format!("--peer-service={peers}"),
        format!("--virtual-mcp-server={}/{}", owner.namespace(), owner.name()),
        format!("--drain={}s", shutdown.drain),
    ];
    if owner.server.spec.incoming_auth.kind == IncomingAuthType::Anonymous {
        // The resource itself says that every caller is accepted.
        arguments.push("--allow-anonymous-network".to_owned());
    }
    let own = hosts(&service_name(owner.name()));
    let hosts = own.iter().chain(&conversion.hosts);
    arguments.extend(hosts.map(|host| format!("--allow-host={host}")));
    arguments
}

/// Adds the arguments of a pod template. Of an option that is not repeatable, that of the template remains.
///
/// # Errors
///
/// The index of an argument that is not an option of `vmcp serve`, or is one that the operator sets, with the reason.
pub(super) fn combine(
    generated: Vec<String>,
    added: &[String],
) -> Result<Vec<String>, (usize, String)> {
    let mut arguments = generated;
    let mut is_value = false;
    for (index, argument) in added.iter().enumerate() {
        if !argument.starts_with('-') {
            if !is_value {
                let message = format!(
                    "`{argument}` is not an option: these options are added to those of `vmcp serve`"
                );
                return Err((index, message));
            }
            is_value = false;
            continue;
        }
        let (option, value) = argument.split_once('=').unzip();
        let option = option.unwrap_or(argument);
        is_value = value.is_none();
        let is_short = !option.starts_with("--");
        if OWNED.contains(&option) || is_short && option.starts_with("-c") {
            return Err((index, format!("the operator sets {option}: remove it")));
        }
        if !REPEATABLE.contains(&option) {
            let prefix = format!("{option}=");
            arguments.retain(|one| one != option && !one.starts_with(&prefix));
        }
    }
    arguments.extend_from_slice(added);
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined(added: &[&str]) -> Result<Vec<String>, (usize, String)> {
        let strings =
            |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let generated = ["serve", "--config=c", "--drain=30s", "--allow-host=a"];
        combine(strings(&generated), &strings(added))
    }

    #[test]
    fn options_of_template_are_added_or_replace() {
        let all = combined(&["--allow-host=b", "--drain", "9s", "--log-format=text"]).unwrap();
        assert_eq!(
            all.join(" "),
            "serve --config=c --allow-host=a --allow-host=b --drain 9s --log-format=text"
        );
    }

    #[test]
    fn options_of_operator_are_refused() {
        for (index, added) in [
            (0, &["--config=x"][..]),
            (0, &["-cx"]),
            (0, &["serve", "--drain=1s"]),
            (2, &["--drain", "1s", "more"]),
            (1, &["--log-format=text", "--port", "1"]),
        ] {
            let (at, message) = combined(added).unwrap_err();
            assert_eq!(at, index, "{added:?}: {message}");
        }
    }
}
