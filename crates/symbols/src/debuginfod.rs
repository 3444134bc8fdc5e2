//! Debug information from the servers that the user names in `DEBUGINFOD_URLS`.
//!
//! Elfutils' client asks them: it knows their protocol, its variables and its cache, where a file stays, and where what no server has is not asked for again at once
//! (debuginfod-find(1), debuginfod-client-config(7)).

use std::collections::HashMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The client.
const CLIENT: &str = "debuginfod-find";
/// So long is waited for all files together.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether it is there.
const LOOK: Duration = Duration::from_millis(20);

/// What is told while files are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// The servers are asked for the debug information of this file.
    Asks(&'a Path),
    /// They do not have it, or cannot be reached.
    Nothing(&'a Path),
    /// They have not sent it in time.
    Late(&'a Path),
    /// There is no client.
    NoClient,
}

/// For people; names of files are as they are, control characters and all.
impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asks(path) => {
                write!(
                    f,
                    "asking the servers in DEBUGINFOD_URLS for the debug information of {}",
                    path.display()
                )
            }
            Self::Nothing(path) => {
                write!(f, "the servers in DEBUGINFOD_URLS have none for {}", path.display())
            }
            Self::Late(path) => write!(
                f,
                "the debug information of {} did not come in time, so its functions have the names of their symbols; run \
                 debuginfod-find debuginfo {0} once, and whatif again",
                path.display()
            ),
            Self::NoClient => f.write_str(
                "DEBUGINFOD_URLS is set, but there is no debuginfod-find to ask with; install it (package debuginfod or \
                 elfutils-debuginfod-client), or unset DEBUGINFOD_URLS",
            ),
        }
    }
}

struct Servers {
    may_have: fn(&Path) -> bool,
    tell: fn(Told<'_>),
    asked: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    /// What is known of builds that were asked for.
    known: HashMap<String, Option<PathBuf>>,
    waited: Duration,
}

static SERVERS: OnceLock<Servers> = OnceLock::new();

/// Servers may be asked from now on, if the user has named some, for files of which `may_have` is true; `tell` is called meanwhile. Without this, nothing is
/// downloaded.
pub fn allow(may_have: fn(&Path) -> bool, tell: fn(Told<'_>)) {
    if std::env::var_os("DEBUGINFOD_URLS").is_some_and(|urls| !urls.to_string_lossy().trim().is_empty()) {
        let _ = SERVERS.set(Servers { may_have, tell, asked: Mutex::default() });
    }
}

/// Whether servers may be asked.
#[must_use]
pub fn is_allowed() -> bool {
    SERVERS.get().is_some()
}

/// Asks for the debug information of a build, whose image is or was at `path`; where it is now, if the servers have it. Nothing without
/// [`allow`].
#[must_use]
pub fn fetch(build_id: &str, path: &Path) -> Option<PathBuf> {
    let servers = SERVERS.get().filter(|servers| (servers.may_have)(path))?;
    let mut asked = servers.asked.lock().unwrap_or_else(PoisonError::into_inner);
    let Asked { known, waited } = &mut *asked;
    let ask = || {
        let begin = Instant::now();
        let patience = PATIENCE.checked_sub(*waited)?;
        let found = ask(build_id, path, patience, servers.tell);
        *waited += begin.elapsed();
        found
    };
    known.entry(build_id.to_owned()).or_insert_with(ask).clone()
}

fn ask(build_id: &str, path: &Path, patience: Duration, tell: fn(Told<'_>)) -> Option<PathBuf> {
    let client = Command::new(CLIENT)
        .args(["debuginfo", build_id])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut client = match client {
        Ok(client) => client,
        Err(error) => {
            if error.kind() == ErrorKind::NotFound {
                tell(Told::NoClient);
            }
            return None;
        }
    };
    // What its cache has, or knows that no server has, it says at once.
    let is_there = ends_within(&mut client, 5 * LOOK) || {
        tell(Told::Asks(path));
        ends_within(&mut client, patience)
    };
    if !is_there {
        let _ = client.kill();
        let _ = client.wait();
        tell(Told::Late(path));
        return None;
    }
    let found = client.wait_with_output().ok().filter(|output| output.status.success());
    let found =
        found.and_then(|output| Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end())));
    if found.is_none() {
        tell(Told::Nothing(path));
    }
    found
}

/// Its output is a path, for which a pipe has room.
fn ends_within(client: &mut Child, time: Duration) -> bool {
    let until = Instant::now() + time;
    loop {
        match client.try_wait() {
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            Ok(ended) => return ended.is_some(),
            Err(_) => return true,
        }
    }
}
