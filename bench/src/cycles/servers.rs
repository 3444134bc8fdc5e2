//! Servers that other people wrote, as they are installed.

use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use tempfile::TempDir;

use super::clients;

/// What is answered with, as a file and by programs.
pub const TEXT: &str = "what if this code were faster?\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Redis,
    Memcached,
    Nginx,
    Postgres,
    Python,
    Java,
    Go,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Memcached => "memcached",
            Self::Nginx => "nginx",
            Self::Postgres => "postgres",
            Self::Python => "python",
            Self::Java => "java",
            Self::Go => "go",
        }
    }

    /// The programs that it takes.
    fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Redis => &["redis-server"],
            Self::Memcached => &["memcached"],
            Self::Nginx => &["nginx"],
            Self::Postgres => &["postgres", "initdb"],
            Self::Python => &["python3"],
            Self::Java => &["java"],
            Self::Go => &["go"],
        }
    }

    /// What it is attached to with: a place that each answer, or most of them, comes by.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            Self::Redis => &["-p", "fn:processCommand"],
            Self::Nginx => &["-p", "fn:ngx_http_handler"],
            Self::Postgres => &["-p", "fn:PortalRun"],
            Self::Java => &["--binary", "libnio.so", "-p", "fn:Java_sun_nio_ch_SocketDispatcher_write0"],
            Self::Go => &["-p", "fn:main.text"],
            // These have no names of their own for what answers.
            Self::Memcached => &["--binary", "libc.so.6", "-p", "fn:sendmsg"],
            Self::Python => &["--binary", "libc.so.6", "-p", "fn:send"],
        }
    }
}

/// One that runs, with all that it has started; it ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    child: Child,
    pub port: u16,
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts one, and waits until it answers; none, and why, where it is not installed.
    pub fn start(kind: Kind) -> Result<Result<Self, String>> {
        if let Some(missing) = kind.needs().iter().find(|name| which(name).is_none()) {
            return Ok(Err(format!("{missing} is not installed")));
        }
        let folder = tempfile::tempdir()?;
        // Servers take other users' rights.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), mode)?;
        let port = free_port()?;
        let mut command = command(kind, folder.path(), port)?;
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let mut server = Self { kind, child, port, _folder: folder };
        let begin = Instant::now();
        while let Err(error) = clients::ask(kind, port) {
            ensure!(server.runs(), "{command:?} has ended");
            ensure!(begin.elapsed() < Duration::from_secs(60), "{command:?} does not answer: {error:#}");
            sleep(Duration::from_millis(50));
        }
        Ok(Ok(server))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|exit| exit.is_none())
    }

    /// The CPU time that its processes have used, in nanoseconds; not known where they come and go with clients.
    pub fn cpu_time(&self) -> Option<u64> {
        let threads =
            |pid: u32| std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let of_thread = |thread: std::fs::DirEntry| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        let all = self.processes().into_iter().flat_map(threads).filter_map(of_thread);
        (self.kind != Kind::Postgres).then(|| all.sum())
    }

    /// Its processes, and those that it keeps; not those that it starts for a client.
    pub fn processes(&self) -> Vec<u32> {
        let mut found = vec![self.pid()];
        if self.kind == Kind::Nginx {
            let list = format!("/proc/{0}/task/{0}/children", self.pid());
            let list = std::fs::read_to_string(list).unwrap_or_default();
            found.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        found
    }
}

/// Where a program is.
fn which(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    folders.extend(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    folders.extend(versions.map(|version| version.path().join("bin")));
    folders.into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn program(name: &str) -> Result<Command> {
    which(name).map(Command::new).with_context(|| format!("{name} is not installed"))
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn command(kind: Kind, folder: &Path, port: u16) -> Result<Command> {
    let port = port.to_string();
    let mut command = program(kind.needs()[0])?;
    match kind {
        Kind::Redis => {
            command.args(["--port", &port, "--save", "", "--appendonly", "no"]).arg("--dir").arg(folder);
        }
        Kind::Memcached => {
            command.args(["-l", "127.0.0.1", "-U", "0", "-u", "nobody", "-p", &port]);
        }
        Kind::Nginx => nginx(&mut command, folder, &port)?,
        Kind::Postgres => postgres(&mut command, folder, &port)?,
        Kind::Python => {
            let script = folder.join("server.py");
            std::fs::write(&script, PYTHON)?;
            command.arg(script).args([&port, TEXT]);
        }
        Kind::Go => {
            go(folder)?;
            command = Command::new(folder.join("server"));
            command.args([&port, TEXT]);
        }
        Kind::Java => {
            let source = folder.join("Server.java");
            std::fs::write(&source, JAVA)?;
            command.arg("-Dsun.net.httpserver.nodelay=true").arg(source).args([&port, TEXT]);
        }
    }
    Ok(command)
}

fn nginx(command: &mut Command, folder: &Path, port: &str) -> Result<()> {
    std::fs::write(folder.join("text"), TEXT)?;
    let shown = folder.display();
    let configuration = format!(
        "daemon off;\nworker_processes 2;\npid {shown}/pid;\nerror_log /dev/null;\nevents {{}}\n\
         http {{\n  access_log off;\n  keepalive_requests 1000000;\n  client_body_temp_path {shown}/body;\n\
         \x20 proxy_temp_path {shown}/proxy;\n  fastcgi_temp_path {shown}/fastcgi;\n\
         \x20 uwsgi_temp_path {shown}/uwsgi;\n  scgi_temp_path {shown}/scgi;\n\
         \x20 server {{\n    listen 127.0.0.1:{port};\n    root {shown};\n  }}\n}}\n"
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, configuration)?;
    command.arg("-c").arg(file).arg("-p").arg(folder);
    Ok(())
}

/// Builds a program without a C library.
fn go(folder: &Path) -> Result<()> {
    std::fs::write(folder.join("server.go"), GO)?;
    let mut builds = program("go")?;
    builds.args(["build", "-o", "server", "server.go"]).current_dir(folder);
    builds.env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod").stdin(Stdio::null());
    ensure!(builds.status()?.success(), "{builds:?} failed");
    Ok(())
}

/// It does not run as root: then it is another user's.
fn postgres(command: &mut Command, folder: &Path, port: &str) -> Result<()> {
    const NOBODY: u32 = 65534;
    let data = folder.join("data");
    std::fs::create_dir(&data)?;
    let mut creates = program("initdb")?;
    creates.args(["-A", "trust", "-U", "postgres", "-N", "-D"]).arg(&data);
    creates.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&data, Some(NOBODY), Some(NOBODY))?;
        std::os::unix::fs::chown(folder, Some(NOBODY), Some(NOBODY))?;
        for one in [&mut creates, &mut *command] {
            one.uid(NOBODY).gid(NOBODY);
        }
    }
    ensure!(creates.status()?.success(), "{creates:?} failed");
    command.arg("-D").arg(&data).args(["-F", "-h", "127.0.0.1", "-p", port, "-k"]).arg(folder);
    Ok(())
}

/// Threads that answer each request, as many as there are connections.
const PYTHON: &str = r#"
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self):
        body = sys.argv[2].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

/// A pool of threads.
const JAVA: &str = r#"
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

public class Server {
    public static void main(String[] arguments) throws Exception {
        byte[] body = arguments[1].getBytes();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 64);
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
    }
}
"#;

/// A goroutine for each connection.
const GO: &str = r#"
package main

import (
	"io"
	"log"
	"net/http"
	"os"
)

//go:noinline
func text(writer http.ResponseWriter, request *http.Request) {
	io.WriteString(writer, os.Args[2])
}

func main() {
	http.HandleFunc("/", text)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
"#;
