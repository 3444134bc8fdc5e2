//! Flame: the stacks of all machines as a flame graph, put together and named by `cycles` as for a local database.

use crate::answers::{ALWAYS, asked, code_of, headed, question, text_of};
use crate::arguments;
use crate::error::Error;
use crate::source::Source;
use crate::stacks::Stacked;
use archive::Tree;
use cycles::counted::{self, CountedStacks};
use cycles::{Flame, Heading};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// `whatif fleet flame`.
pub fn flame(source: &mut dyn Source, args: &arguments::Flame) -> Result<(Heading, Flame), Error> {
    let mut question = question(&args.which, ALWAYS)?;
    question.who.clone_from(&args.roots.0);
    let (_, mut heading) = headed(source, &mut question, args.which.event.as_deref())?;
    let Stacked { rows, frames, samples } = source.stacks(&question, args.most as usize)?;
    if samples == 0 {
        return Err(Error::Nothing { place: source.place(), asked: asked(&question) });
    }
    let mut groups: BTreeMap<Vec<String>, Vec<(u32, u64)>> = BTreeMap::new();
    let mut shown: u64 = 0;
    for row in rows {
        // What has no frames is shown with the rest.
        let Some(frame) = frames.innermost(&row.stack) else { continue };
        let who = question.who.iter().map(|who| text_of(who, &row.who)).collect();
        groups.entry(who).or_default().push((frame, row.count));
        shown = shown.saturating_add(row.count);
    }
    let frames = frames.all();
    let order: BTreeSet<(&str, u64)> = frames.iter().map(|(place, _)| *place).collect();
    let order: Vec<(&str, u64)> = order.into_iter().collect();
    let index: HashMap<(&str, u64), u32> = order.iter().copied().zip(0..).collect();
    let (mut names, positions) = code_of(source, &order, true)?;
    counted::set_inlined(&mut heading, &mut names, !args.which.no_inlined);
    let tree = Tree {
        positions,
        parents: frames.iter().map(|(_, caller)| *caller).collect(),
        places: frames.iter().map(|(place, _)| index[place]).collect(),
        counts: Vec::new(),
    };
    // A server may have got more since it said which stacks there are.
    let rest = samples.saturating_sub(shown);
    Ok(counted::flame(CountedStacks { heading, names, tree, groups, rest }))
}
