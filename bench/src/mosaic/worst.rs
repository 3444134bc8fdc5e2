//! The programs that the predictions are most wrong about, and the smallest ones that they are still wrong about.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::Result;
use mosaic::Program;

use super::piece::Piece;
use super::tally::{Run, runs};
use crate::calibration::coverage::PROFILER;
use crate::machine::{Machine, Patience};
use crate::native;
use crate::profiler::Whatif;
use crate::truth::ask;
use crate::truth::plan::Plan;
use crate::truth::row::Row;

/// A row with this error, in points, is worth a smaller program.
const WRONG: f64 = 8.0;

/// The runs with the largest error of each program, the worst first.
pub fn worst(rows: &[Row], most: usize) -> Vec<Run<'_>> {
    let mut runs = runs(rows);
    runs.sort_by(|a, b| b.worst().total_cmp(&a.worst()));
    let mut found: Vec<Run> = Vec::new();
    for run in runs {
        if found.len() < most && found.iter().all(|one| one.target != run.target) {
            found.push(run);
        }
    }
    found
}

/// What measuring a smaller program takes.
pub struct Shrinker<'a> {
    pub plan: &'a Plan,
    pub whatif: &'a Whatif,
    pub machine: &'a Machine,
    /// How long one program may take.
    pub minutes: f64,
}

impl Shrinker<'_> {
    /// The smallest program that is still wrong about the region and speedup of the run's largest error, by more than half of it;
    /// nothing if the error does not come again.
    pub fn shrink(&self, piece: &Piece, run: &Run) -> Result<Option<Program>> {
        let Some(row) =
            run.rows.iter().max_by(|a, b| a.error(PROFILER).abs().total_cmp(&b.error(PROFILER).abs()))
        else {
            return Ok(None);
        };
        let bound = (row.error(PROFILER).abs() / 2.0).max(WRONG);
        let until = Instant::now() + Duration::from_secs_f64(self.minutes * 60.0);
        let tried = Cell::new(0);
        let is_wrong = |program: &Program| {
            if Instant::now() >= until {
                return false;
            }
            tried.set(tried.get() + 1);
            // Twice: an error that is chance does not come twice in a row.
            let wrong = (0..2).all(|_| match self.surely_wrong(program, row, bound) {
                Ok(wrong) => wrong,
                Err(error) => {
                    eprintln!("{} smaller: {error:#}", piece.name);
                    false
                }
            });
            eprintln!(
                "{}: {} steps, {}",
                piece.name,
                program.steps().count(),
                if wrong { "still wrong" } else { "right" }
            );
            wrong
        };
        let program = piece.program()?;
        if !is_wrong(&program) {
            return Ok(None);
        }
        Ok(Some(mosaic::smallest(program, is_wrong)))
    }

    /// Whether the error exceeds `bound` points, even where the truth's interval comes nearest.
    fn surely_wrong(&self, program: &Program, row: &Row, bound: f64) -> Result<bool> {
        let asked = program.asked(usize::from(mosaic::program::REGIONS));
        if !asked.iter().any(|region| mosaic::program::region_name(*region) == row.region) {
            return Ok(false);
        }
        let piece = Piece::of_program("smaller".to_owned(), program, &row.region);
        let patience = Patience::new(1, Duration::from_secs_f64(self.plan.profile_seconds));
        let speedups = [row.speedup];
        let truths = native::truths(&piece, &speedups, self.plan.effort, self.machine, &patience)?;
        let profilers: [Box<dyn crate::profiler::Profiler + '_>; 1] = [Box::new(self.whatif)];
        let rows = ask(&piece, &truths, &speedups, self.plan, &profilers, self.machine, &patience);
        Ok(rows.iter().all(|row| {
            let answered = row.predictions.values().any(Option::is_some);
            answered && row.sure_error(PROFILER) > bound
        }))
    }
}
