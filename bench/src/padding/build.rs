//! Getting the sources of real programs, and compiling them with patchable entries; once, into the target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::catalogue::{Program, Source};

/// What everything is compiled with. (`-fcf-protection` would put an instruction before the no-ops.)
pub const FLAGS: &str = "-O2 -fpatchable-function-entry=5 -fcf-protection=none";

/// Where our side of the programs is: `pad.c`, the scripts, the drivers.
pub const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/padding");

/// The folder of everything, below the target folder.
pub fn folder() -> Result<PathBuf> {
    Ok(targets::build::folder()?.with_file_name("padding"))
}

/// The program, compiled; at once if nothing has changed since it was.
pub fn program(program: &Program) -> Result<PathBuf> {
    let folder = folder()?;
    let out = folder.join(program.name);
    let built = out.join("program");
    let recipe = recipe(program)?;
    let stamp = out.join("recipe");
    if built.is_file() && fs::read_to_string(&stamp).is_ok_and(|of| of == recipe) {
        return Ok(built);
    }
    eprintln!("building {} (once)", program.name);
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("removing {}", out.display()))?;
    }
    let source = out.join("source");
    fs::create_dir_all(&source).with_context(|| format!("making {}", source.display()))?;
    for one in program.sources {
        unpack(one, &folder, &source)?;
    }
    let pad = out.join("pad.o");
    compile_pad(&pad)?;
    let log = out.join("build.log");
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = Command::new("sh");
    command
        .args(["-c", &script(program)])
        .env("SOURCE", &source)
        .env("OUT", &out)
        .env("PAD", &pad)
        .env("HERE", HERE)
        .env("FLAGS", FLAGS)
        .env("JOBS", jobs.to_string())
        .env("CC", compiler("CC", "cc"))
        .env("CXX", compiler("CXX", "c++"))
        .stdin(Stdio::null())
        .stdout(fs::File::create(&log)?)
        .stderr(fs::OpenOptions::new().append(true).open(&log)?);
    ensure!(
        command.status().context("starting sh")?.success() && built.is_file(),
        "{} could not be built; the end of {} says why:\n{}",
        program.name,
        log.display(),
        end_of(&log)
    );
    // The sources and objects are many times the program.
    for rest in [&source, &out.join("objects")] {
        let _ = fs::remove_dir_all(rest);
    }
    fs::write(&stamp, recipe)?;
    Ok(built)
}

/// `pad.c` as an object to link with.
pub fn compile_pad(object: &Path) -> Result<()> {
    let mut command = Command::new(compiler("CC", "cc"));
    command
        .args(["-O2", "-g", "-Wall", "-Wextra", "-c", "-o"])
        .arg(object)
        .arg(Path::new(HERE).join("pad.c"));
    let status = command.status().context("there is no C compiler; install gcc, or name one in $CC")?;
    ensure!(status.success(), "{command:?} failed; it needs GCC (or name another compiler in $CC)");
    Ok(())
}

pub fn compiler(variable: &str, default: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| default.to_owned())
}

fn script(program: &Program) -> String {
    format!("{}\n{}", include_str!("../../padding/build.sh"), program.script)
}

/// Everything that decides what is built.
fn recipe(program: &Program) -> Result<String> {
    let mut recipe = format!("{FLAGS}\n{:?}\n{}\n", program.sources, script(program));
    let drivers = program.drivers.iter().copied();
    for name in drivers.chain(["pad.c"]) {
        let path = Path::new(HERE).join(name);
        recipe += &fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    }
    Ok(recipe)
}

/// Puts the sources into a folder of `into` that is called like their package.
fn unpack(source: &Source, folder: &Path, into: &Path) -> Result<()> {
    match source {
        Source::Debian(package) => {
            let archive = debian(package, &folder.join("debian"))?;
            let to = into.join(package);
            fs::create_dir_all(&to)?;
            let mut tar = Command::new("tar");
            tar.args(["--strip-components=1", "-xf"]).arg(&archive).arg("-C").arg(&to);
            ensure!(
                tar.status().context("starting tar")?.success(),
                "{tar:?} failed; run it by hand to see why"
            );
            Ok(())
        }
        Source::Crate { name, folder } => {
            let from = of_crate(name)?.join(folder);
            std::os::unix::fs::symlink(&from, into.join(name))
                .with_context(|| format!("linking to {}", from.display()))
        }
    }
}

/// Where cargo keeps the sources of a package that this workspace uses.
fn of_crate(name: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(["metadata", "--format-version=1", "--locked"]);
    let output = command.stderr(Stdio::null()).output().context("starting cargo")?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{command:?} failed; run it by hand to see why"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let manifest = packages
        .filter(|package| package["name"] == name)
        .find_map(|package| package["manifest_path"].as_str())
        .with_context(|| format!("this workspace does not use the crate {name} any more"))?;
    Ok(Path::new(manifest).with_file_name(""))
}

/// The upstream sources of a Debian package, as an archive; fetched if they are not there. Lists and archives of the machine's
/// own `apt` stay as they are.
fn debian(package: &str, folder: &Path) -> Result<PathBuf> {
    let sources = folder.join(package);
    if let Some(archive) = archive(&sources)? {
        return Ok(archive);
    }
    eprintln!("fetching the sources of {package} from Debian");
    for part in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(folder.join(part))?;
    }
    fs::create_dir_all(&sources)?;
    let list = folder.join("debian.list");
    fs::write(&list, format!("deb-src http://deb.debian.org/debian {} main\n", release()?))?;
    let apt = |arguments: &[&str]| -> Result<bool> {
        let mut command = Command::new("apt-get");
        for (option, value) in [
            ("Dir::Etc::SourceList", list.clone()),
            ("Dir::Etc::SourceParts", "/dev/null".into()),
            ("Dir::State::Lists", folder.join("lists")),
            ("Dir::Cache", folder.join("cache")),
        ] {
            command.arg("-o").arg(format!("{option}={}", value.display()));
        }
        command.args(["-qq", "-o", "APT::Sandbox::User="]).args(arguments).current_dir(&sources);
        Ok(command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .context("there is no apt-get")?
            .success())
    };
    ensure!(apt(&["update"])?, "apt-get cannot read Debian's list of sources; is there a network?");
    ensure!(
        apt(&["source", "--download-only", package])?,
        "Debian does not give the sources of {package}; measure other programs with --only"
    );
    archive(&sources)?.with_context(|| format!("there is no archive of upstream in {}", sources.display()))
}

/// The release of this machine, if it is Debian; any other is asked for the one that the scripts were written for.
fn release() -> Result<String> {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let is_debian = value("ID") == Some("debian");
    Ok(value("VERSION_CODENAME").filter(|_| is_debian).unwrap_or("bookworm").to_owned())
}

fn archive(folder: &Path) -> Result<Option<PathBuf>> {
    if !folder.is_dir() {
        return Ok(None);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.contains(".orig.tar.") && !name.ends_with(".asc") {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// The last lines of a log.
fn end_of(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

/// Whether a program can be built here at all, or why not.
pub fn possible() -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        bail!("entries are patched with instructions of x86-64, and this is another machine");
    }
    let version = Command::new(compiler("CC", "cc")).arg("--version").output();
    let version = version.context("there is no C compiler; install gcc, or name one in $CC")?;
    ensure!(
        !String::from_utf8_lossy(&version.stdout).contains("clang"),
        "clang writes other no-ops at patchable entries; name GCC in $CC"
    );
    Ok(())
}
