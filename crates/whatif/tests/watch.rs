//! `whatif watch`, on a terminal of its own.

use crate::support::{HANG, Sandbox, run, skip};
use crate::synthetic::{Truth, record, rows};
use profile::{Exit, Recorder, RegionKind, Rows};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};

/// What the user sees, as far as `watch` uses what terminals can do.
#[derive(Default)]
struct Screen {
    cells: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// A control sequence, from its second character on.
    sequence: Option<String>,
    alternate: bool,
    cursor_hidden: bool,
    colours: bool,
    /// Bytes of a character that is not complete.
    partial: Vec<u8>,
}

impl Screen {
    fn resize(&mut self, rows: usize, columns: usize) {
        self.cells = vec![vec![' '; columns]; rows];
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.partial.push(*byte);
            let Ok(text) = std::str::from_utf8(&self.partial) else { continue };
            let c = text.chars().next().unwrap();
            self.partial.clear();
            self.character(c);
        }
    }

    fn character(&mut self, c: char) {
        match (self.sequence.as_mut(), c) {
            (None, '\x1b') => self.sequence = Some(String::new()),
            (None, '\r') => self.column = 0,
            (None, c) if c.is_control() => {}
            (None, c) => {
                if let Some(cell) = self.cells.get_mut(self.row).and_then(|row| row.get_mut(self.column)) {
                    *cell = c;
                }
                self.column += 1;
            }
            (Some(sequence), c) => {
                sequence.push(c);
                if c.is_ascii_alphabetic() || c == '~' {
                    let sequence = self.sequence.take().unwrap();
                    self.obey(&sequence);
                }
            }
        }
    }

    fn obey(&mut self, sequence: &str) {
        let numbers = || sequence[1..sequence.len() - 1].split(';').map(|number| number.parse().unwrap_or(1));
        match sequence {
            "[?1049h" => self.alternate = true,
            "[?1049l" => self.alternate = false,
            "[?25l" => self.cursor_hidden = true,
            "[?25h" => self.cursor_hidden = false,
            "[2J" => self.cells.iter_mut().for_each(|row| row.fill(' ')),
            _ if sequence.ends_with('H') => {
                let mut numbers = numbers();
                self.row = numbers.next().unwrap_or(1).max(1) - 1;
                self.column = numbers.next().unwrap_or(1).max(1) - 1;
            }
            _ if sequence.ends_with('m') => {
                self.colours |= numbers().any(|n: usize| matches!(n, 30..=38 | 40..=48 | 90..));
            }
            _ => {}
        }
    }

    fn text(&self) -> String {
        self.cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned() + "\n").collect()
    }
}

/// `whatif watch` on a terminal.
struct Watch {
    child: Child,
    keys: File,
    /// The other end of the terminal, whose settings must stay.
    terminal: OwnedFd,
    settings: String,
    shown: Arc<(Mutex<Screen>, Condvar)>,
}

fn settings(terminal: &OwnedFd) -> String {
    format!("{:?}", tcgetattr(terminal).unwrap())
}

impl Watch {
    fn start(mut command: Command) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let theirs = File::options()
            .read(true)
            .write(true)
            .open(ptsname(&ours, Vec::new()).unwrap().to_str().unwrap());
        let theirs = OwnedFd::from(theirs.unwrap());
        let shown = Arc::new((Mutex::new(Screen::default()), Condvar::new()));
        let mut reader = File::from(ours.try_clone().unwrap());
        let settings = settings(&theirs);
        let end = || Stdio::from(theirs.try_clone().unwrap());
        command.env("TERM", "xterm-256color").stdin(end()).stdout(end()).stderr(Stdio::piped());
        let watch = {
            let shown = Arc::clone(&shown);
            resize(&shown, &ours, 24, 80);
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(read @ 1..) = reader.read(&mut bytes) {
                    shown.0.lock().unwrap().take(&bytes[..read]);
                    shown.1.notify_all();
                }
            });
            command.spawn().unwrap()
        };
        Self { child: watch, keys: File::from(ours), terminal: theirs, settings, shown }
    }

    /// Waits until the screen is as `wanted`; what it shows then.
    #[track_caller]
    fn until(&self, what: &str, wanted: impl Fn(&Screen) -> bool) -> String {
        let (screen, news) = &*self.shown;
        let waited = news.wait_timeout_while(screen.lock().unwrap(), HANG, |screen| !wanted(screen)).unwrap();
        assert!(!waited.1.timed_out(), "no {what}:\n{}", waited.0.text());
        waited.0.text()
    }

    #[track_caller]
    fn sees(&self, words: &[&str]) -> String {
        self.until(&format!("{words:?}"), |screen| {
            let text = screen.text();
            words.iter().all(|word| text.contains(word))
        })
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end, and checks that the terminal is as it was.
    #[track_caller]
    fn ended(&mut self) -> std::process::ExitStatus {
        let status = self.child.wait().unwrap();
        self.until("end", |screen| !screen.alternate && !screen.cursor_hidden);
        assert_eq!(settings(&self.terminal), self.settings);
        status
    }
}

fn resize(shown: &Arc<(Mutex<Screen>, Condvar)>, terminal: &impl std::os::fd::AsFd, rows: u16, columns: u16) {
    // What comes from now on is drawn for the new size.
    let mut screen = shown.0.lock().unwrap();
    tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    screen.resize(usize::from(rows), usize::from(columns));
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn watch(sandbox: &Sandbox) -> Command {
    let mut command = sandbox.whatif();
    command.arg("watch").arg(sandbox.recording()).env_remove("NO_COLOR");
    command
}

/// A run in which the region `often` takes four fifths of the time, and which ended with exit code 7.
fn often() -> Rows {
    let mut rows = rows(&[Truth { name: "often", slope: 0.8, noise: 0.02, blocks: 40 }]);
    rows.sessions[0].end.as_mut().unwrap().exit = Exit::Code(7);
    for region in rows.regions.values_mut() {
        (region.kind, region.function) = (RegionKind::Function, None);
    }
    rows
}

#[test]
fn a_run_is_watched_from_before_its_beginning_to_its_end() {
    let sandbox = Sandbox::new();
    let mut watch = Watch::start(watch(&sandbox));
    watch.sees(&["is not there yet", "q quit"]);
    assert_ne!(settings(&watch.terminal), watch.settings, "keys are read one by one");

    let mut rows = often();
    let end = rows.sessions[0].end.take().unwrap();
    record(&sandbox.recording(), &rows);
    let shown =
        watch.sees(&["often", "helps", "running, ", "less time in `often`", "What makes `requests` faster"]);
    assert!(shown.contains("speedup"), "the curve is there:\n{shown}");

    watch.press("\r");
    watch.sees(&["Esc back", "`requests` without speedups, over time"]);
    watch.press("\x1b[D"); // ←
    watch.sees(&["⏎ curve"]);
    watch.press("/nosuch");
    watch.sees(&["/nosuch", "no name contains that"]);
    watch.press("\r?");
    watch.sees(&["this help"]);
    watch.press("?");
    watch.sees(&["no name contains that"]);
    watch.press("/\x7f\x7f\x7f\x7f\x7f\x7fOFT\r");
    watch.sees(&["often", "/OFT  Esc all"]);

    // Others have the terminal for a while.
    watch.press("\x1a");
    let stopped = waitpid(Some(Pid::from_child(&watch.child)), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(stopped.1.stopped(), "{stopped:?}");
    watch.until("other screen", |screen| !screen.alternate && !screen.cursor_hidden);
    assert_eq!(settings(&watch.terminal), watch.settings);
    watch.shown.0.lock().unwrap().resize(24, 80);
    watch.signal(Signal::CONT);
    watch.sees(&["often", "/OFT  Esc all"]);

    // Smaller than anything can be read on, and back.
    for (rows, columns) in [(1, 1), (3, 20), (24, 80)] {
        resize(&watch.shown, &watch.keys, rows, columns);
        watch.signal(Signal::WINCH);
        watch.until("resized screen", |screen| !screen.text().trim().is_empty());
    }
    watch.sees(&["often", "/OFT  Esc all"]);
    // A terminal that does not know its size is taken for a usual one.
    tcsetwinsize(&watch.keys, Winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    watch.press("?");
    watch.sees(&["this help"]);
    watch.press("?");
    watch.sees(&["often", "/OFT  Esc all"]);

    let mut recorder = Recorder::create(&sandbox.recording()).unwrap();
    recorder.finish_session(rows.sessions[0].id, &end).unwrap();
    recorder.close().unwrap();
    watch.sees(&["ended, "]);
    assert!(watch.shown.0.lock().unwrap().colours);
    watch.press("q");
    assert_eq!(watch.ended().code(), Some(0));
}

fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 != 0
}

#[test]
fn whatever_ends_it_gives_the_terminal_back() {
    let sandbox = Sandbox::new();
    record(&sandbox.recording(), &often());
    for (ends, expected) in [("\x03", 0), ("TERM", 15), ("HUP", 1), ("INT", 2)] {
        if ends == "HUP" && ignores_hangups() {
            skip("SIGHUP is ignored here (nohup), and so it is by what is started");
            continue;
        }
        let mut command = watch(&sandbox);
        command.env("NO_COLOR", "1");
        let mut watch = Watch::start(command);
        watch.sees(&["ended, ", "exit code 7"]);
        match ends {
            "TERM" => watch.signal(Signal::TERM),
            "HUP" => watch.signal(Signal::HUP),
            "INT" => watch.signal(Signal::INT),
            keys => watch.press(keys),
        }
        let status = watch.ended();
        assert_eq!((status.signal().unwrap_or(0), status.code().unwrap_or(0)), (expected, 0), "{ends:?}");
        assert!(!watch.shown.0.lock().unwrap().colours, "NO_COLOR");
    }
}

#[test]
fn what_cannot_be_watched_is_said_before_anything_is_drawn() {
    let sandbox = Sandbox::new();
    let ended = run(watch(&sandbox)).assert_code(90);
    assert!(ended.stderr.contains("whatif report ") && ended.stdout.is_empty(), "{ended:#?}");

    std::fs::write(sandbox.recording(), "Dear reader, this is not a recording at all.").unwrap();
    let mut watch = Watch::start(watch(&sandbox));
    assert_eq!(watch.child.wait().unwrap().code(), Some(90));
    let mut said = String::new();
    watch.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("is not a whatif recording") && said.contains("give another file"), "{said}");
    let screen = watch.shown.0.lock().unwrap();
    assert!(!screen.alternate && screen.text().trim().is_empty(), "{}", screen.text());
}

#[test]
fn a_profile_of_coz_is_shown() {
    let sandbox = Sandbox::new();
    let mut profile = String::from("startup\ttime=1000000000\n");
    for nth in 0..60 {
        let (speedup, visits) =
            if nth % 2 == 0 { (0.0, 100) } else { (0.05 * f64::from(nth / 2 % 20 + 1), 150) };
        profile += &format!(
            "experiment\tselected=hash.c:88\tspeedup={speedup:.2}\tduration=500000000\tselected-samples=50\n\
             throughput-point\tname=requests\tdelta={visits}\n"
        );
    }
    std::fs::write(sandbox.recording(), profile).unwrap();
    let mut watch = Watch::start(watch(&sandbox));
    watch.sees(&["hash.c:88", "What makes `requests` faster"]);
    watch.press("q");
    assert_eq!(watch.ended().code(), Some(0));
}
