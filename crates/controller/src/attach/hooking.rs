//! Hooking: functions of a program that is static, or in Go, lead to the runtime where they begin ([`hooks`]), and back.
//!
//! All threads are stopped for that at once, because a processor may not see all of a changed instruction, and a thread may be in the midst of what is replaced.

use super::go_program::Go;
use super::hooked_program::HookedProgram;
use super::hooks::{self, Hook};
use super::image::{PAGE, REAL_PLAIN, REAL_SIZE};
use super::loader::{Loader, PATIENCE, call, map};
use super::objects::{self, Area};
use crate::embedded;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use kernel::cpu::threads_alive;
use kernel::tracee::{Tracee, Trouble};
use std::collections::HashMap;
use std::mem::offset_of;
use std::time::{Duration, Instant};
use wire::late::{SCHEDULER, SYSTEM_CALLS, State, name};

/// What the runtime's table has for a function that the program does not have.
const MISSING: u64 = 1;
/// These call others that are hooked, which do the same once more: they are left alone.
const CALL_OTHERS: [&str; 7] =
    ["signal", "bsd_signal", "ssignal", "sysv_signal", "__sysv_signal", "sigset", "sigprocmask"];

impl Loader {
    /// Finds out which functions of a program are to lead to the runtime, writes their cells, and tells the runtime where all are that it needs.
    ///
    /// # Errors
    /// Why that is not possible. At most a mapping is left that does nothing.
    pub(super) fn prepare_hooks(&mut self, program: &HookedProgram) -> Result<()> {
        match &program.go {
            Some(go) => self.prepare_calls(program, go)?,
            None => self.prepare_functions(program)?,
        }
        let mut hooks = std::mem::take(&mut self.hooks);
        hooks.retain(|hook| self.is_hookable(hook));
        hooks.sort_unstable_by_key(|hook| hook.place);
        self.hooks = hooks;
        let goroutine = program.go.as_ref().map_or([0; 2], |go| go.goroutine);
        for (field, value) in
            [offset_of!(State, goroutine), offset_of!(State, current)].into_iter().zip(goroutine)
        {
            self.memory.write(self.state(field), &value.to_ne_bytes())?;
        }
        // Those of a library that it has loaded lead to ours by words.
        self.set(offset_of!(State, is_hooked), (!program.has_libc()).into())
    }

    /// The place in the runtime's table of functions for the `nth`.
    fn entry(&self, nth: usize) -> u64 {
        self.base + self.image.real.0 + (nth * REAL_SIZE) as u64
    }

    /// Of a program in Go: its system calls lead to the runtime, and its scheduler announces itself there.
    fn prepare_calls(&mut self, program: &HookedProgram, go: &Go) -> Result<()> {
        let sites: Vec<_> =
            go.calls.iter().flat_map(|calls| calls.at.iter().map(move |at| (calls, *at))).collect();
        let count = sites.len() + SYSTEM_CALLS.len() + SCHEDULER.len();
        let known = [offset_of!(State, cells), offset_of!(State, cell_count)].map(|field| self.state(field));
        let [former, former_count] = [self.memory.word(known[0])?, self.memory.word(known[1])?];
        // Threads may be in those of a session whose symbols were others.
        let is_new = self.is_new || former == 0 || former_count != count as u64;
        let cells = if is_new { self.new_cells(program, count)? } else { former };
        for (place, value) in known.into_iter().zip([cells, count as u64]) {
            self.memory.write(place, &value.to_ne_bytes())?;
        }
        let mut filled = vec![0xcc; count * hooks::CELL as usize];
        let mut fill = |nth: usize, bytes: &[u8]| {
            filled[nth * hooks::CELL as usize..][..bytes.len()].copy_from_slice(bytes);
            cells + nth as u64 * hooks::CELL
        };
        // A library that it has loaded has functions of its own, which its C code calls.
        let (place, missing) = if go.has_c { (REAL_PLAIN, 0) } else { (0, MISSING) };
        for (nth, name) in self.image.real_names(embedded::RUNTIME).iter().enumerate() {
            let call = SYSTEM_CALLS.iter().position(|(function, _)| function == name);
            let original = match call {
                Some(call) => fill(call, &hooks::plain_call(SYSTEM_CALLS[call].1)),
                None if name == "syscall" => self.base + self.image.export(name::PLAIN_CALL),
                None => missing,
            };
            self.memory.write(self.entry(nth) + place, &original.to_ne_bytes())?;
        }
        let (call, scheduler) = if go.has_c {
            (name::SYSTEM_CALL_WITH_C, name::SCHEDULER_WITH_C)
        } else {
            (name::SYSTEM_CALL, name::SCHEDULER)
        };
        self.hooks.clear();
        let target = self.base + self.image.export(scheduler);
        for (nth, function) in &go.scheduler {
            let cell = cells + ((SYSTEM_CALLS.len() + nth) as u64) * hooks::CELL;
            let hook = Hook::announced(&function.code, function.start, cell, target, *nth as u32);
            if let Some(hook) = hook {
                fill(SYSTEM_CALLS.len() + nth, &hook.cell);
                self.hooks.push(hook);
            }
        }
        let target = self.base + self.image.export(call);
        for (nth, (calls, at)) in sites.into_iter().enumerate() {
            let nth = nth + SYSTEM_CALLS.len() + SCHEDULER.len();
            let cell = cells + nth as u64 * hooks::CELL;
            let hook = Hook::of_call(&calls.code, (calls.start, calls.length), at, cell, target);
            if let Some(hook) = hook {
                fill(nth, &hook.cell);
                self.hooks.push(hook);
            }
        }
        if is_new {
            self.memory.write(cells, &filled)?;
        }
        Ok(())
    }

    /// Of a program with its C library in itself: that one's functions lead to the runtime.
    fn prepare_functions(&mut self, program: &HookedProgram) -> Result<()> {
        let names = self.image.real_names(embedded::RUNTIME);
        let cells = if self.is_new { Some(self.new_cells(program, names.len())?) } else { None };
        let mut originals: HashMap<u64, u64> = HashMap::new();
        let mut filled = vec![0xcc; names.len() * hooks::CELL as usize];
        self.hooks.clear();
        for (nth, name) in names.iter().enumerate() {
            let entry = self.entry(nth);
            let Some(function) = program.function(name) else {
                self.memory.write(entry, &MISSING.to_ne_bytes())?;
                continue;
            };
            let is_called = CALL_OTHERS.contains(&&name[..]);
            let ours = if is_called { 0 } else { self.image.export(name) };
            // One that has run before knows where they are.
            let cell = match cells {
                Some(cells) => cells + nth as u64 * hooks::CELL,
                None => self.memory.word(entry)?.wrapping_sub(hooks::ORIGINAL),
            };
            let is_first = !originals.contains_key(&function.start);
            let hook = if ours == 0 || function.is_indirect || !is_first {
                None
            } else {
                Hook::new(&function.code, function.start, cell, self.base + ours)
            };
            let original = match &hook {
                Some(_) => cell + hooks::ORIGINAL,
                None if function.is_indirect => self.call_at(function.start, [0; 3])?.cast_unsigned(),
                None => originals.get(&function.start).copied().unwrap_or(function.start),
            };
            originals.entry(function.start).or_insert(original);
            if cells.is_some() {
                self.memory.write(entry, &original.to_ne_bytes())?;
            }
            if let Some(hook) = hook {
                filled[nth * hooks::CELL as usize..][..hook.cell.len()].copy_from_slice(&hook.cell);
                self.hooks.push(hook);
            }
        }
        if let Some(cells) = cells {
            self.memory.write(cells, &filled)?;
        }
        Ok(())
    }

    /// Whether what the file has is there, or the hook.
    fn is_hookable(&self, hook: &Hook) -> bool {
        let mut now = [0; hooks::JUMP as usize];
        self.memory.read(hook.place, &mut now).is_ok() && (now == hook.before || now == hook.jump)
    }

    /// Maps room for so many cells near the program.
    fn new_cells(&mut self, program: &HookedProgram, count: usize) -> Result<u64> {
        const NO_REPLACE: u64 = 0x10_0000;
        const READ_EXECUTE: u64 = 5;
        let areas = objects::areas(self.pid)?;
        let place =
            program.place().context("the C library in it has none of the functions that are needed")?;
        let length = (count as u64 * hooks::CELL).next_multiple_of(PAGE);
        let flags = map::PRIVATE | map::ANONYMOUS | NO_REPLACE;
        let mut reason = anyhow!("there is no room near its program");
        // Twice, because the thread that is to do it may end.
        for start in room_near(place, length, &areas).into_iter().flat_map(|start| [start; 2]) {
            // Older kernels take it for a hint.
            match self.map([start, length, READ_EXECUTE, flags, map::NO_FILE, 0]) {
                Ok(at) if at == start => return Ok(start),
                Ok(at) => {
                    reason = anyhow!("memory was mapped at {at:#x} instead of {start:#x}, near its program");
                    drop(self.system_call(call::MUNMAP, [at, length, 0, 0, 0, 0]));
                }
                Err(error) => {
                    reason = error.context(format!("no memory can be mapped at {start:#x}, near its program"))
                }
            }
        }
        Err(reason)
    }

    /// Has the functions lead to the runtime.
    pub(super) fn set_hooks(&mut self) -> Result<()> {
        let Some(program) = &self.hooked_program else { return Ok(()) };
        let is_wait = |hook: &Hook| program.go.is_none() || hook.behind_call.is_some();
        ensure!(self.hooks.iter().any(is_wait), "it has none of the functions in which threads wait");
        self.exchange(|hook| (hook.before, hook.jump))
    }

    /// Has them be what they were.
    pub(super) fn take_hooks_away(&mut self) -> Result<()> {
        let is_set = |hook: &Hook| {
            let mut now = [0; hooks::JUMP as usize];
            self.memory.read(hook.place, &mut now).is_ok() && now == hook.jump
        };
        if !self.hooks.iter().any(is_set) {
            return Ok(());
        }
        self.exchange(|hook| (hook.jump, hook.before))
    }

    /// Writes the second of two where the first is, in all functions at once.
    fn exchange(&mut self, codes: impl Fn(&Hook) -> ([u8; 5], [u8; 5])) -> Result<()> {
        self.with_all_stopped(|loader| {
            for hook in &loader.hooks {
                let (from, to) = codes(hook);
                let mut now = [0; hooks::JUMP as usize];
                loader.memory.read(hook.place, &mut now)?;
                if now == from {
                    loader.memory.write(hook.place, &to)?;
                }
            }
            Ok(())
        })
    }

    /// Stops all threads, none of which is in the midst of what a hook replaces, and does `work`.
    fn with_all_stopped<T>(&mut self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        const LONGEST: Duration = Duration::from_secs(5);
        const PAUSE: Duration = Duration::from_millis(1);
        const CAREFUL: Duration = Duration::from_millis(200);
        let begin = Instant::now();
        let mut why = "is one of them frozen, or does it wait for a device?".to_owned();
        while begin.elapsed() < LONGEST {
            self.release_late_ones();
            // One that waits for a device would let the others wait: but there may always be one.
            let is_ready = |(_, state): &(u32, char)| matches!(state, 'R' | 'S' | 'I');
            let all_are_ready = threads_alive(self.pid).iter().all(is_ready);
            if !self.has_late_ones() && (all_are_ready || begin.elapsed() > CAREFUL) {
                let stopped = self.stop_all()?;
                let in_midst = stopped.iter().flatten().find(|tracee| self.is_in_midst(tracee));
                if let Some(tracee) = in_midst {
                    why = format!("thread {} remains where code is to be replaced", tracee.thread());
                } else if let Some(mut stopped) = stopped {
                    ensure!(self.is_there(), "it has executed another program");
                    // Before anything is written: whatever becomes of this process, they go on there.
                    for tracee in &mut stopped {
                        if let Some(address) = self.moved(tracee.instruction_pointer()) {
                            tracee.set_instruction_pointer(address)?;
                        }
                    }
                    let result = work(self);
                    stopped.iter().for_each(|tracee| self.note(tracee));
                    return result;
                }
            }
            std::thread::sleep(PAUSE);
        }
        bail!("its threads do not all stop at once ({why})")
    }

    /// Stops all, and those that they create meanwhile; none if one of them does not stop.
    fn stop_all(&mut self) -> Result<Option<Vec<Tracee>>> {
        let alive = || threads_alive(self.pid).into_iter().map(|(thread, _)| thread).collect();
        match Tracee::stop_process(self.pid, alive, PATIENCE) {
            Ok(stopped) => Ok(Some(stopped)),
            Err(troubles) => {
                // Those that are late have to be known before anything else is done.
                let refused = |(thread, trouble): &(u32, Trouble)| {
                    // The kernel refuses as well where a thread is ending.
                    let is_alive = || threads_alive(self.pid).iter().any(|(alive, _)| alive == thread);
                    !matches!(trouble, Trouble::Stuck) && is_alive()
                };
                let refused = troubles.iter().position(refused);
                let mut errors: Vec<_> =
                    troubles.into_iter().map(|(thread, trouble)| self.explain(thread, trouble)).collect();
                refused.map_or(Ok(None), |nth| Err(errors.swap_remove(nth)))
            }
        }
    }

    /// Whether a thread is in the midst of what a hook replaces, or goes back there from the handler of a signal.
    fn is_in_midst(&self, tracee: &Tracee) -> bool {
        let (Some(first), Some(last)) = (self.hooks.first(), self.hooks.last()) else { return false };
        let all = first.place..last.place + hooks::JUMP;
        let is_midst = |address: u64| {
            let nth = self.hooks.partition_point(|hook| hook.place <= address);
            all.contains(&address) && nth > 0 && self.hooks[nth - 1].midst().contains(&address)
        };
        let pointer = tracee.instruction_pointer();
        if is_midst(pointer) && self.moved(pointer).is_none() {
            return true;
        }
        // Go blocks all signals in its handlers, and its stacks lie beside others that are no longer used.
        let is_only_go = |program: &HookedProgram| program.go.is_some() && !program.has_libc();
        if tracee.mask() == 0 && self.hooked_program.as_ref().is_some_and(is_only_go) {
            return false;
        }
        tracee.may_return_to(&self.memory, is_midst)
    }

    /// Where a thread goes on that is right behind a system call which a hook replaces.
    fn moved(&self, pointer: u64) -> Option<u64> {
        let nth = self.hooks.partition_point(|hook| hook.place <= pointer).checked_sub(1)?;
        self.hooks[nth].moved(pointer)
    }
}

/// Where there may be so much room, so near that a jump reaches it: below the program, or else above it, unless its heap grows there.
fn room_near(place: u64, length: u64, areas: &[Area]) -> Vec<u64> {
    const FAR: u64 = 1 << 30;
    const DISTANCE: u64 = 64 << 10;
    /// Lower addresses are not mapped (`vm.mmap_min_addr`).
    const LOWEST: u64 = 64 << 10;
    let whole = length + 2 * DISTANCE;
    let below = (0..areas.len()).rev().filter(|nth| areas[*nth].start <= place).map(|nth| {
        let lowest = nth.checked_sub(1).map_or(LOWEST, |before| areas[before].end);
        (lowest, areas[nth].start)
    });
    let above = areas.windows(2).filter(|pair| pair[0].start > place && pair[1].name != "[heap]");
    let above = above.map(|pair| (pair[0].end, pair[1].start.min(pair[0].end.saturating_add(whole))));
    let is_enough = |(start, end): &(u64, u64)| end.saturating_sub(*start) >= whole;
    let starts = below.chain(above).filter(is_enough).map(|(_, end)| end - DISTANCE - length);
    starts.filter(|start| start.abs_diff(place) < FAR).take(8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_near_a_program() {
        let area = |start: u64, end: u64, name: &str| Area {
            start,
            end,
            is_writable: false,
            is_executable: true,
            file: (1, 1),
            name: name.to_owned(),
        };
        let fixed = [
            area(0x40_0000, 0x40_1000, "/a"),
            area(0x40_1000, 0x48_0000, "/a"),
            area(0x48_0000, 0x4c_0000, "/a"),
            area(0x10_0000_0000, 0x10_0010_0000, "[heap]"),
        ];
        assert_eq!(room_near(0x40_2000, 0x7000, &fixed), [0x3e_9000], "below, not where the heap grows");
        let of_one_segment = [area(0x40_0000, 0x64_e000, "/a"), area(0x4067_9000, 0x4069_a000, "[heap]")];
        assert_eq!(room_near(0x40_3a20, 0x7000, &of_one_segment), [0x3e_9000], "below what has the function");
        let high = [
            area(0x7f00_0000_0000, 0x7f00_0010_0000, ""),
            area(0x7f00_0010_0000, 0x7f00_0020_0000, "/a"),
            area(0x7f00_0020_0000, 0x7f00_0030_0000, "/a"),
            area(0x7fff_0000_0000, 0x7fff_0010_0000, "[stack]"),
        ];
        let found = room_near(0x7f00_0018_0000, 0x7000, &high);
        assert_eq!(found[0] & 0xffff, 0x9000);
        assert!(
            found.iter().all(|start| high.iter().all(|it| *start >= it.end || start + 0x7000 <= it.start))
        );
        assert!(room_near(0x7f00_0018_0000, FULL, &high).is_empty());
    }

    const FULL: u64 = 1 << 40;
}
