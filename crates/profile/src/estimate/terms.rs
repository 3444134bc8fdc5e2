//! Terms: what each block of a region adds to the sums of which a slope is made, for those who put slopes together.

use std::collections::BTreeMap;

use super::pair::{BlockKey, Pairs};
use crate::meta_analysis::BlockTerm;

impl Pairs {
    /// One term for each block, in the order of blocks: all that shares a baseline is one. Each treated window is compared with its own
    /// baseline alone (β = 1), so that blocks have nothing in common. Pairs whose baseline has no amount (it took no time, or nothing was in flight) are passed over. Those whose
    /// baseline saw no visit are not: the others are those that saw more than usual by chance, and what they led to expect would be too much (three visits on average: by 5 %).
    pub(crate) fn terms(&self) -> Vec<BlockTerm> {
        let mut terms: BTreeMap<BlockKey, BlockTerm> = BTreeMap::new();
        for pair in &self.pairs {
            let Some((speedup, treated)) = pair.treated else { continue };
            let expected = treated.amount * pair.baseline.visits / pair.baseline.amount;
            if !expected.is_finite() {
                continue;
            }
            let s = speedup.fraction();
            let term = terms.entry(pair.block).or_default();
            term.over += s * (treated.visits - expected);
            term.under += s * s * treated.visits;
            term.size += s * s;
        }
        terms.into_values().collect()
    }
}
