//! The table of targets.

use self::Language::{C, Cpp, Rust};

/// What a target's program is written in, and so how it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// `c/PROGRAM.c`
    C,
    /// `c/PROGRAM.cpp`
    Cpp,
    /// `src/bin/PROGRAM.rs`
    Rust,
}

/// A program with certain arguments, and the regions whose gain is worth predicting.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What tables call it.
    pub name: &'static str,
    /// The program; several targets may share one.
    pub program: &'static str,
    /// How the program is built.
    pub language: Language,
    /// Arguments that make the program this target.
    pub arguments: &'static [&'static str],
    /// The progress point, which is also the word after `rate` in the program's output. Where it is a begin and
    /// an end, the rate is the inverse of the time between them; of their mean, or of a percentile, as in `request/95`.
    pub point: &'static str,
    /// Functions whose work `REGION=FACTOR` shrinks, to a measurable effect. Empty where there is
    /// none that could be relied on: such a target shows what profiling costs, and no more.
    pub regions: &'static [&'static str],
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("single", C, "round", &["A", "B"]),
    target("phases", C, "round", &["A", "B"]),
    target("inlined", C, "round", &["A", "B"]),
    target("inlined_rs", Rust, "round", &["A", "B"]),
    target("generic_rs", Rust, "round", &["A", "B"]),
    target("call_path", C, "round", &["A", "B", "helper"]),
    target("two_threads", C, "round", &["A", "B"]),
    target("two_threads_rs", Rust, "round", &["A", "B"]),
    target("fork_join", C, "round", &["A", "B", "C"]),
    target("rayon_join_rs", Rust, "round", &["A", "B", "C"]),
    target("openmp", C, "round", &["A", "B", "C"]),
    target("openmp", C, "round", &["A", "C"]).with("openmp_short", &["scale=0.1"]),
    target("short_lived", C, "round", &["A", "B"]),
    target("short_lived", C, "round", &["A", "B"]).with("short_lived_2", &["lanes=2"]),
    target("mutex", C, "round", &["A", "B"]),
    target("mutex", C, "round", &["A", "B"]).with("mutex_short", &["scale=0.1"]),
    target("mutex", C, "round", &["A", "B"]).with("mutex_long", &["scale=10"]),
    target("mutex_rs", Rust, "round", &["A", "B"]),
    target("parking_lot_rs", Rust, "round", &["A", "B"]),
    target("spin_lock", C, "round", &["A", "B"]),
    target("spin_lock", C, "round", &["A", "B"]).with("spin_lock_busy", &["wait=0"]),
    target("spin_lock", C, "round", &["A", "B"]).with("spin_lock_yield", &["wait=2"]),
    target("sections", C, "round", &["A", "B"]),
    target("sections", C, "round", &["A", "B"]).with("sections_sparse", &["B_ms=0.019"]),
    target("rwlock", C, "round", &["A", "B"]),
    target("rwlock_rs", Rust, "round", &["A", "B"]),
    target("readers", C, "round", &["R", "W"]),
    target("pipeline", C, "item", &["A", "B", "C"]),
    target("pipeline", C, "item", &["A", "B", "C"])
        .with("pipeline_saturated", &["A_ms=3", "B_ms=4", "C_ms=3"]),
    target("pipeline_rs", Rust, "item", &["A", "B", "C"]),
    target("parking_lot_pipeline_rs", Rust, "item", &["A", "B", "C"]),
    target("mpsc_rs", Rust, "item", &["A", "B", "C"]),
    target("crossbeam_rs", Rust, "item", &["A", "B", "C"]),
    target("condition_variable", Cpp, "item", &["A", "B", "C"]),
    target("ring", C, "item", &["A", "B"]),
    target("ring", C, "item", &["A", "B"]).with("ring_two", &["C_ms=0"]),
    target("semaphore", C, "item", &["A", "B", "C"]),
    target("counting_semaphore", Cpp, "item", &["A", "B", "C"]),
    target("pipe_queue", C, "item", &["A", "B"]),
    target("tokio_rs", Rust, "item", &["A", "B"]),
    target("producer_consumer", C, "item", &[]),
    target("two_consumers", C, "round", &["P", "B", "C"]),
    target("barrier", C, "round", &["A", "B"]),
    target("barrier_rs", Rust, "round", &["A", "B"]),
    target("spin_barrier", C, "round", &["A", "B"]),
    target("spin_barrier", C, "round", &["A", "B"]).with("spin_barrier_busy", &["wait=0"]),
    target("spin_barrier", C, "round", &["A", "B"]).with("spin_barrier_yield", &["wait=2"]),
    target("wait_for", Cpp, "round", &["A", "B"]),
    target("atomic_wait", Cpp, "round", &["A", "B"]),
    target("request", C, "round", &["A", "B"]).with("request_pipe", &["through=0"]),
    target("request", C, "round", &["A", "B"]).with("request_socketpair", &["through=1"]),
    target("request", C, "round", &["A", "B"]).with("request_epoll", &["through=2"]),
    target("request", C, "round", &["A", "B"]).with("request_signal", &["through=3"]),
    target("request", C, "round", &["A", "B"]).with("request_tcp", &["through=4"]),
    target("request", C, "round", &["A", "B"])
        .with("request_tcp_short", &["through=4", "A_ms=0.04", "B_ms=0.06"]),
    target("request", C, "round", &["A", "B"]).with("request_unix", &["through=5"]),
    target("request", C, "round", &["A", "B"]).with("request_tcp_epoll", &["through=6"]),
    target("connections", C, "round", &["A", "B"]),
    target("connections", C, "round", &["A", "B"]).with("connections_unix", &["unix=1"]),
    target("connections", C, "round", &["A", "B"]).with("connections_epoll", &["epoll=1"]),
    target("event_loop", C, "round", &["A", "B"]),
    target("event_loop", C, "round", &["A", "B"]).with("event_loop_timeout", &["timer=1"]),
    target("event_loop", C, "round", &["A", "B"]).with("event_loop_set", &["timer=2"]),
    target("event_loop", C, "round", &["A", "B"]).with("event_loop_quiet", &["tick_ms=0"]),
    target("tree", C, "round", &["A", "B", "C"]).with("tree_stages", &["kind=0"]),
    target("tree", C, "round", &["A", "B"]).with("tree_forked", &["kind=1"]),
    target("tree", C, "round", &["M", "W"]).with("tree_tcp", &["kind=2"]),
    target("tree", C, "round", &["M", "W"]).with("tree_unix", &["kind=3"]),
    target("tree", C, "round", &["M", "W"]).with("tree_semaphore", &["kind=4"]),
    target("tree", C, "round", &["J", "K"]).with("tree_build", &["kind=5"]),
    target("tree", C, "round", &["M", "W"]).with("tree_replaced", &["kind=6"]),
    target("rearm", C, "item", &["A", "B"]),
    target("park_rs", Rust, "round", &["A", "B"]),
    target("io_sleep", C, "round", &["A", "S"]),
    target("periodic", C, "round", &["A", "B"]),
    target("periodic", C, "round", &["A", "B"]).with("periodic_timerfd", &["by=1"]),
    target("periodic", C, "round", &["A", "B"]).with("periodic_epoll", &["by=2"]),
    target("periodic", C, "round", &["A", "B"])
        .with("periodic_pool", &["by=3", "A_ms=5", "B_ms=4", "interval_ms=6"]),
    target("periodic", C, "round", &["A", "B"]).with("periodic_busy", &["interval_ms=6"]),
    // Servers whose requests come from another process: `bench -- truth --only world --only hyper_rs`, and `bench -- clocks`.
    target("world", C, "served", &["A", "B"]).with("world_closed", &[]),
    target("world", C, "served", &["A", "B"]).with("world_closed_short", &["A_ms=0.04", "B_ms=0.06"]),
    target("world", C, "served", &["A", "B"])
        .with("world_workers_short", &["clients=3", "workers=3", "A_ms=0.02", "B_ms=0.03"]),
    target("world", C, "served", &["A", "B"]).with("world_think", &["think_ms=1"]),
    target("world", C, "served", &["A", "B"]).with("world_think_8", &["clients=8", "epoll=1", "think_ms=10"]),
    target("world", C, "served", &["A", "B"])
        .with("world_think_64", &["clients=64", "epoll=1", "think_ms=90"]),
    target("world", C, "served", &["A", "B"])
        .with("world_edge_8", &["clients=8", "epoll=1", "edge=1", "think_ms=10"]),
    target("world", C, "served", &["A", "B"]).with("world_saturated", &["clients=64", "epoll=1"]),
    target("world", C, "served", &["A", "B"]).with("world_crowd", &["clients=4", "workers=4", "busy_ms=1"]),
    target("world", C, "served", &["A", "B"])
        .with("world_crowd_short", &["clients=4", "workers=4", "A_ms=0.04", "B_ms=0.06", "busy_ms=0.1"]),
    target("world", C, "served", &["A", "B"])
        .with("world_crowd_think", &["clients=4", "workers=4", "busy_ms=0.5", "think_ms=2"]),
    target("world", C, "served", &["A", "B"])
        .with("world_crowd_loop", &["clients=8", "epoll=1", "busy_ms=1"]),
    target("world", C, "served", &["A", "B"]).with("world_once", &["once=1", "think_ms=1"]),
    target("world", C, "served", &["A", "B"]).with("world_turns", &["once=1", "workers=5"]),
    target("world", C, "served", &["A", "B"])
        .with("world_turns_3", &["once=1", "workers=5", "clients=3", "think_ms=4"]),
    target("world", C, "served", &["A", "B"]).with("world_open", &["open=1", "clients=8", "epoll=1"]),
    target("world", C, "served", &["A", "B"])
        .with("world_open_20", &["open=1", "clients=8", "epoll=1", "gap_ms=5"]),
    target("world", C, "served", &["A", "B"])
        .with("world_open_80", &["open=1", "clients=8", "epoll=1", "gap_ms=1.25"]),
    target("world", C, "served", &["A", "B"])
        .with("world_open_95", &["open=1", "clients=8", "epoll=1", "gap_ms=1.05"]),
    target("world", C, "served", &["A", "B"])
        .with("world_open_120", &["open=1", "clients=8", "epoll=1", "gap_ms=0.83"]),
    target("world", C, "served", &["A", "B"]).with("world_one", &["open=1"]),
    target("world", C, "served", &["A", "B"]).with("world_bursts", &["open=2", "clients=8", "epoll=1"]),
    target("world", C, "served", &["A", "B"]).with("world_regular", &["open=3", "clients=8", "epoll=1"]),
    target("world", C, "served", &["A", "B"])
        .with("world_both", &["open=4", "clients=9", "epoll=1", "gap_ms=4", "think_ms=2"]),
    target("world", C, "served", &["A", "B"])
        .with("world_workers", &["open=1", "clients=8", "workers=2", "epoll=1", "gap_ms=0.9"]),
    target("world", C, "served", &["A", "B"]).with("world_open_once", &["open=1", "once=1"]),
    target("world", C, "served", &["A", "B"]).with("world_udp", &["over=1", "open=1"]),
    target("world", C, "served", &["A", "B"]).with("world_udp_closed", &["over=1", "think_ms=1"]),
    target("world", C, "served", &["A", "B"])
        .with("world_udp_8", &["over=1", "open=1", "clients=8", "epoll=1"]),
    target("world", C, "served", &["A", "B"])
        .with("world_udp_think_8", &["over=1", "clients=8", "epoll=1", "think_ms=10"]),
    target("world", C, "served", &["A", "B"]).with("world_pipe", &["over=2", "open=1"]),
    target("world", C, "served", &["A", "B"])
        .with("world_unix", &["over=3", "open=1", "clients=8", "epoll=1"]),
    target("world", C, "served", &["A", "B"])
        .with("world_unix_think", &["over=3", "clients=8", "epoll=1", "think_ms=10"]),
    target("hyper_rs", Rust, "served", &["A", "B"]).with("hyper_open", &["open=1"]),
    target("hyper_rs", Rust, "served", &["A", "B"]).with("hyper_think", &["think_ms=10"]),
    target("hyper_rs", Rust, "served", &["A", "B"])
        .with("hyper_workers", &["open=1", "workers=2", "gap_ms=0.9"]),
    target("idle", C, "round", &["A", "B", "I"]),
    target("pool", C, "round", &["X", "Y"]).with("pool_2", &["threads=2"]),
    target("pool", C, "round", &["X", "Y"]).with("pool_4", &["threads=4"]),
    target("pool", C, "round", &["X", "Y"]).with("pool_8", &["threads=8"]),
    target("pool", C, "round", &["X", "Y"]).with("pool_32", &["threads=32"]),
    target("pool_mixed", C, "round", &["X", "Y"]),
    target("pool_mixed", C, "round", &["X", "Y"]).with("pool_mixed_8", &["threads=8"]),
    target("pool_mixed", C, "round", &["X", "Y"]).with("pool_mixed_32", &["threads=32"]),
    target("rayon_rs", Rust, "round", &["A", "B"]),
    target("latency", C, "request", &["A", "B"]).with("latency_open", &[]),
    target("latency", C, "request", &["A", "B"]).with("latency_closed", &["clients=4"]),
    target("latency", C, "request/50", &["A", "B"]).with("latency_open_50", &[]),
    target("latency", C, "request/95", &["A", "B"]).with("latency_open_95", &[]),
    target("latency", C, "request/99", &["A", "B"]).with("latency_open_99", &[]),
    target("latency", C, "request/95", &["A", "B"]).with("latency_closed_95", &["clients=4"]),
    target("server", C, "answer", &["parse", "lookup", "format"]),
    target("sqlite", Rust, "insert", &["row"]),
    target("alloc", C, "round", &["A", "B"]),
];

const fn target(
    program: &'static str,
    language: Language,
    point: &'static str,
    regions: &'static [&'static str],
) -> Target {
    Target { name: program, program, language, arguments: &[], point, regions }
}

impl Target {
    const fn with(self, name: &'static str, arguments: &'static [&'static str]) -> Self {
        Self { name, arguments, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique() {
        let names: HashSet<_> = TARGETS.iter().map(|target| target.name).collect();
        assert_eq!(names.len(), TARGETS.len());
    }
}
