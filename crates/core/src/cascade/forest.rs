//! Random forest: predicts from a draft's features how likely it is worse than the target.
//!
//! (Breiman, "Random Forests", 2001.) Each tree is grown from a bootstrap sample of the labels, and
//! each split is the best of a few random features. A logistic model gives each feature one
//! direction; a tree finds interactions: a low entropy is a good sign in a short answer with digits
//! and none in a long one without. The random numbers derive from the indices of trees and nodes,
//! so equal labels grow equal forests.
//!
//! The forest is not saved: after a restart it is grown again from the saved labels.

use alloc::vec::Vec;
use core::ops::Range;

use super::features::{FEATURES, Features};
use super::fixed_point::BITS;
use super::scorer::Label;
use crate::hash_mix::mix;

/// Minimum labels for a forest: with fewer the logistic model does better.
pub(super) const FOREST_LABELS_MIN: usize = 512;

/// The number of trees.
const TREES: usize = 64;
/// Maximum depth of a tree.
const DEPTH_MAX: u32 = 8;
/// Minimum labels in a leaf.
const LEAF_MIN: u32 = 8;
/// Features tried per split: the square root of their number.
const TRIED: u64 = 5;
/// Bins of a feature, each a quarter of a unit.
const BINS: usize = 64;
const BIN_BITS: u32 = 10;

/// What became of drafts, each of 2^24.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shares {
    /// Those that were worse than the target.
    pub(super) worse: i64,
    /// Those that were better.
    pub(super) better: i64,
}

/// Many trees, whose mean counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Forest {
    trees: Vec<Tree>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Tree(Vec<Node>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    /// Is the feature's bin at most that? Then it goes on at `below`, otherwise at the node after that.
    Question { feature: usize, most: u8, below: usize },
    /// Nothing more is asked.
    Leaf(Shares),
}

/// A draft's features as trees ask for them.
type Bins = [u8; FEATURES];

/// Labels of one kind of draft.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    all: u32,
    worse: u32,
    better: u32,
}

/// The labels that a tree grows from.
struct Ground<'a> {
    rows: &'a [(Bins, Label)],
    dice: u64,
}

impl Forest {
    /// A forest of the labels at these places, and what it says of every label without the trees that grew from it.
    /// Nothing where there are too few.
    pub(super) fn grow<'a>(
        labels: impl Iterator<Item = (&'a Features, Label)>,
        known: &[usize],
    ) -> Option<(Self, Vec<Shares>)> {
        if known.len() < FOREST_LABELS_MIN {
            return None;
        }
        let rows: Vec<_> = labels.map(|(features, label)| (bins(features), label)).collect();
        let mut said: Vec<(i64, Shares)> = rows.iter().map(|_| (0, Shares::default())).collect();
        let mut trees = Vec::with_capacity(TREES);
        for dice in (0..).take(TREES) {
            let (tree, grew_from) = Ground { rows: &rows, dice }.tree(known);
            for ((row, mean), _) in
                rows.iter().zip(&mut said).zip(grew_from).filter(|(_, grew_from)| !grew_from)
            {
                let shares = tree.shares(&row.0);
                *mean = (mean.0 + 1, mean.1.and(shares));
            }
            trees.push(tree);
        }
        let forest = Self { trees };
        // By chance a label may have been in every tree's draw.
        let mean = |(row, (count, sum)): (&(Bins, Label), (i64, Shares))| match count {
            0 => forest.shares_of(&row.0),
            count => sum.over(count),
        };
        let said = rows.iter().zip(said).map(mean).collect();
        Some((forest, said))
    }

    /// What became of drafts like that.
    pub(super) fn shares(&self, features: &Features) -> Shares {
        self.shares_of(&bins(features))
    }

    fn shares_of(&self, bins: &Bins) -> Shares {
        let all = self.trees.iter().map(|tree| tree.shares(bins));
        let count = i64::try_from(self.trees.len()).unwrap_or(1);
        all.fold(Shares::default(), Shares::and).over(count)
    }
}

impl Tree {
    fn shares(&self, bins: &Bins) -> Shares {
        let mut place = 0;
        // Every question leads further down the list.
        loop {
            match self.0[place] {
                Node::Leaf(shares) => return shares,
                Node::Question { feature, most, below } => {
                    place = below + usize::from(most < bins[feature]);
                }
            }
        }
    }
}

impl Ground<'_> {
    /// A tree, and which labels it grew from.
    fn tree(&self, known: &[usize]) -> (Tree, Vec<bool>) {
        let mut grew_from: Vec<bool> = self.rows.iter().map(|_| false).collect();
        let mut drawn: Vec<usize> = (0..)
            .map(|number| known[below(mix(self.dice, number), known.len())])
            .take(known.len())
            .collect();
        for place in &drawn {
            grew_from[*place] = true;
        }
        let mut nodes = Vec::from([Node::Leaf(Shares::default())]);
        let mut open = Vec::from([(0, 0..drawn.len(), 0)]);
        while let Some((node, range, depth)) = open.pop() {
            let members = &mut drawn[range.clone()];
            let counts = self.count(members);
            let question = if depth < DEPTH_MAX { self.ask(node, members, counts) } else { None };
            let Some((feature, most)) = question else {
                nodes[node] = Node::Leaf(counts.shares());
                continue;
            };
            let split = range.start + self.part(members, feature, most);
            let next = nodes.len();
            nodes[node] = Node::Question { feature, most, below: next };
            nodes.extend([Node::Leaf(Shares::default()); 2]);
            let parts: [Range<usize>; 2] = [range.start..split, split..range.end];
            open.extend((next..).zip(parts).map(|(node, range)| (node, range, depth + 1)));
        }
        (Tree(nodes), grew_from)
    }

    fn count(&self, members: &[usize]) -> Counts {
        let mut counts = Counts::default();
        for place in members {
            counts.add(self.rows[*place].1);
        }
        counts
    }

    /// The question that parts these labels best; nothing where none does.
    fn ask(&self, node: usize, members: &[usize], counts: Counts) -> Option<(usize, u8)> {
        let dice = mix(self.dice, !u64::try_from(node).unwrap_or(0));
        let mut best = (counts.purity(), None);
        for turn in 0..TRIED {
            // The first feature is the same for all.
            let feature = 1 + below(mix(dice, turn), FEATURES - 1);
            let mut histogram = [Counts::default(); BINS];
            for place in members {
                let (bins, label) = &self.rows[*place];
                histogram[usize::from(bins[feature])].add(*label);
            }
            let mut under = Counts::default();
            for (most, bin) in (0..).zip(&histogram) {
                under = under.with(*bin);
                let over = counts.without(under);
                if bin.all == 0 || under.all < LEAF_MIN || over.all < LEAF_MIN {
                    continue;
                }
                let purity = under.purity() + over.purity();
                if best.0 < purity {
                    best = (purity, Some((feature, most)));
                }
            }
        }
        best.1
    }

    /// Puts those before the others whose answer is yes; returns how many they are.
    fn part(&self, members: &mut [usize], feature: usize, most: u8) -> usize {
        let mut yes = 0;
        for place in 0..members.len() {
            if self.rows[members[place]].0[feature] <= most {
                members.swap(yes, place);
                yes += 1;
            }
        }
        yes
    }
}

impl Counts {
    fn add(&mut self, label: Label) {
        self.all += 1;
        self.worse += u32::from(label == Label::Worse);
        self.better += u32::from(label == Label::Better);
    }

    fn with(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            worse: self.worse + other.worse,
            better: self.better + other.better,
        }
    }

    fn without(self, other: Self) -> Self {
        Self {
            all: self.all - other.all,
            worse: self.worse - other.worse,
            better: self.better - other.better,
        }
    }

    /// Squares of how many there are of each label over all, in 65,536ths: Gini's measure, but for a constant.
    fn purity(self) -> u64 {
        let square = |count: u32| u64::from(count).pow(2);
        let squares =
            square(self.worse) + square(self.better) + square(self.all - self.worse - self.better);
        (squares << 16) / u64::from(self.all.max(1))
    }

    fn shares(self) -> Shares {
        let share = |count: u32| (i64::from(count) << BITS) / i64::from(self.all.max(1));
        Shares { worse: share(self.worse), better: share(self.better) }
    }
}

impl Shares {
    fn and(self, other: Self) -> Self {
        Self { worse: self.worse + other.worse, better: self.better + other.better }
    }

    fn over(self, count: i64) -> Self {
        Self { worse: self.worse / count, better: self.better / count }
    }

    /// Half-way between the two.
    pub(super) fn between(self, other: Self) -> Self {
        self.and(other).over(2)
    }
}

fn bins(features: &Features) -> Bins {
    features.get().map(|one| {
        let bin = (one >> BIN_BITS) + (1 << (i16::BITS - BIN_BITS - 1));
        u8::try_from(bin).expect("sixteen bits have 64 bins of 1,024")
    })
}

/// A place among so many.
fn below(dice: u64, count: usize) -> usize {
    let place = dice % u64::try_from(count.max(1)).unwrap_or(1);
    usize::try_from(place).expect("less than a count")
}
