//! Scores of tools for a query.
//!
//! Invariant: a tool gets the best variant of every query word, never the sum of several; ties go to
//! the shorter name, then to upstream order. Deliberately absent: what was used before.

use crate::assemble::idf;
use crate::expand::{Query, QueryWord};
use crate::index::Index;
use crate::verbs;

/// Factors on the sum of word scores. Round numbers, not fitted to queries.
const COVERAGE_FLOOR: f32 = 0.55;
const NAME_BONUS: f32 = 0.6;
const ADJACENT: f32 = 1.15;
const SAME_VERB: f32 = 1.1;
const UNASKED_DELETE: f32 = 0.75;
const VERBLESS_DELETE: f32 = 0.9;
const IN_BACKEND: f32 = 2.5;

/// The share of word vectors: what a perfect cosine adds where a tool that has every query word in
/// its name scores about 1.
const FULL_SCORE: f32 = 2.2;
const VECTOR_SHARE: f32 = 0.5;
const FEW_WORDS: f32 = 6.0;
/// A tool without any of the words must be this near.
const NEAR_ENOUGH: f32 = 0.1;

/// A best match that scores less than this many times what the rarest word tells is called weak.
const WEAK: f32 = 1.5;

/// What a query found in one tool.
#[derive(Clone, Copy, Default)]
struct Hit {
    score: f32,
    covered: f32,
    /// Query words in the tool's name, weighted, and which words of the name they are.
    named: f32,
    places: u64,
    adjacent: bool,
    /// The best variant of the current query word; `word` is that word's number, from 1.
    word: u32,
    best: f32,
    near: f32,
    in_name: f32,
    place: u8,
    last_place: (u32, u8),
}

impl Hit {
    /// Books the best variant of the current word.
    fn settle(&mut self, idf: f32) {
        self.score += self.best;
        self.covered += idf * self.near;
        if self.in_name > 0.0 {
            self.named += self.in_name;
            self.places |= 1 << (self.place - 1).min(63);
            let (word, place) = self.last_place;
            self.adjacent |= word + 1 == self.word && place.checked_add(1) == Some(self.place);
            self.last_place = (self.word, self.place);
        }
    }
}

/// Tools with their scores, best first.
pub(crate) struct Scores {
    pub(crate) tools: Vec<(u32, f32)>,
    pub(crate) weak: bool,
}

impl Index {
    /// The best tools, at most `limit`.
    pub(crate) fn score(&self, query: &Query, limit: usize) -> Scores {
        let mut hits = vec![Hit::default(); self.tools.len()];
        let mut touched = Vec::new();
        for (number, word) in (1..).zip(&query.words) {
            self.collect(number, word, &mut hits, &mut touched);
        }
        let inside = self.inside(query, &hits);
        let total: f32 = query.words.iter().map(|word| word.idf).sum();
        let mut tools: Vec<(u32, f32)> = Vec::with_capacity(hits.len());
        let mut top = 0.0_f32;
        let nearness = self.nearness(query);
        for (tool, hit) in (0..).zip(&hits) {
            let near = nearness(tool);
            if hit.word == 0 && near < NEAR_ENOUGH {
                continue;
            }
            let mut score = self.total(query, tool, hit, total);
            top = top.max(score);
            score = score / (FULL_SCORE * total.max(f32::MIN_POSITIVE)) + near;
            let named = inside && self.is_inside(query, tool);
            if inside && query.only_backends && !named {
                continue;
            }
            tools.push((tool, if named { score * IN_BACKEND } else { score }));
        }
        let length = |tool: u32| self.name(tool).map_or(0, str::len);
        let order = |a: &(u32, f32), b: &(u32, f32)| {
            b.1.total_cmp(&a.1).then_with(|| length(a.0).cmp(&length(b.0))).then(a.0.cmp(&b.0))
        };
        if limit < tools.len() {
            tools.select_nth_unstable_by(limit, order);
            tools.truncate(limit);
        }
        tools.sort_unstable_by(order);
        let weak = tools.is_empty() || top < WEAK * idf(self.tools.len(), 1);
        Scores { tools, weak }
    }

    /// What word vectors add to each tool's score. Long queries name so much that their sum says
    /// little.
    fn nearness(&self, query: &Query) -> impl Fn(u32) -> f32 {
        let weight = VECTOR_SHARE * (FEW_WORDS / query.words.len().max(1) as f32).min(1.0);
        let rows = self.vectors.as_ref().zip(query.row);
        move |tool| {
            let Some((vectors, row)) = &rows else { return 0.0 };
            vectors.tools.get(tool as usize).map_or(0.0, |tool| weight * row.dot(tool))
        }
    }

    /// Adds one query word to the tools that have a variant of it.
    fn collect(&self, number: u32, word: &QueryWord, hits: &mut [Hit], touched: &mut Vec<u32>) {
        touched.clear();
        for variant in &word.variants {
            let Some(found) = self.word_at(variant.word) else { continue };
            for posting in self.postings(found) {
                let Some(hit) = hits.get_mut(posting.tool as usize) else { continue };
                if hit.word != number {
                    touched.push(posting.tool);
                    (hit.word, hit.best, hit.near, hit.in_name) = (number, 0.0, 0.0, 0.0);
                }
                hit.best = hit.best.max(variant.worth * posting.impact);
                hit.near = hit.near.max(variant.weight);
                if posting.place > 0 && variant.weight > hit.in_name && !word.names_backend {
                    (hit.in_name, hit.place) = (variant.weight, posting.place);
                }
            }
        }
        for &tool in touched.iter() {
            if let Some(hit) = hits.get_mut(tool as usize) {
                hit.settle(word.idf);
            }
        }
    }

    /// Whether the query names backends and the rest of it finds something in them.
    fn inside(&self, query: &Query, hits: &[Hit]) -> bool {
        let sum = |of_backend: bool| -> f32 {
            query.words.iter().filter(|w| w.names_backend == of_backend).map(|w| w.idf).sum()
        };
        let (named, rest) = (sum(true), sum(false));
        let mut tools = query.backends.iter().filter_map(|&at| self.backends.get(at as usize));
        rest > 0.0
            && tools.any(|backend| {
                let more = |&tool: &u32| hits.get(tool as usize).is_some_and(|h| h.covered > named);
                backend.tools.iter().any(more)
            })
    }

    fn is_inside(&self, query: &Query, tool: u32) -> bool {
        let backend = self.tools.get(tool as usize).and_then(|entry| entry.backend);
        backend.is_some_and(|backend| query.backends.contains(&backend))
    }

    fn total(&self, query: &Query, tool: u32, hit: &Hit, total: f32) -> f32 {
        let Some(entry) = self.tools.get(tool as usize) else { return 0.0 };
        let covered = (hit.covered / total.max(f32::MIN_POSITIVE)).min(1.0);
        let mut score =
            hit.score * (COVERAGE_FLOOR + (1.0 - COVERAGE_FLOOR) * covered * covered.sqrt());
        let asked = query.words.iter().filter(|word| !word.names_backend).count();
        if hit.named > 0.0 && asked > 0 && entry.words > 0 {
            let precision = hit.places.count_ones() as f32 / entry.words as f32;
            let recall = hit.named / asked as f32;
            score *= 1.0 + NAME_BONUS * 2.0 * precision * recall / (precision + recall);
        }
        if hit.adjacent {
            score *= ADJACENT;
        }
        if entry.verbs & query.verbs != 0 {
            score *= SAME_VERB;
        }
        if entry.verbs & verbs::DELETE != 0 && query.verbs & verbs::DELETE == 0 {
            score *= if query.verbs == 0 { VERBLESS_DELETE } else { UNASKED_DELETE };
        }
        score
    }
}
