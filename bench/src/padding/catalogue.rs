//! The real programs: where their sources are, how they are run, and what counts as their progress.

use std::path::Path;

use anyhow::{Result, ensure};

/// One program under one load.
#[derive(Debug)]
pub struct Program {
    pub name: &'static str,
    /// In a few words, for people.
    pub about: &'static str,
    pub sources: &'static [Source],
    /// How it is built; `bench/padding/build.sh` stands before it.
    pub script: &'static str,
    /// Files of ours that are compiled with it, in `bench/padding`.
    pub drivers: &'static [&'static str],
    /// The function whose calls are its progress.
    pub point: &'static str,
    /// Its arguments. It runs until it is killed, or for longer than anything here.
    pub arguments: &'static [&'static str],
    pub load: Load,
}

/// Where sources come from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// The upstream sources of a package of Debian.
    Debian(&'static str),
    /// A folder of a crate that this workspace depends on.
    Crate { name: &'static str, folder: &'static str },
}

/// What a program has to do.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// What its arguments say.
    Arguments,
    /// What so many clients ask, each as soon as it has an answer.
    Requests { clients: usize, requests: &'static [Request], latency: Latency },
}

/// The functions whose entries are the begin and the end of a request: each is called once for every request, and neither is the progress point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    pub begin: &'static str,
    pub end: &'static str,
}

/// A request, and what its answer ends with. `{key}` stands for a random number of five digits.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub text: &'static str,
    pub answer_ends: &'static str,
}

const fn request(text: &'static str, answer_ends: &'static str) -> Request {
    Request { text, answer_ends }
}

/// In arguments: generated text, many times and once; a script. `{folder}` is the folder of a run.
const TEXTS: &str = "{texts}";
const TEXT: &str = "{text}";
const SCRIPT: &str = "{script}";

macro_rules! script {
    ($name:literal) => {
        include_str!(concat!("../../padding/", $name))
    };
}

pub const PROGRAMS: &[Program] = &[
    Program {
        name: "redis",
        about: "a server with one thread, four clients",
        sources: &[Source::Debian("redis")],
        script: script!("redis.sh"),
        drivers: &[],
        point: "processCommand",
        arguments: &["--port", "0", "--unixsocket", "{folder}/socket", "--save", ""],
        load: Load::Requests {
            clients: 4,
            requests: &[
                request("*3\r\n$3\r\nSET\r\n$9\r\nkey:{key}\r\n$16\r\nthe value, so big\r\n", "\r\n"),
                request("*2\r\n$3\r\nGET\r\n$9\r\nkey:{key}\r\n", "\r\n"),
                request("*2\r\n$4\r\nINCR\r\n$9\r\nsum:{key}\r\n", "\r\n"),
                request("*4\r\n$4\r\nZADD\r\n$6\r\nscores\r\n$5\r\n{key}\r\n$5\r\n{key}\r\n", "\r\n"),
                request("*4\r\n$6\r\nZRANGE\r\n$6\r\nscores\r\n$1\r\n0\r\n$1\r\n9\r\n", "\r\n"),
                request("*3\r\n$4\r\nHGET\r\n$9\r\nmap:{key}\r\n$1\r\na\r\n", "\r\n"),
                request("*4\r\n$4\r\nHSET\r\n$9\r\nmap:{key}\r\n$1\r\na\r\n$5\r\n{key}\r\n", "\r\n"),
            ],
            latency: Latency { begin: "readQueryFromClient", end: "writeToClient" },
        },
    },
    Program {
        name: "memcached",
        about: "a server with two threads, four clients",
        sources: &[Source::Debian("libevent"), Source::Debian("memcached")],
        script: script!("memcached.sh"),
        drivers: &[],
        point: "process_command_ascii",
        arguments: &["-u", "root", "-t", "2", "-s", "{folder}/socket"],
        load: Load::Requests {
            clients: 4,
            requests: &[
                request("set key:{key} 0 0 20\r\n{key}{key}{key}{key}\r\n", "STORED\r\n"),
                request("get key:{key}\r\n", "END\r\n"),
                request("get key:{key} key:00001 key:{key}\r\n", "END\r\n"),
            ],
            latency: Latency { begin: "tcp_read", end: "tcp_sendmsg" },
        },
    },
    Program {
        name: "nginx",
        about: "a server with one thread that sends a file of 8 KB to four clients",
        sources: &[Source::Debian("nginx")],
        script: script!("nginx.sh"),
        drivers: &[],
        point: "ngx_http_handler",
        arguments: &["-p", "{folder}", "-c", "{folder}/nginx.conf"],
        load: Load::Requests {
            clients: 4,
            requests: &[request("GET /page HTTP/1.1\r\nHost: a\r\nUser-Agent: bench\r\n\r\n", "\nend\n")],
            latency: Latency { begin: "ngx_http_create_request", end: "ngx_http_free_request" },
        },
    },
    Program {
        name: "sqlite",
        about: "one thread that writes and one that reads, a connection each",
        sources: &[Source::Crate { name: "libsqlite3-sys", folder: "sqlite3" }],
        script: script!("sqlite.sh"),
        drivers: &["sqlite.c"],
        point: "sqlite3_step",
        arguments: &["{folder}/database", "2"],
        load: Load::Arguments,
    },
    Program {
        name: "leveldb",
        about: "a store of keys in files, two threads that read and one that writes",
        sources: &[Source::Debian("leveldb")],
        script: script!("leveldb.sh"),
        drivers: &[],
        point: "_ZN7leveldb6DBImpl3GetERKNS_11ReadOptionsERKNS_5SliceEPNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        arguments: &[
            "--benchmarks=fillseq,readwhilewriting",
            "--db={folder}/store",
            "--num=100000",
            "--reads=1000000000",
            "--threads=2",
        ],
        load: Load::Arguments,
    },
    Program {
        name: "zstd",
        about: "a compressor with two threads and one that reads",
        sources: &[Source::Debian("libzstd")],
        script: script!("zstd.sh"),
        drivers: &[],
        point: "ZSTD_buildSeqStore",
        arguments: &["-3", "-T2", "-B512K", "-c", "-q", TEXTS],
        load: Load::Arguments,
    },
    Program {
        name: "xz",
        about: "a compressor with two threads and one that reads",
        sources: &[Source::Debian("xz-utils")],
        script: script!("xz.sh"),
        drivers: &[],
        point: "lzma_lzma_encode",
        arguments: &["-1", "-T2", "--block-size=262144", "-c", TEXTS],
        load: Load::Arguments,
    },
    Program {
        name: "zlib",
        about: "two threads that compress blocks and one that decompresses them in order",
        sources: &[Source::Debian("zlib")],
        script: script!("zlib.sh"),
        drivers: &["zlib.c"],
        point: "check",
        arguments: &[TEXT, "2"],
        load: Load::Arguments,
    },
    Program {
        name: "bzip2",
        about: "a compressor with one thread",
        sources: &[Source::Debian("bzip2")],
        script: script!("bzip2.sh"),
        drivers: &[],
        point: "BZ2_compressBlock",
        arguments: &["-1", "-c", TEXTS],
        load: Load::Arguments,
    },
    Program {
        name: "lz4",
        about: "a compressor with one thread, and its decompressor",
        sources: &[Source::Debian("lz4")],
        script: script!("lz4.sh"),
        drivers: &[],
        point: "LZ4_compress_fast_extState",
        arguments: &["-b1", "-i3600", "-B4", "-q", TEXT],
        load: Load::Arguments,
    },
    Program {
        name: "lua",
        about: "an interpreter with one thread: strings, tables, sorting, closures",
        sources: &[Source::Debian("lua5.4")],
        script: script!("lua.sh"),
        drivers: &[],
        point: "os_clock",
        arguments: &[SCRIPT],
        load: Load::Arguments,
    },
];

/// Those called `only`; all, if none is.
pub fn chosen(only: &[String]) -> Result<Vec<&'static Program>> {
    for name in only {
        ensure!(
            PROGRAMS.iter().any(|program| program.name == name),
            "there is no program '{name}'; choose from: {}",
            PROGRAMS.iter().map(|program| program.name).collect::<Vec<_>>().join(" ")
        );
    }
    Ok(PROGRAMS
        .iter()
        .filter(|program| only.is_empty() || only.iter().any(|name| name == program.name))
        .collect())
}

impl Program {
    /// Where its requests begin and end, if others ask it.
    pub const fn latency(&self) -> Option<Latency> {
        match self.load {
            Load::Arguments => None,
            Load::Requests { latency, .. } => Some(latency),
        }
    }

    /// Its arguments for a run in `folder`, with what is generated in `files`.
    pub fn arguments(&self, folder: &Path, files: &Path) -> Vec<String> {
        /// How often a file is given: for longer than a run.
        const AGAIN: usize = 2000;
        let file = |name: &str| files.join(name).display().to_string();
        self.arguments
            .iter()
            .flat_map(|argument| match *argument {
                TEXTS => vec![file("text"); AGAIN],
                TEXT => vec![file("text")],
                SCRIPT => vec![file("script.lua")],
                other => vec![other.replace("{folder}", &folder.display().to_string())],
            })
            .collect()
    }
}
