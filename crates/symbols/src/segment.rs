//! A function cut where its frames change.
//!
//! A pure function over what was read: inline trees and line-table rows in, segments out. One
//! sweep over all boundaries, so the cost is that of sorting them.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use crate::address::Svma;
use crate::alias::is_better;
use crate::function_name::FunctionName;
use crate::inline_tree::InlineTree;
use crate::scope::Scope;

/// A maximal range of addresses with the same frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The addresses.
    pub range: Range<Svma>,
    /// Innermost first: inlined functions, then the out-of-line function that they are part of.
    /// Empty where nothing at all is known.
    pub frames: Vec<Frame>,
}

impl Segment {
    /// The innermost frame that is in scope: the code a person would change.
    pub fn in_scope(&self) -> Option<&Frame> {
        self.frames.iter().find(|frame| frame.in_scope)
    }
}

/// One function at one place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function.
    pub function: FunctionName,
    /// The source file, joined with the compilation directory and tidied. It need not exist here.
    pub file: Option<Arc<str>>,
    /// The line that is executed; in all frames but the innermost, the line of the call. `None`
    /// for code that the compiler attributes to no line.
    pub line: Option<u32>,
    /// Whether the scope that was asked about contains the file.
    pub in_scope: bool,
}

/// An out-of-line function's code inside the container.
pub(crate) struct Part {
    pub range: Range<u64>,
    pub tree: Arc<InlineTree>,
}

/// A line-table row inside the container.
pub(crate) struct Row {
    pub range: Range<u64>,
    pub file: Option<Arc<str>>,
    pub line: Option<u32>,
}

/// A function's body at one place, ordered by depth: the largest open one is the innermost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Innermost {
    depth: usize,
    part: usize,
    node: usize,
}

/// At this address a function begins (true) or ends.
type Event = (u64, bool, Innermost);

/// Cuts `container`. `rows` are sorted and do not overlap, nor do `parts`. `symbol` names the code
/// that the debug information has no function for.
pub(crate) fn split(
    container: Range<u64>,
    parts: &[Part],
    rows: &[Row],
    symbol: Option<&FunctionName>,
    scope: &Scope,
) -> Vec<Segment> {
    if container.is_empty() {
        return Vec::new();
    }
    let (events, boundaries) = events(&container, parts, rows);
    let mut events = events.into_iter().peekable();
    let mut rows = rows.iter().peekable();
    let mut open: BTreeSet<Innermost> = BTreeSet::new();
    let mut build = Frames { parts, symbol, scope, known: HashMap::new() };
    let mut segments: Vec<Segment> = Vec::new();
    let mut previous = None;
    for pair in boundaries.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        while let Some((_, opens, innermost)) = events.next_if(|(at, ..)| *at <= start) {
            if opens {
                open.insert(innermost);
            } else {
                open.remove(&innermost);
            }
        }
        while rows.next_if(|row| row.range.end <= start).is_some() {}
        let row = rows.peek().copied().filter(|row| row.range.start <= start);
        let innermost = open.last().copied();
        let place = row.map(|row| (row.file.as_ref().map(Arc::as_ptr), row.line));
        let same_input = previous == Some((innermost, place));
        previous = Some((innermost, place));
        if same_input && let Some(last) = segments.last_mut() {
            last.range.end = Svma(end);
            continue;
        }
        let frames = build.frames(innermost, row);
        match segments.last_mut() {
            Some(last) if last.frames == frames => last.range.end = Svma(end),
            _ => segments.push(Segment { range: Svma(start)..Svma(end), frames }),
        }
    }
    segments
}

/// Where functions begin and end, in the order in which a sweep meets them, and all boundaries.
fn events(container: &Range<u64>, parts: &[Part], rows: &[Row]) -> (Vec<Event>, Vec<u64>) {
    let mut events = Vec::new();
    for (part, Part { range: own, tree }) in parts.iter().enumerate() {
        for (node, inlined) in tree.nodes.iter().enumerate() {
            let ranges = if node == 0 { std::slice::from_ref(own) } else { &inlined.ranges[..] };
            // An inlined function has no code outside the piece of its caller.
            let inside = ranges.iter().filter_map(|range| clip(range, own));
            for range in inside.filter_map(|range| clip(&range, container)) {
                let innermost = Innermost { depth: inlined.depth, part, node };
                events.push((range.start, true, innermost));
                events.push((range.end, false, innermost));
            }
        }
    }
    // At one address, ends (false) come before starts.
    events.sort_unstable();
    let mut boundaries: Vec<u64> = vec![container.start, container.end];
    boundaries.extend(events.iter().map(|(at, ..)| *at));
    let rows = rows.iter().filter_map(|row| clip(&row.range, container));
    boundaries.extend(rows.flat_map(|row| [row.start, row.end]));
    boundaries.sort_unstable();
    boundaries.dedup();
    (events, boundaries)
}

/// The part of `range` that is inside `bounds`, if any is.
fn clip(range: &Range<u64>, bounds: &Range<u64>) -> Option<Range<u64>> {
    let clipped = range.start.max(bounds.start)..range.end.min(bounds.end);
    (clipped.start < clipped.end).then_some(clipped)
}

struct Frames<'a> {
    parts: &'a [Part],
    symbol: Option<&'a FunctionName>,
    scope: &'a Scope,
    /// Globs are slow and files are few.
    known: HashMap<*const str, bool>,
}

impl Frames<'_> {
    fn frames(&mut self, innermost: Option<Innermost>, row: Option<&Row>) -> Vec<Frame> {
        let mut file = row.and_then(|row| row.file.clone());
        let mut line = row.and_then(|row| row.line);
        let Some(innermost) = innermost else {
            if row.is_none() && self.symbol.is_none() {
                return Vec::new();
            }
            let function = self.symbol.cloned().unwrap_or_else(FunctionName::unknown);
            return vec![self.frame(function, file, line)];
        };
        let nodes = &self.parts[innermost.part].tree.nodes;
        let mut frames = Vec::with_capacity(innermost.depth + 1);
        let mut next = Some(innermost.node);
        while let Some(node) = next.and_then(|index| nodes.get(index)) {
            let mut function = node.function.clone();
            // With minimal debug information (`line-tables-only`) functions have no path; the
            // symbol of the out-of-line function has.
            if node.parent.is_none()
                && let Some(symbol) = self.symbol
                && (function.is_unknown()
                    || symbol.matches(function.full())
                    || is_better(symbol.full(), function.full()))
            {
                function = symbol.clone();
            }
            frames.push(self.frame(function, file, line));
            (file, line) = (node.call_file.clone(), node.call_line);
            next = node.parent;
        }
        frames
    }

    fn frame(&mut self, function: FunctionName, file: Option<Arc<str>>, line: Option<u32>) -> Frame {
        let in_scope = file.as_ref().is_some_and(|file| {
            let scope = self.scope;
            *self.known.entry(Arc::as_ptr(file)).or_insert_with(|| scope.contains(Some(file)))
        });
        Frame { function, file, line, in_scope }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inline_tree::Node;
    use crate::scope::ScopeOptions;

    fn node(name: &str, parent: Option<usize>, depth: usize, ranges: &[Range<u64>]) -> Node {
        Node {
            function: FunctionName::from_demangled(name),
            parent,
            depth,
            call_file: parent.map(|_| "/p/call.rs".into()),
            call_line: parent.map(|parent| 100 + parent as u32),
            ranges: ranges.to_vec(),
        }
    }

    fn shown(segments: &[Segment]) -> Vec<String> {
        let frame = |frame: &Frame| {
            let line = frame.line.map_or("-".to_owned(), |line| line.to_string());
            format!("{}:{line}{}", frame.function, if frame.in_scope { "+" } else { "" })
        };
        segments
            .iter()
            .map(|segment| {
                let frames: Vec<String> = segment.frames.iter().map(frame).collect();
                format!("{}..{} {}", segment.range.start.0, segment.range.end.0, frames.join(" "))
            })
            .collect()
    }

    #[test]
    fn cut_at_rows_and_inlined_ranges() {
        let ours: Arc<str> = "/p/main.rs".into();
        let std: Arc<str> = "/rustc/abc/library/core/src/x.rs".into();
        let tree = Arc::new(InlineTree {
            nodes: vec![
                node("outer", None, 0, &[]),
                // Starts inside a row and has two pieces, the last one reaching beyond the code.
                node("std", Some(0), 1, &[15..30, 60..900]),
                node("deep", Some(1), 2, std::slice::from_ref(&(20..25))),
            ],
        });
        let row =
            |range: Range<u64>, file: &Arc<str>, line| Row { range, file: Some(Arc::clone(file)), line };
        let rows = [
            row(10..20, &ours, Some(1)),
            row(20..30, &std, Some(2)),
            row(30..35, &ours, Some(3)),
            row(35..40, &ours, Some(3)),
            row(50..70, &ours, None),
        ];
        let parts = [Part { range: 10..70, tree }];
        let scope = Scope::new(ScopeOptions::default()).unwrap();
        let symbol = FunctionName::from_demangled("symbol");
        let segments = split(5..75, &parts, &rows, Some(&symbol), &scope);
        assert_eq!(
            shown(&segments),
            [
                "5..10 symbol:-",
                "10..15 outer:1+",
                "15..20 std:1+ outer:100+",
                "20..25 deep:2 std:101+ outer:100+",
                "25..30 std:2 outer:100+",
                "30..40 outer:3+",
                "40..50 outer:-",
                "50..60 outer:-+",
                "60..70 std:-+ outer:100+",
                "70..75 symbol:-",
            ]
        );
        assert_eq!(segments[4].in_scope().unwrap().function.full(), "outer");
        assert_eq!(shown(&split(0..9, &[], &[], None, &scope)), ["0..9 "]);
        assert!(split(9..9, &parts, &rows, None, &scope).is_empty());
    }
}
