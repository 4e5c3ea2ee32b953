//! Dependencies of steps.

/// Set of steps, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepSet(u128);

/// Dependencies between the steps of a workflow, without cycles.
#[derive(Debug)]
pub(crate) struct Graph {
    direct: Vec<StepSet>,
    transitive: Vec<StepSet>,
    dependents: Vec<StepSet>,
    order: Vec<usize>,
}

/// Steps of a cycle, in the order of their dependencies; the first one follows the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cycle(pub(crate) Vec<usize>);

// === impl StepSet ===

impl StepSet {
    /// Returns the set of the first `count` steps.
    pub(crate) fn first(count: usize) -> Self {
        (0..count).collect()
    }

    pub(crate) fn contains(self, step: usize) -> bool {
        self.0 & bit(step) != 0
    }

    pub(crate) fn insert(&mut self, step: usize) {
        self.0 |= bit(step);
    }

    pub(crate) fn remove(&mut self, step: usize) {
        self.0 &= !bit(step);
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Returns the first step from `start` on.
    pub(crate) fn first_from(self, start: usize) -> Option<usize> {
        let start = u32::try_from(start).ok()?;
        let rest = self.0 & u128::MAX.checked_shl(start)?;
        (rest != 0).then(|| rest.trailing_zeros() as usize)
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns the steps in ascending order.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let step = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(step)
        })
    }
}

/// Steps are fewer than the bits: the number of steps is limited to [`MAX_STEPS`](crate::limits::MAX_STEPS).
fn bit(step: usize) -> u128 {
    u32::try_from(step).ok().and_then(|step| 1_u128.checked_shl(step)).unwrap_or(0)
}

impl FromIterator<usize> for StepSet {
    fn from_iter<I: IntoIterator<Item = usize>>(steps: I) -> Self {
        let mut set = Self::default();
        for step in steps {
            set.insert(step);
        }
        set
    }
}

// === impl Graph ===

impl Graph {
    /// Orders the steps. `direct` has the dependencies of each step.
    pub(crate) fn new(direct: Vec<StepSet>) -> Result<Self, Cycle> {
        let count = direct.len();
        let (mut order, mut done) = (Vec::with_capacity(count), StepSet::default());
        while order.len() < count {
            let next = (0..count)
                .find(|&step| !done.contains(step) && direct[step].is_subset(done))
                .ok_or_else(|| find_cycle(&direct, done))?;
            done.insert(next);
            order.push(next);
        }
        let mut transitive = vec![StepSet::default(); count];
        for &step in &order {
            transitive[step] = direct[step]
                .iter()
                .fold(direct[step], |set, dependency| set.union(transitive[dependency]));
        }
        let dependents = (0..count)
            .map(|step| (0..count).filter(|&other| direct[other].contains(step)).collect())
            .collect();
        Ok(Self { direct, transitive, dependents, order })
    }

    /// Returns the steps that have to be done before `step` starts.
    pub(crate) fn direct(&self, step: usize) -> StepSet {
        self.direct[step]
    }

    /// Returns the steps that wait for `step`.
    pub(crate) fn dependents(&self, step: usize) -> StepSet {
        self.dependents[step]
    }

    /// Returns all steps that are done when `step` starts.
    pub(crate) fn transitive(&self, step: usize) -> StepSet {
        self.transitive[step]
    }

    /// Returns the steps in an order in which each follows its dependencies.
    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    /// Returns the chain of dependencies with the largest sum of weights, first step first.
    pub(crate) fn critical_path(&self, weight: impl Fn(usize) -> u64) -> Vec<usize> {
        let mut best: Vec<(u64, Option<usize>)> = vec![(0, None); self.direct.len()];
        for &step in &self.order {
            let before = self.direct[step].iter().max_by_key(|&dependency| best[dependency].0);
            let sum = before.map_or(0, |dependency| best[dependency].0);
            best[step] = (sum.saturating_add(weight(step)), before);
        }
        let mut path = Vec::new();
        let mut next = (0..best.len()).max_by_key(|&step| best[step].0);
        while let Some(step) = next {
            path.push(step);
            next = best[step].1;
        }
        path.reverse();
        path
    }
}

/// Returns a cycle among the steps that are not in `done`. Each of them has a dependency that is not done either.
fn find_cycle(direct: &[StepSet], done: StepSet) -> Cycle {
    let mut path = Vec::new();
    let mut step = (0..direct.len()).find(|&step| !done.contains(step));
    while let Some(current) = step {
        if let Some(start) = path.iter().position(|&seen| seen == current) {
            path.drain(..start);
            break;
        }
        path.push(current);
        step = direct[current].iter().find(|&dependency| !done.contains(dependency));
    }
    Cycle(path)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn graph(edges: &[&[usize]]) -> Result<Graph, Cycle> {
        Graph::new(edges.iter().map(|steps| steps.iter().copied().collect()).collect())
    }

    #[test]
    fn orders_steps_after_dependencies() {
        let graph = graph(&[&[2], &[], &[1], &[0, 2]]).unwrap();
        assert_eq!(graph.order(), [1, 2, 0, 3]);
        assert_eq!(graph.transitive(3), StepSet::first(3));
        assert_eq!(graph.dependents(2), [0, 3].into_iter().collect());
        assert_eq!(
            [0, 1, 4].map(|start| graph.dependents(2).first_from(start)),
            [Some(0), Some(3), None]
        );
        assert_eq!(graph.critical_path(|_| 1), [1, 2, 0, 3]);
    }

    #[test]
    fn critical_path_follows_weights() {
        let graph = graph(&[&[], &[], &[0, 1]]).unwrap();
        assert_eq!(graph.critical_path(|step| if step == 0 { 5 } else { 1 }), [0, 2]);
        assert_eq!(graph.critical_path(|step| if step == 1 { 5 } else { 1 }), [1, 2]);
    }

    #[test]
    fn reports_whole_cycle() {
        assert_eq!(graph(&[&[0]]).unwrap_err(), Cycle(vec![0]));
        assert_eq!(graph(&[&[], &[0, 3], &[1], &[2]]).unwrap_err(), Cycle(vec![1, 3, 2]));
    }

    proptest! {
        #[test]
        fn any_graph_is_ordered_or_cyclic(
            edges in proptest::collection::vec(proptest::collection::vec(0_usize..12, 0..4), 12)
        ) {
            let direct: Vec<StepSet> =
                edges.iter().map(|steps| steps.iter().copied().collect()).collect();
            match Graph::new(direct.clone()) {
                Ok(graph) => {
                    let mut done = StepSet::default();
                    for &step in graph.order() {
                        prop_assert!(direct[step].is_subset(done));
                        prop_assert!(graph.transitive(step).is_subset(done));
                        done.insert(step);
                    }
                    prop_assert_eq!(done.len(), direct.len());
                }
                Err(Cycle(path)) => {
                    for (index, &step) in path.iter().enumerate() {
                        prop_assert!(direct[step].contains(path[(index + 1) % path.len()]));
                    }
                }
            }
        }
    }
}
