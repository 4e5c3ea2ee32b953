use std::os::unix::fs::PermissionsExt;

use crate::program::{Folder, vmcp, vmcp_with};

#[test]
fn initial_file_is_valid_and_names_schema() {
    let printed = vmcp(&["init", "--name", "it's \"mine\": #1"]);
    assert_eq!(printed.code, 0);
    assert!(printed.out.starts_with("# yaml-language-server: $schema="));
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", &printed.out);
    let validated = vmcp(&["validate", "-c", &file]);
    assert_eq!(validated.code, 0, "{validated:?}");
    assert!(validated.out.contains("it's \"mine\": #1"), "{validated:?}");
}

#[test]
fn commented_settings_of_initial_file_are_valid() {
    let printed = vmcp(&["init"]).out;
    let uncommented: Vec<String> = printed
        .lines()
        .map(|line| {
            let indent = line.len() - line.trim_start().len();
            let rest = &line[indent..];
            // Prose begins with a capital or the name of something.
            match rest.strip_prefix("# ") {
                Some(code) if indent > 0 && !code.starts_with("streamable") => {
                    format!("{}{code}", &line[..indent])
                }
                _ => line.to_owned(),
            }
        })
        .filter(|line| !line.contains("priorityOrder") && !line.contains("caBundlePath"))
        .collect();
    let folder = Folder::new();
    let validated = vmcp(&["validate", "-c", &folder.write("all.yaml", &uncommented.join("\n"))]);
    assert_eq!((validated.code, &*validated.err), (0, ""), "{uncommented:#?}");
}

#[test]
fn creates_private_file_and_overwrites_only_on_request() {
    let folder = Folder::new();
    let file = folder.path("vmcp.yaml");
    let written = vmcp(&["init", "--output", &file]);
    assert_eq!((written.code, &*written.out), (0, ""), "{written:?}");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::write(&file, "mine").unwrap();
    let refused = vmcp(&["init", "--output", &file]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("exists: overwrite it with --force"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(vmcp(&["init", "--output", &file, "--force"]).code, 0);
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("# yaml"));
    let around = std::fs::read_dir(folder.path("")).unwrap().count();
    assert_eq!(around, 1, "nothing is left beside it");
    let nowhere = vmcp(&["init", "--output", &folder.path("no/vmcp.yaml")]);
    assert_eq!(nowhere.code, 1);
    assert!(nowhere.err.starts_with("cannot write "), "{nowhere:?}");
}

#[test]
fn imports_servers_without_their_secrets() {
    let folder = Folder::new();
    let claude = folder.write(
        "claude.json",
        r#"{"mcpServers": {
            "Docs": {"type": "http", "url": "https://docs.example.com/mcp"},
            "old": {"type": "sse", "url": "https://old.example.com/sse"},
            "key": {"type": "http", "url": "https://a.test/mcp", "headers": {"X-Key": "hunter2", "X-Org": "a"}},
            "files": {"command": "npx", "args": ["-y", "x"], "env": {"TOKEN": "hunter2"}}
        }}"#,
    );
    let code = folder.write(
        "code.json",
        r#"{
            // as an editor leaves it
            "inputs": [{"id": "token", "type": "promptString"}],
            "servers": {"files": {"type": "stdio", "command": "npx",
                                  "env": {"TOKEN": "${input:token}"}},},
        }"#,
    );
    for (from, backends, says) in [
        (
            &claude,
            "4",
            "4 of 4 servers taken over; start 1 with the command in the comments; then set MCP_KEY_X_KEY; then check",
        ),
        (&code, "1", "1 of 1 servers taken over; start 1"),
    ] {
        let imported = folder.path("imported.yaml");
        let ended = vmcp(&["init", "--from", from, "--output", &imported, "--force"]);
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.err.contains(says), "{ended:?}");
        let text = std::fs::read_to_string(&imported).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("create_proxy"), "{text}");
        let validated = vmcp_with(
            &["validate", "-c", &imported, "-o", "json"],
            &[("MCP_KEY_X_KEY", "hunter2")],
        );
        assert_eq!(validated.code, 0, "{validated:?}");
        let json: serde_json::Value = serde_json::from_str(&validated.out).unwrap();
        assert_eq!(json["summary"]["backends"], backends);
    }
}

#[test]
fn prints_server_for_bridge() {
    let folder = Folder::new();
    folder.write("more.env", "# comment\nexport A=\"from file\"\nTOKEN=over\n");
    let file = folder.write(
        "mcp.json",
        r#"{"servers": {"My Files": {"command": "npx", "args": ["${workspaceFolder}"], "envFile": "${workspaceFolder}/more.env",
            "env": {"TOKEN": "${input:my-token}"}}}}"#,
    );
    let command = ["init", "--from", file.as_str(), "--server", "my-files"];
    let printed = vmcp_with(&command, &[("MY_TOKEN", "hunter2")]);
    let json: serde_json::Value = serde_json::from_str(&printed.out).unwrap();
    assert_eq!(json["env"], serde_json::json!({"A": "from file", "TOKEN": "hunter2"}));
    assert_eq!(json["command"], "npx");
    let unset = vmcp(&command);
    assert_eq!((unset.code, &*unset.out), (1, ""));
    assert!(
        unset.err.contains("my-files: the environment variable MY_TOKEN is not set"),
        "{unset:?}"
    );
    let unknown = vmcp(&["init", "--from", &file, "--server", "files"]);
    assert!(unknown.err.contains("has no server files: choose one of my-files"), "{unknown:?}");
}

#[test]
fn rejects_files_without_servers() {
    let folder = Folder::new();
    for (text, says) in [
        ("servers:", "not JSON"),
        ("{\"projects\": {}}", "no servers in mcpServers, servers, mcp.servers"),
    ] {
        let ended = vmcp(&["init", "--from", &folder.write("x.json", text)]);
        assert_eq!((ended.code, &*ended.out), (1, ""));
        assert!(ended.err.contains(says), "{ended:?}");
    }
    let missing = vmcp(&["init", "--from", &folder.path("missing.json")]);
    assert_eq!(missing.code, 1);
    assert!(missing.err.starts_with("failed to read "), "{missing:?}");
}
