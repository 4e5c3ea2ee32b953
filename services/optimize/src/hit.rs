//! Tools that one arm of a search found.

use crate::tool_set::View;

/// Part of the score of a server's best tool that its other tools gain: a task usually needs several tools of one server.
const SERVER_BOOST: f32 = 0.3;

/// Tool that one arm of a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hit {
    /// Place in the view.
    pub(crate) place: u32,
    /// Score by which hits are ordered, the best first.
    pub(crate) score: f32,
    /// The arm's own measure of this tool alone, which responses report.
    pub(crate) measure: f32,
}

/// Adds to the score of each hit a part of the best score of its server.
pub(crate) fn boost_servers(view: &View, hits: &mut [Hit]) {
    let mut best = vec![0.0_f32; view.set().data().server_count()];
    for hit in &*hits {
        let best = &mut best[view.server_number(hit.place)];
        *best = best.max(hit.score);
    }
    for hit in hits {
        hit.score += SERVER_BOOST * best[view.server_number(hit.place)];
    }
}

/// Returns the `depth` best hits, best first, equal ones in the order of the view.
pub(crate) fn best(mut hits: Vec<Hit>, depth: usize) -> Vec<Hit> {
    let order = |one: &Hit, other: &Hit| {
        other.score.total_cmp(&one.score).then(one.place.cmp(&other.place))
    };
    if (1..hits.len()).contains(&depth) {
        hits.select_nth_unstable_by(depth - 1, order);
    }
    hits.truncate(depth);
    hits.sort_unstable_by(order);
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_hits_keep_order_of_view() {
        let hit = |place, score| Hit { place, score, measure: score };
        let hits = vec![hit(3, 1.0), hit(1, 1.0), hit(2, 2.0), hit(0, 0.5)];
        let places =
            |depth| best(hits.clone(), depth).iter().map(|hit| hit.place).collect::<Vec<_>>();
        assert_eq!(places(9), [2, 1, 3, 0]);
        assert_eq!(places(2), [2, 1]);
        assert!(places(0).is_empty());
    }
}
