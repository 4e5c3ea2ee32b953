//! Configuration files of real clients, imported by `vmcp init --from`: a tool of each server is called in both generations.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use vmcp_tests::counterparts::{Backend, Client, Era, ImportedFile, Plan, npm, python, skipped};

/// Programs in the files.
struct Programs {
    python: String,
    node: String,
    memory: String,
}

impl Programs {
    async fn find() -> Self {
        let npm = npm().await.unwrap();
        let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
        Self {
            python: text(python().await.unwrap().interpreter()),
            node: text(npm.node24()),
            memory: text(npm.module("@modelcontextprotocol/server-memory/dist/index.js")),
        }
    }

    fn time(&self) -> Value {
        json!({"command": self.python, "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"]})
    }

    fn memory(&self) -> Value {
        json!({"command": self.node, "args": [self.memory]})
    }
}

const TIME: (&str, &str, &str) = ("get_current_time", "{\"timezone\": \"UTC\"}", "\"UTC\"");
const MEMORY: (&str, &str, &str) = ("read_graph", "{}", "entities");
const ECHO: (&str, &str, &str) = ("echo", "{\"message\": \"hello\"}", "Echo: hello");

/// Imports the file, then calls a tool of each backend with its arguments and looks for the text in the result.
async fn call_each(
    name: &str,
    text: &str,
    variables: &[(&str, &str)],
    tools: &[(&str, (&str, &str, &str))],
) -> ImportedFile {
    let imported = ImportedFile::start(name, text, variables).await.unwrap();
    for (backend, (tool, arguments, words)) in tools {
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        for era in [Era::Legacy, Era::Modern] {
            let plan = Plan {
                tool: Some(format!("{backend}_{tool}")),
                arguments: arguments.as_object().cloned().unwrap(),
                ..Plan::default()
            };
            let called = async {
                // The gateway lists a backend's tools after its first response.
                loop {
                    let run = Client::PythonMcp.run(imported.gateway.url(), era, &plan).await;
                    match run {
                        Ok(seen) if seen.tools.contains(plan.tool.as_ref().unwrap()) => {
                            return seen;
                        }
                        _ => tokio::time::sleep(Duration::from_millis(200)).await,
                    }
                }
            };
            let seen = timeout(Duration::from_mins(1), called).await.unwrap_or_else(|_| {
                panic!("{name}: {backend} in {era:?}:\n{}", imported.gateway.log())
            });
            assert!(!seen.failed, "{name}: {backend} in {era:?}: {seen:?}");
            assert!(seen.call.as_ref().unwrap().contains(words), "{name}, {era:?}: {seen:?}");
        }
    }
    imported
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_file_of_claude_desktop() {
    if skipped() {
        return;
    }
    let programs = Programs::find().await;
    let file = json!({
        "globalShortcut": "",
        "mcpServers": {"time": programs.time(), "memory": programs.memory()},
    });
    let tools = [("time", TIME), ("memory", MEMORY)];
    let imported = call_each("claude_desktop_config.json", &file.to_string(), &[], &tools).await;
    assert_eq!(imported.bridges(), 2);
    assert!(imported.message.contains("2 of 2 servers taken over"), "{}", imported.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_file_of_claude_code_with_projects() {
    if skipped() {
        return;
    }
    let programs = Programs::find().await;
    let everything = Backend::everything_http().await.unwrap();
    let file = json!({
        "numStartups": 7,
        "mcpServers": {},
        "projects": {
            "/home/me/app": {
                "allowedTools": [],
                "history": [{"display": "hello"}],
                "mcpServers": {
                    "everything": {"type": "http", "url": "${EVERYTHING_URL:-http://127.0.0.1:1}/mcp"},
                    "time": programs.time(),
                },
            },
            "/home/me/other": {
                "mcpServers": {"time": programs.time(), "gone": {"command": "x"}},
                "disabledMcpServers": ["gone"],
            },
        },
    });
    let base = everything.url().trim_end_matches("/mcp").to_owned();
    let tools = [("everything", ECHO), ("time", TIME)];
    let variables = [("EVERYTHING_URL", base.as_str())];
    let imported = call_each(".claude.json", &file.to_string(), &variables, &tools).await;
    assert!(imported.configuration.contains("# gone of /home/me/other: disabled"));
    assert!(imported.message.contains("2 of 3 servers taken over"), "{}", imported.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_file_of_cursor() {
    if skipped() {
        return;
    }
    let programs = Programs::find().await;
    let everything = Backend::everything_http().await.unwrap();
    let mut time = programs.time();
    time["command"] = "${env:PYTHON_OF_TIME}".into();
    let file = json!({"mcpServers": {
        "everything": {"url": everything.url(), "headers": {"Authorization": "Bearer ${env:EVERYTHING_TOKEN}"}},
        "time": time,
    }});
    let variables = [("PYTHON_OF_TIME", programs.python.as_str()), ("EVERYTHING_TOKEN", "hunter2")];
    let tools = [("everything", ECHO), ("time", TIME)];
    call_each(".cursor/mcp.json", &file.to_string(), &variables, &tools).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_file_of_vscode_with_inputs_and_comments() {
    if skipped() {
        return;
    }
    let programs = Programs::find().await;
    let everything = Backend::everything_http().await.unwrap();
    let text = format!(
        r#"{{
  // In the format of an editor.
  "inputs": [
    {{"type": "promptString", "id": "api-key", "description": "API key", "password": true}},
  ],
  "servers": {{
    "everything": {{
      "type": "http",
      "url": "{}", /* local */
      "headers": {{"X-Api-Key": "${{input:api-key}}", "X-Org": "acme"}},
    }},
    "memory": {{
      "type": "stdio",
      "command": "{}",
      "args": ["{}"],
      "env": {{"MEMORY_FILE_PATH": "${{workspaceFolder}}/memory.json"}},
      "dev": {{"watch": "**"}},
    }},
  }},
}}"#,
        everything.url(),
        programs.node,
        programs.memory
    );
    let variables = [("API_KEY", "hunter2"), ("MCP_EVERYTHING_X_ORG", "acme")];
    let tools = [("everything", ECHO), ("memory", MEMORY)];
    let imported = call_each(".vscode/mcp.json", &text, &variables, &tools).await;
    assert!(imported.configuration.contains("- API_KEY # API key"), "{}", imported.configuration);
    assert!(imported.configuration.contains("not taken over: dev"), "{}", imported.configuration);
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_file_of_windsurf() {
    if skipped() {
        return;
    }
    let programs = Programs::find().await;
    let everything = Backend::everything_sse().await.unwrap();
    let file = json!({"mcpServers": {
        "old everything": {"serverUrl": everything.url()},
        "time": programs.time(),
        "off": {"command": "x", "disabled": true},
    }});
    let tools = [("old-everything", ECHO), ("time", TIME)];
    let imported = call_each("mcp_config.json", &file.to_string(), &[], &tools).await;
    assert!(imported.configuration.contains("transport: sse"), "{}", imported.configuration);
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_file_of_codex() {
    if skipped() {
        return;
    }
    let programs = Programs::find().await;
    let everything = Backend::everything_http().await.unwrap();
    let text = format!(
        "model = \"x\"\n\n[mcp_servers.everything]\nurl = \"{}\"\nbearer_token_env_var = \"EVERYTHING_TOKEN\"\n\
         enabled_tools = [\"echo\"]\n\n[mcp_servers.time]\ncommand = \"{}\"\n\
         args = [\"-m\", \"mcp_server_time\", \"--local-timezone\", \"UTC\"]\nstartup_timeout_sec = 20\n\n\
         [mcp_servers.time.env]\nLANG = \"C\"\n",
        everything.url(),
        programs.python
    );
    let variables = [("EVERYTHING_TOKEN", "hunter2")];
    let tools = [("everything", ECHO), ("time", TIME)];
    let imported = call_each("config.toml", &text, &variables, &tools).await;
    assert!(imported.configuration.contains("filter: [\"echo\"]"), "{}", imported.configuration);
}
