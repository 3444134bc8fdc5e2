//! Names: the functions and source files at positions of images. A text is kept once, no matter what uses it.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::{ImageId, Offset, Symbol};

/// What is known about positions in an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownPositions {
    /// What they stand for, innermost inlined function first.
    pub named: HashMap<Offset, Vec<Symbol>>,
    /// Those that could not be named, and what was searched then (see
    /// [`remember_symbols`](super::Database::remember_symbols)).
    pub nameless: HashMap<Offset, u32>,
}

/// What is known about positions in images; each of them has an entry.
pub(super) fn read(
    from: &Connection,
    images: &[ImageId],
) -> rusqlite::Result<HashMap<ImageId, KnownPositions>> {
    let mut known: HashMap<ImageId, KnownPositions> =
        images.iter().map(|image| (*image, KnownPositions::default())).collect();
    let mut rows: Vec<(ImageId, Offset, [i64; 2], u32)> = Vec::new();
    let mut select = from.prepare_cached(
        "SELECT \"offset\", position, function, file, line FROM symbols WHERE image = ? ORDER BY \"offset\", position",
    )?;
    for &image in images {
        let mut found = select.query([image.get()])?;
        while let Some(row) = found.next()? {
            let offset = Offset(row.get::<_, i64>(0)? as u64);
            if row.get::<_, i64>(1)? == NAMELESS {
                known.entry(image).or_default().nameless.insert(offset, row.get(4)?);
            } else {
                rows.push((image, offset, [row.get(2)?, row.get(3)?], row.get(4)?));
            }
        }
    }
    let texts = texts(from, rows.iter().flat_map(|(_, _, names, _)| *names).collect())?;
    let text = |id: i64| texts.get(&id).cloned().unwrap_or_default();
    for of_position in
        rows.chunk_by(|(image, offset, ..), (other, next, ..)| (image, offset) == (other, next))
    {
        let (image, offset, ..) = of_position[0];
        let symbols = of_position
            .iter()
            .map(|(_, _, [function, file], line)| Symbol {
                function: text(*function),
                file: text(*file),
                line: *line,
            })
            .collect();
        known.entry(image).or_default().named.insert(offset, symbols);
    }
    Ok(known)
}

/// Takes the place of a number among the symbols of a position that could not be named; its line records what was searched.
const NAMELESS: i64 = -1;

/// The texts of names.
fn texts(from: &Connection, mut wanted: Vec<i64>) -> rusqlite::Result<HashMap<i64, Arc<str>>> {
    wanted.sort_unstable();
    wanted.dedup();
    let mut texts: HashMap<i64, Arc<str>> = HashMap::with_capacity(wanted.len());
    let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else { return Ok(texts) };
    // To go through all of them takes less than to look for every third.
    if wanted.len() as i64 > last.saturating_sub(first) / 3 {
        let mut select = from.prepare_cached("SELECT id, text FROM names WHERE id BETWEEN ? AND ?")?;
        let mut found = select.query([first, last])?;
        while let Some(row) = found.next()? {
            texts.insert(row.get(0)?, row.get(1)?);
        }
    } else {
        let mut select = from.prepare_cached("SELECT text FROM names WHERE id = ?")?;
        for id in wanted {
            if let Some(text) = select.query_row([id], |row| row.get(0)).optional()? {
                texts.insert(id, text);
            }
        }
    }
    Ok(texts)
}

/// Keeps what one position of an image stands for; `replace` what was kept before, or leave names that there are.
pub(super) fn insert(
    to: &Connection,
    image: i64,
    offset: u64,
    symbols: &[Symbol],
    replace: bool,
) -> rusqlite::Result<()> {
    let key = params![image, offset as i64];
    if replace {
        to.prepare_cached("DELETE FROM symbols WHERE image = ? AND \"offset\" = ?")?.execute(key)?;
    } else if !forget_nameless(to, image, offset)? {
        return Ok(());
    }
    let mut add = to.prepare_cached("INSERT INTO symbols VALUES (?, ?, ?, ?, ?, ?)")?;
    for (position, symbol) in (0_i64..).zip(symbols) {
        let (function, file) = (intern(to, &symbol.function)?, intern(to, &symbol.file)?);
        add.execute(params![image, offset as i64, position, function, file, symbol.line])?;
    }
    Ok(())
}

/// Keeps that one position of an image has no name, unless it has.
pub(super) fn insert_nameless(
    to: &Connection,
    image: i64,
    offset: u64,
    searched: u32,
) -> rusqlite::Result<()> {
    if forget_nameless(to, image, offset)? {
        to.prepare_cached("INSERT INTO symbols VALUES (?, ?, ?, 0, 0, ?)")?.execute(params![
            image,
            offset as i64,
            NAMELESS,
            searched
        ])?;
    }
    Ok(())
}

/// Whether a position has no names; that it could not be named is forgotten.
fn forget_nameless(to: &Connection, image: i64, offset: u64) -> rusqlite::Result<bool> {
    to.prepare_cached("DELETE FROM symbols WHERE image = ? AND \"offset\" = ? AND position = ?")?
        .execute(params![image, offset as i64, NAMELESS])?;
    let has_names = to
        .prepare_cached("SELECT 1 FROM symbols WHERE image = ? AND \"offset\" = ?")?
        .exists(params![image, offset as i64])?;
    Ok(!has_names)
}

/// The key of a name, which is added if it is new; 0 for none.
fn intern(to: &Connection, name: &str) -> rusqlite::Result<i64> {
    if name.is_empty() {
        return Ok(0);
    }
    let hash = hash(name);
    let known = to
        .prepare_cached("SELECT id FROM names WHERE hash = ? AND text = ?")?
        .query_row(params![hash, name], |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    to.prepare_cached("INSERT INTO names (hash, text) VALUES (?, ?)")?.execute(params![hash, name])?;
    Ok(to.last_insert_rowid())
}

/// Finds a name again; it need not be the only one.
fn hash(name: &str) -> i64 {
    let mut hash = name.len() as u64;
    for &byte in name.as_bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    // 32 bits are less bytes in the file, and enough to find it.
    i64::from((hash >> 32) as u32)
}
