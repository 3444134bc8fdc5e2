//! Compaction: the segments of an hour become one, those of a day as well.

use super::catalogue::{self, RowFacts, Segment};
use super::rewrite::{Changes, rewrite, unreadable};
use super::store::key;
use super::{CodeImage, ImageKind, Store, TOO_MANY_STACKS, UnixSeconds};
use storage::Error;

/// What was merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    /// Segments that were read.
    pub read: usize,
    /// Segments that were written.
    pub written: usize,
    /// Bytes of the segments, before and after.
    pub bytes: (u64, u64),
}

/// Of each level but the last, the length of the span whose segments become one of the next.
const SPANS: [i64; 2] = [3600, 86_400];
/// The level of what cannot be read: it is left as it is.
pub(super) const UNREADABLE: i64 = SPANS.len() as i64 + 1;
/// How long after the end of a span something may still come in that belongs to it.
const GRACE: i64 = 120;
/// The most segments that are merged at a time.
const MOST_INPUTS: usize = 120;

impl Store {
    /// Merges small segments that are over into larger ones, a bounded amount of work for each call: one hour or one
    /// day of an epoch. There may be more to do as long as the answer is not [`Compaction::default`]. A day may take
    /// seconds; meanwhile `breathe` is called every few milliseconds.
    ///
    /// # Errors
    ///
    /// See [`machine`](Self::machine). A segment that cannot be read is an error once; afterwards it is left as it is.
    pub fn compact(&mut self, now: UnixSeconds, breathe: &mut dyn FnMut()) -> Result<Compaction, Error> {
        let segments = catalogue::segments(&self.connection).map_err(|e| self.wrong(e))?;
        let ended: Vec<_> = catalogue::epochs(&self.connection)
            .map_err(|e| self.wrong(e))?
            .into_iter()
            .filter(|epoch| epoch.ended.is_some())
            .map(|epoch| epoch.id)
            .collect();
        let is_over = |run: &Run| {
            let end = (run.bucket.0 + 1).saturating_mul(SPANS[run.bucket.1]).saturating_add(GRACE);
            // The clock was set back.
            let never = run.inputs[0].begin.0 > now.0.saturating_add(SPANS[0]);
            now.0 >= end || never || ended.contains(&run.inputs[0].epoch)
        };
        for level in 0..SPANS.len() {
            let due = runs(&segments, level).into_iter().find(is_over);
            if let Some(run) = due {
                return self.merge_run(&run, breathe);
            }
        }
        Ok(Compaction::default())
    }

    fn merge_run(&mut self, run: &Run, breathe: &mut dyn FnMut()) -> Result<Compaction, Error> {
        let level = run.bucket.1 as i64 + 1;
        let inputs = &run.inputs[..run.inputs.len().min(MOST_INPUTS)];
        if let [only] = inputs {
            self.write("raise a level", |to| {
                to.execute("UPDATE segments SET level = ? WHERE id = ?", [level, only.id]).map(drop)
            })?;
            return Ok(Compaction { read: 1, written: 1, bytes: (only.bytes, only.bytes) });
        }
        let mark = self.image(&CodeImage {
            path: TOO_MANY_STACKS.to_owned(),
            build_id: String::new(),
            kind: ImageKind::Memory,
        })?;
        let changes = Changes { mark: Some(key(mark.get())), ..Changes::default() };
        let rewritten = rewrite(&self.segments, inputs, changes, &self.segments, &mut self.steps, breathe);
        let (used, written, files) = self.or_leave_out(inputs, rewritten)?;
        let inputs = &inputs[..used];
        let flushes = (inputs[0].first_flush, inputs[used - 1].last_flush);
        let facts = RowFacts { epoch: inputs[0].epoch, flushes, resolution: inputs[0].resolution, level };
        self.write_with_keys("write a merged segment into the catalogue", |to| {
            inputs.iter().try_for_each(|input| catalogue::delete_segment(to, input.id))?;
            catalogue::insert_segment(to, facts, &written)
        })?;
        files.keep();
        self.remove_files(inputs.iter().flat_map(Segment::files));
        let before = inputs.iter().map(|input| input.bytes).sum();
        Ok(Compaction {
            read: used,
            written: 1,
            bytes: (before, written.stacks_bytes + written.samples_bytes),
        })
    }

    /// Where one of `inputs` could not be read, the others are next time merged and thinned out without it.
    pub(super) fn or_leave_out<T>(
        &mut self,
        inputs: &[Segment],
        rewritten: Result<T, Error>,
    ) -> Result<T, Error> {
        if let Err(error) = &rewritten
            && let Some(segment) = unreadable(error, inputs)
        {
            self.write("leave a segment out", |to| {
                to.execute("UPDATE segments SET level = ? WHERE id = ?", [UNREADABLE, segment.id]).map(drop)
            })?;
        }
        rewritten
    }
}

/// Segments that may become one: of one epoch, flushed one after the other, of the same span of time, with time buckets of
/// the same length.
struct Run {
    /// Number and level of the span.
    bucket: (i64, usize),
    inputs: Vec<Segment>,
}

fn runs(segments: &[Segment], level: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut before: Option<(&Segment, i64)> = None;
    for segment in segments {
        let number = segment.begin.0.div_euclid(SPANS[level]);
        let is_one = segment.level == level as i64;
        let follows = before.is_some_and(|(before, of)| {
            // A day that was thinned out in part would pass for one that was as a whole.
            before.epoch == segment.epoch
                && before.level == level as i64
                && before.resolution == segment.resolution
                && of == number
        });
        match runs.last_mut() {
            Some(run) if is_one && follows => run.inputs.push(segment.clone()),
            _ if is_one => runs.push(Run { bucket: (number, level), inputs: vec![segment.clone()] }),
            _ => {}
        }
        before = Some((segment, number));
    }
    runs
}
