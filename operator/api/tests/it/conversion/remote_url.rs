//! URLs of entries.

use vmcp_api::conversion::check_remote_url;

/// Returns whether a host is permitted without and with `allowPrivateEndpoint`.
fn permitted(host: &str) -> (bool, bool) {
    let url = format!("https://{host}:8443/mcp");
    (check_remote_url(&url, false).is_ok(), check_remote_url(&url, true).is_ok())
}

#[test]
fn own_machine_and_metadata_are_forbidden() {
    for host in [
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "127.9.9.9",
        "0x7f.1",
        "2130706433",
        "169.254.169.254",
        "100.100.100.200",
        "224.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[fe80::1]",
        "[ff02::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local.",
        "metadata.google.internal",
    ] {
        assert_eq!(permitted(host), (false, false), "{host}");
    }
}

#[test]
fn private_hosts_need_permission() {
    for host in [
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "100.127.255.255",
        "[fc00::1]",
        "[fd00:ec1::1]",
        "[::ffff:10.0.0.1]",
        "a.tools.svc.cluster.local",
        "a.tools.svc",
    ] {
        assert_eq!(permitted(host), (false, true), "{host}");
    }
}

#[test]
fn public_hosts_are_permitted() {
    for host in [
        "a.example.com",
        "8.8.8.8",
        "172.32.0.1",
        "100.128.0.1",
        "223.255.255.255",
        "[2606:4700::1111]",
        "notlocalhost",
        "cluster.local.example.com",
    ] {
        assert_eq!(permitted(host), (true, true), "{host}");
    }
}

#[test]
fn other_urls_are_refused() {
    for url in
        ["", "a", "ftp://a.example", "https://", "https://u@a.example", "https://u:p@a.example"]
    {
        let message = check_remote_url(url, true).expect_err(url);
        assert!(!message.contains("p@"), "{message}");
    }
}
