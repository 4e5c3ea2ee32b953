//! Runs the built program.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Time limit for a line of output.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(20);

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A program that is running; it is killed with this.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

/// A folder of one test's files; it is removed with this.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

/// A program that knows nothing of its caller's environment but what it needs.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmcp"));
    command.args(arguments).env_remove("VMCP_CONFIG").stdin(Stdio::null());
    command
}

/// Tests `is_noticed` while the default address for administrators is taken: by this, or by a server of another test. That
/// may end at any moment, and then it is tried again.
pub(crate) fn while_default_is_taken(is_noticed: impl Fn() -> bool) {
    for _ in 0..50 {
        let held = TcpListener::bind("127.0.0.1:4484");
        if is_noticed() {
            return;
        }
        assert!(held.is_err(), "the taken address is not noticed");
    }
    panic!("the address is never taken for long");
}

/// Runs a command to its end.
pub(crate) fn vmcp(arguments: &[&str]) -> CommandOutput {
    vmcp_with(arguments, &[])
}

/// As [`vmcp`], in a folder.
pub(crate) fn vmcp_in(folder: &str, arguments: &[&str]) -> CommandOutput {
    let mut command = command(arguments);
    command.current_dir(folder);
    ended(command)
}

/// As [`vmcp`], with variables of the environment.
pub(crate) fn vmcp_with(arguments: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let mut command = command(arguments);
    command.envs(variables.iter().copied());
    ended(command)
}

fn ended(mut command: Command) -> CommandOutput {
    let output = command.output().unwrap();
    CommandOutput {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl ServerProcess {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::spawn(command(arguments))
    }

    /// As [`ServerProcess::start`], behind commands of a shell that change what the process may use.
    pub(crate) fn limited(commands: &str, arguments: &[&str]) -> Self {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("{commands}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_vmcp")]);
        shell.args(arguments).env_remove("VMCP_CONFIG").stdin(Stdio::null());
        Self::spawn(shell)
    }

    /// As [`ServerProcess::limited`], for a server. The port comes along.
    pub(crate) fn serve_limited(commands: &str, arguments: &[&str]) -> (Self, u16) {
        let server = Self::limited(commands, arguments);
        let line = server.logs("listening on http://");
        (server, port(&line))
    }

    /// The process's number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = lines(child.stdout.take().unwrap());
        let err = lines(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    /// Serves a configuration on a port that the system chooses. The port comes along.
    pub(crate) fn serve(config: &str, arguments: &[&str]) -> (Self, u16) {
        Self::serve_with(config, arguments, &[])
    }

    /// As [`ServerProcess::serve`], with variables of the environment.
    pub(crate) fn serve_with(
        config: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> (Self, u16) {
        let fixed = ["serve", "--port", "0", "--config", config];
        let mut command = command(&[&fixed[..], arguments].concat());
        command.envs(variables.iter().copied());
        let server = Self::spawn(command);
        let line = server.logs("listening on http://");
        (server, port(&line))
    }

    /// Runs the demo, and returns it with its port and its output.
    #[cfg(feature = "demo")]
    pub(crate) fn demo() -> (Self, u16, String) {
        let demo = Self::start(&["demo", "--port", "0"]);
        let mut printed = String::new();
        while !printed.contains("Ctrl-C") {
            printed += &demo.out.recv_timeout(OUTPUT_TIMEOUT).expect("the demo says no more");
            printed.push('\n');
        }
        (demo, port(&printed), printed)
    }

    /// The next line of the log that has `part` in it.
    pub(crate) fn logs(&self, part: &str) -> String {
        let mut seen = String::new();
        loop {
            match self.err.recv_timeout(OUTPUT_TIMEOUT) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => seen += &(line + "\n"),
                Err(error) => panic!("{error} while waiting for {part:?} after:\n{seen}"),
            }
        }
    }

    /// Sends a signal, such as `HUP`.
    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
    }

    /// Asks the program to end and gives its exit code and what it still logged.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        self.signal("TERM");
        let code = self.child.wait().unwrap().code();
        (code, self.err.iter().collect::<Vec<_>>().join("\n"))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// The port of the first URL of this machine.
fn port(text: &str) -> u16 {
    let (_, rest) = text
        .split_once("http://127.0.0.1:")
        .or_else(|| text.split_once("http://0.0.0.0:"))
        .expect(text);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap();
    rest[..end].parse().unwrap()
}

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("vmcp-cli-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).into_os_string().into_string().unwrap()
    }

    /// Writes a file and gives its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        // In one step, as editors and mounted ConfigMaps do it.
        let aside = self.path("aside");
        std::fs::write(&aside, text).unwrap();
        // Some are secrets.
        std::fs::set_permissions(&aside, Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(aside, &path).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}
