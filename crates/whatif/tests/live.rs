//! `whatif run --live`: what the page is told while the program runs.

use crate::support::{HANG, Sandbox, program};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

/// A program that is being profiled with a page.
struct Running {
    child: Child,
    /// `127.0.0.1:PORT`, and what has to stand behind a path.
    host: String,
    query: String,
    sandbox: Sandbox,
}

impl Running {
    fn start(options: &[&str], arguments: &[&str]) -> Option<Self> {
        let live = program("live.c")?;
        let sandbox = Sandbox::new();
        let mut command = sandbox.whatif();
        command.args(["run", "--live", "--no-browser", "-o"]).arg(sandbox.recording()).args(options);
        command.arg("--").arg(live).args(arguments).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .find_map(|line| Some(line.unwrap().split_once("http://")?.1.to_owned()))
            .expect("the address is printed");
        // The rest must be read, or whatif could not write it.
        std::thread::spawn(move || lines.for_each(drop));
        let (host, query) = address.split_once("/?").unwrap();
        Some(Self { child, host: host.to_owned(), query: query.to_owned(), sandbox })
    }

    fn ask(&self, method: &str, path: &str, query: &str, host: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let request = format!(
            "{method} {path}?{query} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        BufReader::new(stream)
    }

    /// The status of an answer, and what it says.
    fn get(&self, method: &str, path: &str, more: &str) -> (u16, String) {
        read(self.ask(method, path, &format!("{}{more}", self.query), &self.host))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(mut answer: BufReader<TcpStream>) -> (u16, String) {
    let mut text = String::new();
    answer.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The next event with data.
fn event(events: &mut BufReader<TcpStream>) -> serde_json::Value {
    loop {
        let mut line = String::new();
        assert!(events.read_line(&mut line).unwrap() > 0, "the stream has ended");
        if let Some(data) = line.strip_prefix("data: ") {
            return serde_json::from_str(data).unwrap();
        }
    }
}

#[test]
fn the_page_is_told_what_is_known_until_the_end() {
    // It ends as soon as a region was pinned and a report was told after that.
    let Some(mut running) = Running::start(&[], &["10000", "enough"]) else { return };
    let (status, page) = running.get("GET", "/", "");
    assert!(status == 200 && page.contains("whatif-data"));
    let (status, data) = running.get("GET", "/data.json", "");
    assert_eq!(status, 200, "{data}");
    let first: serde_json::Value = serde_json::from_str(&data).unwrap();
    assert!(first["baselines"].is_array() && first["regions"].is_array(), "{first:#}");

    let mut events = running.ask("GET", "/events", &running.query, &running.host);
    events.get_ref().set_read_timeout(Some(HANG)).unwrap();
    let (mut reports, mut told, mut is_pinned) = (Vec::new(), Vec::new(), false);
    loop {
        let event = event(&mut events);
        if event["ended"] == true {
            break;
        }
        if let Some(name) = event.get("pinned") {
            told.push(name.clone());
            continue;
        }
        reports.push(event);
        if is_pinned {
            std::fs::write(running.sandbox.path("enough"), "").unwrap();
        } else if running.get("POST", "/pin", "&region=seldom").0 == 200 {
            // As soon as it has been seen.
            is_pinned = true;
            assert_eq!(running.get("POST", "/pin", "&region=").0, 200, "it can be let go");
            assert_eq!(running.get("POST", "/pin", "&region=seldom").0, 200);
        }
    }
    // Pages are told what is pinned, though not of what was for a moment only.
    assert!(told.first().is_some_and(|first| first.is_null()), "{told:?}");
    assert_eq!(told.last().unwrap(), "seldom");
    assert!(is_pinned, "the region was never seen: {reports:#?}");
    assert!(reports.iter().all(|report| report["regions"].is_array()), "{reports:#?}");
    assert_eq!(running.get("POST", "/pin", "&region=often").0, 409, "the program has ended");

    // It stays until the user has seen enough, and ends as the program has.
    assert_eq!(running.get("GET", "/data.json", "").0, 200);
    assert!(running.child.try_wait().unwrap().is_none());
    let pid = rustix::process::Pid::from_child(&running.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(running.child.wait().unwrap().code(), Some(7));
    assert!(running.sandbox.recording().exists());
}

#[test]
fn who_has_no_token_learns_nothing() {
    let Some(running) = Running::start(&["--duration", "20", "--then", "terminate"], &["20"]) else { return };
    for (path, query, host, status) in [
        ("/", "", running.host.as_str(), 403),
        ("/data.json", "token=0123456789abcdef0123456789abcdef", &running.host, 403),
        ("/events", "", &running.host, 403),
        ("/", &running.query, "evil.example", 421),
        ("/nothing", &running.query, &running.host, 404),
    ] {
        assert_eq!(read(running.ask("GET", path, query, host)).0, status, "{path} {query} {host}");
    }
    assert_eq!(read(running.ask("POST", "/pin", "region=often", &running.host)).0, 403);
    assert_eq!(running.get("POST", "/pin", "&region=nosuch").0, 409, "no such region");
    assert_eq!(running.get("DELETE", "/", "").0, 405);
}
