//! A profile for Firefox Profiler (<https://profiler.firefox.com>), in its processed format.
//!
//! Each program is a process with one thread, and each stack one sample with the weight of all that were taken
//! there, see `stacks.rs`. They stand one after the other, each as long as the time it stands for: the order in time
//! means nothing. The categories, and so the colours, are the verdicts: green helps, red hurts.

use std::time::Duration;

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Profile as Processed,
    ReferenceTimestamp, SamplingInterval, Timestamp, WeightType,
};
use profile::{Nanos, Profile, RegionId, Verdict, printable};

use crate::stacks;

/// One line of JSON.
pub fn render(profile: &Profile) -> String {
    let first = profile.rows.sessions.first().map(|session| &session.start);
    let started = first.map_or(Nanos::ZERO, |start| start.started);
    let period = first.map_or(Nanos::from_millis(1), |start| start.sample_period);
    let mut to = Processed::new(
        "whatif",
        ReferenceTimestamp::from_duration_since_unix_epoch(Duration::from_nanos(started.get())),
        SamplingInterval::from_nanos(period.get().max(1)),
    );
    to.set_os_name("Linux");
    // The names are final: there is no source of better ones.
    to.set_symbolicated(true);
    let categories = Categories::new(&mut to);
    let stacks = stacks::of(profile);
    for (nth, of_program) in (1..).zip(stacks.chunk_by(|one, other| one.program == other.program)) {
        let name = printable(of_program[0].program);
        let start = Timestamp::from_nanos_since_reference(0);
        let process = to.add_process(&name, nth, start);
        let thread = to.add_thread(process, nth, start, true);
        to.set_thread_name(thread, &name);
        to.set_thread_samples_weight_type(thread, WeightType::Samples);
        let mut now = 0;
        for stack in of_program {
            // The program is what its outermost function is.
            let program = (stack.program, stack.frames[0].regions);
            let frames: Vec<FrameInfo> = std::iter::once(program)
                .chain(stack.names())
                .map(|(name, regions)| FrameInfo {
                    frame: Frame::Label(to.intern_string(&printable(name))),
                    category_pair: categories.of(profile, regions).into(),
                    flags: FrameFlags::empty(),
                })
                .collect();
            let handle = to.intern_stack_frames(thread, frames.into_iter());
            let own = stack.tally;
            now += own.weight.get();
            let weight = i32::try_from(own.count).unwrap_or(i32::MAX);
            let (time, cpu) =
                (Timestamp::from_nanos_since_reference(now), CpuDelta::from_nanos(own.weight.get()));
            to.add_sample(thread, time, handle, cpu, weight);
        }
        let end = Timestamp::from_nanos_since_reference(now);
        to.set_thread_end_time(thread, end);
        to.set_process_end_time(process, end);
    }
    let mut text = serde_json::to_string(&to).expect("strings and numbers always serialize");
    text.push('\n');
    text
}

struct Categories {
    helps: CategoryHandle,
    hurts: CategoryHandle,
    no_effect: CategoryHandle,
    not_enough: CategoryHandle,
}

impl Categories {
    fn new(to: &mut Processed) -> Categories {
        Categories {
            helps: to.add_category("helps", CategoryColor::Green),
            hurts: to.add_category("hurts", CategoryColor::Red),
            no_effect: to.add_category("no effect", CategoryColor::LightBlue),
            not_enough: to.add_category("not enough data yet", CategoryColor::Yellow),
        }
    }

    /// What is known about the first of some regions that was tried; the others are "Other".
    fn of(&self, profile: &Profile, regions: [Option<RegionId>; 2]) -> CategoryHandle {
        let of = |id: RegionId| profile.regions.iter().find(|estimate| estimate.region == id);
        let estimate = regions.into_iter().flatten().find_map(of);
        match estimate.map(|estimate| estimate.verdict()) {
            Some(Verdict::Helps) => self.helps,
            Some(Verdict::Hurts) => self.hurts,
            Some(Verdict::NoEffect) => self.no_effect,
            Some(Verdict::NotEnoughData) => self.not_enough,
            Some(Verdict::Idle | Verdict::NotTrusted) | None => CategoryHandle::OTHER,
        }
    }
}
