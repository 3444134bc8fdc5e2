//! Servers for tests, on free ports of this machine.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take to begin, on a machine that is as busy as can be.
const PATIENCE: Duration = Duration::from_secs(200);

/// The cluster of all nodes.
pub const CLUSTER: &str = "everything";

/// A server.
pub struct Node {
    program: PathBuf,
    folder: PathBuf,
    http: u16,
    child: Child,
}

/// Servers that know each other, and their folder.
pub struct Nodes {
    pub nodes: Vec<Node>,
    _folder: tempfile::TempDir,
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/bin".into()]);
    folders.map(|folder| folder.join("clickhouse-server")).find(|path| path.is_file())
}

impl Nodes {
    /// So many servers; none where the package is not installed.
    pub fn start(count: usize) -> Option<Nodes> {
        let Some(program) = program() else {
            eprintln!("skipped: there is no clickhouse-server here; apt-get install clickhouse-server");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let ports: Vec<u16> = (0..3 * count).map(|_| free_port()).collect();
        let mut shards = String::new();
        for of_node in ports.chunks(3) {
            let port = of_node[1];
            write!(shards, "<shard><replica><host>127.0.0.1</host><port>{port}</port></replica></shard>")
                .unwrap();
        }
        let nodes = ports.chunks(3).enumerate().map(|(nth, of_node)| {
            let folder = folder.path().join(nth.to_string());
            configure(&folder, of_node, &shards);
            let child = spawn(&program, &folder);
            Node { program: program.clone(), folder, http: of_node[0], child }
        });
        let mut nodes = Nodes { nodes: nodes.collect(), _folder: folder };
        nodes.nodes.iter_mut().for_each(Node::wait);
        Some(nodes)
    }

    /// Their addresses.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Node::url).collect()
    }
}

/// A port of this machine that is free, and that no other test asks for: the kernel gives none of these to those that want any.
fn free_port() -> u16 {
    const FIRST_PORT: u32 = 10_000;
    const COUNT_OF_PORTS: u32 = 20_000;
    static ASKED_FOR: AtomicU32 = AtomicU32::new(0);
    loop {
        let nth = (std::process::id() % COUNT_OF_PORTS) * 97 + ASKED_FOR.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST_PORT + nth % COUNT_OF_PORTS).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn configure(folder: &Path, ports: &[u16], shards: &str) {
    std::fs::create_dir_all(folder).unwrap();
    let at = folder.display();
    let config = format!(
        "<yandex><logger><level>warning</level><log>{at}/log</log><errorlog>{at}/errors</errorlog></logger>\
         <http_port>{}</http_port><tcp_port>{}</tcp_port><interserver_http_port>{}</interserver_http_port>\
         <listen_host>127.0.0.1</listen_host><path>{at}/data/</path><tmp_path>{at}/tmp/</tmp_path>\
         <users_config>users.xml</users_config><default_profile>default</default_profile>\
         <default_database>default</default_database><mark_cache_size>67108864</mark_cache_size>\
         <timezone>Asia/Kolkata</timezone><mlock_executable>false</mlock_executable>\
         <remote_servers><{CLUSTER}>{shards}</{CLUSTER}></remote_servers></yandex>",
        ports[0], ports[1], ports[2]
    );
    let networks = "<networks><ip>127.0.0.1</ip></networks><quota>default</quota>";
    let databases =
        "<allow_databases><database>whatif</database><database>system</database></allow_databases>";
    let users = format!(
        "<yandex><profiles><default/><reader><readonly>1</readonly></reader>\
         <lenient><skip_unavailable_shards>1</skip_unavailable_shards></lenient>\
         <part><readonly>1</readonly><skip_unavailable_shards>1</skip_unavailable_shards></part></profiles><quotas><default/></quotas><users>\
         <default><password/>{networks}<profile>default</profile></default>\
         <lenient><password/>{networks}<profile>lenient</profile></lenient><part><password/>{networks}<profile>part</profile></part>\
         <reader><password>to read</password>{networks}<profile>reader</profile>{databases}</reader>\
         <writer><password>to write</password>{networks}<profile>default</profile>{databases}</writer></users></yandex>"
    );
    std::fs::write(folder.join("config.xml"), config).unwrap();
    std::fs::write(folder.join("users.xml"), users).unwrap();
}

fn spawn(program: &Path, folder: &Path) -> Child {
    Command::new(program)
        .arg("--config-file=config.xml")
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

impl Node {
    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.http)
    }

    /// Sends a request as it is, and returns the beginning of the answer. Nothing is sent after `body`.
    pub fn request(&self, head: &str, body: &[u8]) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.http))?;
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Has it do something, and returns its whole answer.
    pub fn ask(&self, statement: &str) -> String {
        let length = statement.len();
        let head =
            format!("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        let answer = self.request(&head, statement.as_bytes()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{statement}: {answer}");
        answer
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait(&mut self) {
        let begin = Instant::now();
        let head = "GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        while !self.request(head, b"").is_ok_and(|answer| answer.contains("Ok.")) {
            if let Some(status) = self.child.try_wait().unwrap() {
                let errors = std::fs::read_to_string(self.folder.join("errors")).unwrap_or_default();
                panic!("clickhouse-server ended with {status}: {errors}");
            }
            assert!(begin.elapsed() < PATIENCE, "clickhouse-server does not answer for {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills it as a power failure would (SIGKILL).
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, and waits until it answers.
    pub fn start_again(&mut self) {
        self.child = spawn(&self.program, &self.folder);
        self.wait();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
