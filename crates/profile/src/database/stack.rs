//! Stacks: written and read.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Transaction, params};

use super::fault::Fault;
use super::recording::{count, has_table, keyed, span, table};
use crate::model::{
    Frame, Function, FunctionId, Image, Rows, SessionId, StackFrame, StackId, StackSamples, Stacks,
};
use storage::{integer, ns};

/// Writes the samples of some stacks; frames that are new are added.
pub(super) fn set(to: &Transaction<'_>, session: SessionId, stacks: &Stacks) -> rusqlite::Result<()> {
    let mut functions = Key {
        find: to.prepare_cached(
            "SELECT id FROM functions WHERE name = ? AND file = ? AND image_path = ? AND build_id = ?",
        )?,
        add: to
            .prepare_cached("INSERT INTO functions (name, file, image_path, build_id) VALUES (?, ?, ?, ?)")?,
    };
    let mut of_function = Vec::with_capacity(stacks.functions.len());
    for Function { name, file, image } in &stacks.functions {
        let (file, build) = (file.as_deref().unwrap_or(""), image.build_id.as_deref().unwrap_or(""));
        of_function.push(functions.of(to, params![name, file, image.path, build])?);
    }
    let mut frames = Key {
        find: to.prepare_cached(
            "SELECT id FROM stacks WHERE parent = ? AND function = ? AND line = ? AND inlined = ?",
        )?,
        add: to.prepare_cached("INSERT INTO stacks (parent, function, line, inlined) VALUES (?, ?, ?, ?)")?,
    };
    let mut of_frame: Vec<i64> = Vec::with_capacity(stacks.frames.len());
    for Frame { parent, function, line, inlined } in &stacks.frames {
        let parent = parent.map_or(0, |parent| of_frame[parent]);
        let row = params![parent, of_function[*function], line.unwrap_or(0), inlined];
        of_frame.push(frames.of(to, row)?);
    }
    let mut replace = to.prepare_cached("INSERT OR REPLACE INTO stack_samples VALUES (?, ?, ?, ?)")?;
    for &(frame, count, weight) in &stacks.samples {
        replace.execute(params![session.get(), of_frame[frame], integer(count), ns(weight)])?;
    }
    Ok(())
}

/// How the key of a row is found, or made.
struct Key<'c> {
    find: CachedStatement<'c>,
    add: CachedStatement<'c>,
}

impl Key<'_> {
    fn of(&mut self, to: &Transaction<'_>, row: impl Params + Copy) -> rusqlite::Result<i64> {
        if let Some(known) = self.find.query_row(row, |row| row.get(0)).optional()? {
            return Ok(known);
        }
        self.add.execute(row)?;
        Ok(to.last_insert_rowid())
    }
}

/// The stacks of a session that another recording has.
pub(super) fn of(rows: &Rows, session: SessionId) -> Stacks {
    let mut stacks = Stacks::default();
    let sampled = rows.stack_samples.iter().filter(|samples| samples.session == session);
    let mut places = Places::default();
    for samples in sampled {
        let frame = places.of(rows, samples.stack, &mut stacks);
        stacks.samples.push((frame, samples.count, samples.weight));
    }
    stacks
}

/// Where functions and frames of a recording stand in a list.
#[derive(Default)]
struct Places {
    functions: HashMap<FunctionId, usize>,
    frames: HashMap<StackId, usize>,
}

impl Places {
    /// The place of a stack, which is added with its callers.
    fn of(&mut self, rows: &Rows, stack: StackId, to: &mut Stacks) -> usize {
        // From the inside to the first frame that is there, and back.
        let mut missing = Vec::new();
        let mut next = Some(stack);
        while let Some(id) = next.filter(|id| !self.frames.contains_key(id)) {
            missing.push(id);
            next = rows.stacks[&id].parent;
        }
        for id in missing.into_iter().rev() {
            let Frame { parent, function, line, inlined } = rows.stacks[&id];
            let function = *self.functions.entry(function).or_insert_with(|| {
                to.functions.push(rows.functions[&function].clone());
                to.functions.len() - 1
            });
            let parent = parent.map(|parent| self.frames[&parent]);
            to.frames.push(Frame { parent, function, line, inlined });
            self.frames.insert(id, to.frames.len() - 1);
        }
        self.frames[&stack]
    }
}

/// What a recording has of stacks.
pub(super) struct Read {
    pub(super) functions: BTreeMap<FunctionId, Function>,
    pub(super) stacks: BTreeMap<StackId, StackFrame>,
    pub(super) samples: Vec<StackSamples>,
}

/// Earlier layouts have no such tables.
pub(super) fn read(from: &Connection) -> Result<Read, Fault> {
    if !has_table(from, "stacks")? {
        return Ok(Read { functions: BTreeMap::new(), stacks: BTreeMap::new(), samples: Vec::new() });
    }
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let sql = "SELECT id, name, file, image_path, build_id FROM functions";
    let functions = keyed(from, "functions", sql, |row| {
        let image = Image { path: row.get(3)?, build_id: some(row.get(4)?) };
        Ok((FunctionId::new(row.get(0)?), Function { name: row.get(1)?, file: some(row.get(2)?), image }))
    })?;
    let sql = "SELECT id, parent, function, line, inlined FROM stacks";
    let stacks = keyed(from, "stacks", sql, |row| {
        let (parent, line): (i64, u32) = (row.get(1)?, row.get(3)?);
        let frame = Frame {
            parent: Some(parent).filter(|parent| *parent != 0).map(StackId::new),
            function: FunctionId::new(row.get(2)?),
            line: Some(line).filter(|line| *line > 0),
            inlined: row.get(4)?,
        };
        Ok((StackId::new(row.get(0)?), frame))
    })?;
    let sql = "SELECT session, stack, count, weight_ns FROM stack_samples ORDER BY session, stack";
    let samples = table(from, "stack_samples", sql, |row| {
        Ok(StackSamples {
            session: SessionId::new(row.get(0)?),
            stack: StackId::new(row.get(1)?),
            count: count(row, 2)?,
            weight: span(row, 3)?,
        })
    })?;
    Ok(Read { functions, stacks, samples })
}
