//! Points in programs that the first one and its children have executed: each such process is looked at once, before its first instruction if it waits for that,
//! and watched by breakpoints of its own, which its forked children inherit.

use super::{Counting, Placed, PointSpec, Points, Spread, guard};
use crate::images::{Images, Spot, instruction};
use kernel::SharedMapping;
use kernel::maps::FileId;
use kernel::visits::{Counter, Instruction, Means};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use symbols::{FileOffset, Image, Scope};
use wire::slot::Slot;

/// What is known of executed programs.
#[derive(Default)]
pub struct Known {
    /// The programs that points were looked for in, by their numbers among those that were executed.
    programs: HashSet<u32>,
    images: HashMap<FileId, Option<Arc<Image>>>,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").field("programs", &self.programs).finish_non_exhaustive()
    }
}

impl Known {
    fn image(&mut self, path: &Path, file: FileId) -> Option<Arc<Image>> {
        self.images.entry(file).or_insert_with(|| Image::open(path).ok().map(Arc::new)).clone()
    }

    /// Where places are in a process, each with its number, and in the file.
    fn find(
        &mut self,
        pid: u32,
        specs: &[&PointSpec],
        images: &Images,
        scope: &Scope,
    ) -> Vec<(usize, Instruction, Spot)> {
        let mut found = Vec::new();
        if specs.is_empty() {
            return found;
        }
        for mapping in kernel::maps(pid).unwrap_or_default() {
            let code = mapping.executable && !mapping.deleted;
            let path = mapping.path.as_deref().filter(|path| code && images.may_have_points(path));
            let Some(image) = path.and_then(|path| self.image(path, mapping.file)) else { continue };
            let Some(bias) = image.bias(mapping.start.0, FileOffset(mapping.offset.0)) else { continue };
            for (nth, spec) in specs.iter().enumerate() {
                found.extend(spec.entries(&image, scope).into_iter().filter_map(|entry| {
                    let instruction = instruction(&image, bias, entry)?;
                    // The image may have several pieces of code.
                    mapping.offset_of(instruction.address)?;
                    let spot = (image.path().to_string_lossy().into_owned(), entry.0.0);
                    Some((nth, instruction, spot))
                }));
            }
        }
        found
    }
}

impl Points {
    /// Places the points in processes that have executed a program since this was called last, and gives up those in processes that are gone.
    pub fn follow_executed(&self, specs: &[PointSpec], images: &Images, scope: &Scope) {
        let chosen = self.chosen.get().map(|(spec, placed)| (placed, spec));
        let points = self.placed.iter().zip(specs).chain(chosen);
        let points: Vec<(&Placed, &PointSpec)> = points.filter(|(_, spec)| spec.is_in_image()).collect();
        let mut known = self.executed.lock().unwrap_or_else(PoisonError::into_inner);
        // A process that has forked others may end before them; what counts in it counts in them.
        let live: HashSet<u32> =
            self.threads_of_executed().map(|slot| slot.generation.load(Ordering::Relaxed)).collect();
        known.programs.retain(|program| {
            let stays = live.contains(program);
            if !stays {
                let is_its = |spread: &Spread| spread.is_of_program(*program);
                points.iter().for_each(|(placed, _)| placed.leave(is_its));
            }
            stays
        });
        for program in self.programs() {
            if known.programs.insert(program.0) {
                self.place_in(program, &mut known, &points, images, scope);
            }
        }
        let is_known = |slot: &&Slot| known.programs.contains(&slot.generation.load(Ordering::Relaxed));
        let waiting = self.threads_of_executed().filter(|slot| slot.placed.load(Ordering::Relaxed) == 0);
        waiting.filter(is_known).for_each(SharedMapping::let_go);
    }

    /// The threads of programs that were executed, and of what these have forked.
    fn threads_of_executed(&self) -> impl Iterator<Item = &'static Slot> {
        let is_executed =
            |slot: &&Slot| slot.is_taken() && slot.is_executed() && slot.tid.load(Ordering::Acquire) != 0;
        self.memory.slots.used().iter().filter(is_executed)
    }

    /// The numbers of these programs, with their processes, without what these have forked.
    fn programs(&self) -> HashMap<u32, u32> {
        let process =
            |slot: &Slot| (slot.generation.load(Ordering::Relaxed), slot.pid.load(Ordering::Relaxed));
        self.threads_of_executed().filter(|slot| slot.has_executed_itself()).map(process).collect()
    }

    fn place_in(
        &self,
        (program, pid): (u32, u32),
        known: &mut Known,
        points: &[(&Placed, &PointSpec)],
        images: &Images,
        scope: &Scope,
    ) {
        let specs: Vec<&PointSpec> = points.iter().map(|(_, spec)| *spec).collect();
        for (nth, instruction, spot) in known.find(pid, &specs, images, scope) {
            let (placed, spec) = points[nth];
            match self.watch_in((program, pid), placed, &instruction) {
                Ok(true) => {
                    placed.spots.lock().unwrap_or_else(PoisonError::into_inner).insert(spot);
                }
                Ok(false) => {}
                Err(error) => {
                    let _ = placed.refused.set(format!("{}: {error}", spec.place));
                }
            }
        }
    }

    /// Places a point in those that were executed before.
    pub(super) fn find_in_executed(&self, point: (&Placed, &PointSpec), images: &Images, scope: &Scope) {
        let mut known = self.executed.lock().unwrap_or_else(PoisonError::into_inner);
        for program in self.programs() {
            known.programs.insert(program.0);
            self.place_in(program, &mut known, &[point], images, scope);
        }
    }

    /// Where places, each with its number, are in the processes that have executed a program, and in the files.
    pub fn in_executed(
        &self,
        specs: &[&PointSpec],
        images: &Images,
        scope: &Scope,
    ) -> Vec<(usize, u32, Instruction, Spot)> {
        let mut known = self.executed.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |(_, pid)| {
            let mut found = known.find(pid, specs, images, scope);
            // They would have to be switched on for that.
            found.retain(|(_, instruction, _)| instruction.guard.is_none());
            found.into_iter().map(move |(nth, instruction, spot)| (nth, pid, instruction, spot))
        };
        self.programs().into_iter().flat_map(find).collect()
    }

    /// Whether it is watched by a breakpoint of this process.
    fn watch_in(
        &self,
        (program, pid): (u32, u32),
        placed: &Placed,
        instruction: &Instruction,
    ) -> std::io::Result<bool> {
        let is_guarded = instruction.guard.is_some();
        if placed.is_in_file(instruction)
            || is_guarded && guard::prefers_uprobes() && placed.watch_in_file(instruction).is_ok()
        {
            return Ok(false);
        }
        let noted = placed.noted.and_then(|noted| {
            self.guarded(program, &[pid], instruction, || self.trap(pid, instruction.address, noted)).ok()
        });
        let by_breakpoint = || Counter::by(Means::Breakpoint, &[pid], instruction);
        match noted.map_or_else(|| self.guarded(program, &[pid], instruction, by_breakpoint), Ok) {
            Ok(counting) => {
                let of = Some(instruction.file.clone()).filter(|_| is_guarded);
                placed.executed().push((Spread::Program(program, of), counting));
                Ok(true)
            }
            Err(error) if is_guarded => placed.watch_in_file(instruction).map(|()| false).map_err(|_| error),
            Err(error) => Err(error),
        }
    }
}

impl Placed {
    /// Whether a uprobe counts an instruction wherever its file is executed.
    fn is_in_file(&self, instruction: &Instruction) -> bool {
        let by_uprobe = |watch: &super::Watch| {
            watch.counter.means() == Some(Means::Uprobe) && watch.file.as_ref() == Some(&instruction.file)
        };
        let of_file = |(spread, _): &(Spread, Counting)| *spread == Spread::File(instruction.file.clone());
        self.counters().iter().any(by_uprobe) || self.executed().iter().any(of_file)
    }

    /// Watches an instruction by a uprobe in all processes that execute its file.
    fn watch_in_file(&self, instruction: &Instruction) -> std::io::Result<()> {
        // What the first program has of it is counted already.
        if self.counters().iter().any(|watch| watch.file.as_ref() == Some(&instruction.file)) {
            return Err(std::io::ErrorKind::AlreadyExists.into());
        }
        let counter = Counter::by(Means::Uprobe, &[], instruction)?;
        // So is what executed programs had so far.
        self.leave(|spread| spread.is_of(&instruction.file));
        self.executed().push((Spread::File(instruction.file.clone()), Counting::Kernel(counter)));
        Ok(())
    }

    /// These are gone, or counted otherwise from now on; what was counted in them stays.
    fn leave(&self, is_gone: impl Fn(&Spread) -> bool) {
        let mut executed = self.executed();
        let (gone, stay): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *executed).into_iter().partition(|(of, _)| is_gone(of));
        *executed = stay;
        let counted = gone.iter().map(|(_, counter)| counter.count()).fold(0, u64::wrapping_add);
        self.past.fetch_add(counted, Ordering::Relaxed);
    }
}
