//! `examples/replicas`: its configuration is valid, and its script starts what the load balancer expects.

use std::path::PathBuf;
use std::process::Command;

use crate::program::{Folder, vmcp};

fn example(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/replicas").join(name)
}

/// Runs the script with programs that print their arguments, and returns what they print.
fn run_script(folder: &Folder, keys: &str) -> String {
    let program = folder.write("vmcp", "#!/bin/sh\necho vmcp \"$@\"\n");
    folder.write("redis-server", "#!/bin/sh\necho redis-server \"$@\"\ncat > /dev/null\n");
    folder.write("haproxy", "#!/bin/sh\necho haproxy \"$@\"\n");
    for name in ["vmcp", "redis-server", "haproxy"] {
        Command::new("chmod").args(["+x", &folder.path(name)]).status().unwrap();
    }
    let path = format!("{}:{}", folder.path(""), std::env::var("PATH").unwrap());
    let variables = [
        ("PATH", &*path),
        ("VMCP", &program),
        ("KEYS", keys),
        ("VMCP_SESSION_REDIS_PASSWORD", "x"),
    ];
    let script = Command::new("sh").arg(example("run.sh")).envs(variables).output().unwrap();
    assert!(script.status.success(), "{script:?}");
    String::from_utf8(script.stdout).unwrap()
}

#[test]
fn replicas_example_is_valid() {
    let folder = Folder::new();
    let keys = folder.path("keys");
    std::fs::create_dir(&keys).unwrap();
    folder.write("keys/2026-11", &"0f".repeat(32));
    let file = example("vmcp.yaml");
    let file = file.to_str().unwrap();
    let ended = vmcp(&["validate", "--config", file, "--seal-key", &keys]);
    assert_eq!((ended.code, &*ended.err), (0, ""), "{ended:?}");

    let printed = run_script(&folder, &keys);
    let proxy = std::fs::read_to_string(example("haproxy.cfg")).unwrap();
    let servers = proxy.lines().filter(|line| line.trim().starts_with("server ")).count();
    let replicas: Vec<_> = printed.lines().filter_map(|line| line.strip_prefix("vmcp ")).collect();
    assert_eq!((replicas.len(), servers), (3, 3), "{printed}");
    assert!(printed.contains("haproxy -f haproxy.cfg"), "{printed}");
    for replica in replicas {
        let mut arguments: Vec<_> = replica.split(' ').collect();
        let port = arguments.iter().position(|argument| *argument == "--port").unwrap() + 1;
        assert!(proxy.contains(&format!("127.0.0.1:{}\n", arguments[port])), "{replica}");
        // The help comes after all options are parsed.
        arguments.push("--help");
        let ended = vmcp(&arguments);
        assert_eq!((ended.code, &*ended.err), (0, ""), "{replica}");
    }
}
