//! Fusion of the two arms of a search by reciprocal ranks.

use std::collections::HashMap;

use crate::hit::{Hit, best};

/// Constant of reciprocal rank fusion: the larger, the less the first ranks of an arm stand out. Smaller than the common 60,
/// because an answer has about eight tools and not a thousand.
const RANK_CONSTANT: f32 = 10.0;

/// Number of tools of each arm that take part.
pub(crate) const ARM_DEPTH: usize = 50;

/// Place of a tool in one arm of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArmRank {
    /// From 1.
    pub rank: usize,
    /// Score by the arm's own measure: BM25, or cosine distance.
    pub score: f32,
}

/// Tool that a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToolMatch {
    /// Place in the [`View`](crate::View).
    pub place: usize,
    /// Score by which the results are ordered, the best first. Comparable within one response only.
    pub score: f32,
    /// Rank and BM25 score by keywords, if they found the tool.
    pub keyword: Option<ArmRank>,
    /// Rank and cosine distance by meaning, if it found the tool.
    pub semantic: Option<ArmRank>,
}

/// Returns the `max` best tools of both arms. `ratio` is the weight of the semantic arm, from 0 to 1. An arm that finds too
/// little leaves its places to the other one; with a single arm, the order is that arm's.
pub(crate) fn fuse(keyword: &[Hit], semantic: &[Hit], ratio: f32, max: usize) -> Vec<ToolMatch> {
    let mut found = HashMap::<u32, ToolMatch>::new();
    let mut add = |hits: &[Hit], weight: f32, arm: fn(&mut ToolMatch) -> &mut Option<ArmRank>| {
        for (hit, rank) in hits.iter().zip(1_u16..) {
            let place = hit.place as usize;
            let empty = ToolMatch { place, score: 0.0, keyword: None, semantic: None };
            let tool = found.entry(hit.place).or_insert(empty);
            *arm(tool) = Some(ArmRank { rank: rank.into(), score: hit.measure });
            tool.score += weight / (RANK_CONSTANT + f32::from(rank));
        }
    };
    // An arm alone counts in full, whatever its weight: the other one found nothing, or was not asked.
    let (keyword_weight, semantic_weight) = match (keyword.is_empty(), semantic.is_empty()) {
        (false, false) => (1.0 - ratio, ratio),
        _ => (1.0, 1.0),
    };
    add(keyword, keyword_weight, |tool| &mut tool.keyword);
    add(semantic, semantic_weight, |tool| &mut tool.semantic);
    let hits = found.values().map(|tool| {
        let place = u32::try_from(tool.place).expect("places of hits are u32");
        Hit { place, score: tool.score, measure: tool.score }
    });
    let best = best(hits.collect(), max);
    best.iter().filter_map(|hit| found.get(&hit.place).copied()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hits(places: &[u32]) -> Vec<Hit> {
        let score = |rank: usize| 1.0 / f32::from(u16::try_from(rank + 1).unwrap());
        let places = places.iter().enumerate();
        places
            .map(|(rank, place)| Hit { place: *place, score: score(rank), measure: 0.0 })
            .collect()
    }

    fn places(found: &[ToolMatch]) -> Vec<usize> {
        found.iter().map(|tool| tool.place).collect()
    }

    #[test]
    fn tool_of_both_arms_comes_first() {
        let found = fuse(&hits(&[1, 2, 3]), &hits(&[4, 2, 5]), 0.5, 3);
        assert_eq!(places(&found), [2, 1, 4]);
        assert_eq!(found[0].keyword.map(|arm| arm.rank), Some(2));
        assert_eq!((found[1].keyword.map(|arm| arm.rank), found[1].semantic), (Some(1), None));
    }

    #[test]
    fn ratio_weighs_arms() {
        let (keyword, semantic) = (hits(&[1, 2]), hits(&[3, 4]));
        assert_eq!(places(&fuse(&keyword, &semantic, 0.1, 4)), [1, 2, 3, 4]);
        assert_eq!(places(&fuse(&keyword, &semantic, 0.9, 4)), [3, 4, 1, 2]);
    }

    #[test]
    fn short_arm_is_refilled() {
        assert_eq!(places(&fuse(&[], &hits(&[3, 4]), 0.0, 4)), [3, 4]);
        assert_eq!(places(&fuse(&hits(&[3, 4]), &[], 1.0, 4)), [3, 4]);
        assert_eq!(fuse(&hits(&[9]), &hits(&[3, 4, 5, 6, 7]), 0.5, 6).len(), 6);
    }

    proptest! {
        #[test]
        fn results_are_those_of_the_arms(
            keyword in proptest::collection::hash_set(0u32..100, 0..50),
            semantic in proptest::collection::hash_set(0u32..100, 0..50),
            ratio in 0.0f32..=1.0,
            max in 1usize..60,
        ) {
            let (one, other): (Vec<_>, Vec<_>) =
                (keyword.iter().copied().collect(), semantic.iter().copied().collect());
            let found = fuse(&hits(&one), &hits(&other), ratio, max);
            prop_assert_eq!(found.len(), keyword.union(&semantic).count().min(max));
            prop_assert!(found.is_sorted_by(|one, other| one.score >= other.score));
            for tool in &found {
                let place = u32::try_from(tool.place).unwrap();
                prop_assert_eq!(tool.keyword.is_some(), keyword.contains(&place));
                prop_assert_eq!(tool.semantic.is_some(), semantic.contains(&place));
            }
        }
    }
}
