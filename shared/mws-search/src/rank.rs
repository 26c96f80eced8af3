//! Scores of tools for a query.
//!
//! Invariant: a tool gets the best variant of every query word, never the sum of several; ties go to
//! the shorter name, then to upstream order. Deliberately absent: what was used before.

use std::cell::RefCell;
use std::cmp::Ordering;

use crate::assemble::idf;
use crate::expand::{Query, QueryWord, Scored};
use crate::index::Index;
use crate::rows::{Rows, Wide};
use crate::verbs;

/// Factors on the sum of word scores. Round numbers, not fitted to queries.
const COVERAGE_FLOOR: f32 = 0.55;
const NAME_BONUS: f32 = 0.6;
const ADJACENT: f32 = 1.15;
const SAME_VERB: f32 = 1.1;
const UNASKED_DELETE: f32 = 0.75;
const VERBLESS_DELETE: f32 = 0.9;
const IN_BACKEND: f32 = 2.5;
/// Tools whose words score this share of the best are looked at first.
const LIKELY: f32 = 0.5;
/// What all but the last can make of a score together, and a little more for rounding.
const MOST_FACTORS: f32 = (1.0 + NAME_BONUS) * ADJACENT * SAME_VERB * 1.001;

/// The share of word vectors: what a perfect cosine adds where a tool that has every query word in
/// its name scores about 1.
const FULL_SCORE: f32 = 2.2;
const VECTOR_SHARE: f32 = 0.5;
const FEW_WORDS: f32 = 6.0;
/// A tool without any of the words must be this near.
const NEAR_ENOUGH: f32 = 0.2;

/// A best match that scores less than this many times what the rarest word tells is called weak.
const WEAK: f32 = 1.5;

/// What a query found in one tool.
#[derive(Clone, Copy, Default)]
struct Hit {
    tool: u32,
    /// The number of the current query word, from 1, and of the last one in the tool's name.
    word: u16,
    named_word: u16,
    /// The best variants of the words before, added up, and of the current one.
    before: f32,
    best: f32,
    covered: f32,
    /// Query words in the tool's name, weighted, and which words of the name they are.
    named: f32,
    places: u64,
    last_place: u8,
    adjacent: bool,
}

impl Hit {
    fn score(&self) -> f32 {
        self.before + self.best
    }

    /// Begins with a word, whose nearest variant comes first.
    fn begin(&mut self, word: u16, covered: f32) {
        (self.word, self.before, self.best) = (word, self.score(), 0.0);
        self.covered += covered;
    }

    /// Books where the current word stands in the tool's name.
    fn book(&mut self, place: u8, weight: f32) {
        self.named += weight;
        self.places |= 1 << (place - 1).min(63);
        let follows = self.last_place.checked_add(1) == Some(place);
        self.adjacent |= follows && self.named_word + 1 == self.word;
        (self.named_word, self.last_place) = (self.word, place);
    }
}

/// What a query found, by tool. Most queries find something in few tools only.
#[derive(Default)]
struct Hits {
    /// For each tool its place in `all`; 0 stands for nothing found.
    slots: Vec<u32>,
    all: Vec<Hit>,
}

impl Hits {
    /// Makes room for a catalog of so many tools; the memory of the query before serves again.
    fn clear(&mut self, tools: usize) {
        for hit in self.all.drain(..).skip(1) {
            if let Some(slot) = self.slots.get_mut(hit.tool as usize) {
                *slot = 0;
            }
        }
        self.slots.resize(tools, 0);
        self.all.push(Hit::default());
    }

    fn get(&self, tool: u32) -> Option<&Hit> {
        self.all.get(*self.slots.get(tool as usize)? as usize)
    }

    /// What was found in a tool, which may be nothing yet; `None` for one that is not in the catalog.
    fn get_mut(&mut self, tool: u32) -> Option<&mut Hit> {
        let slot = self.slots.get_mut(tool as usize)?;
        if *slot == 0 {
            *slot = u32::try_from(self.all.len()).unwrap_or_default();
            self.all.push(Hit { tool, ..Hit::default() });
        }
        self.all.get_mut(*slot as usize)
    }

    fn found(&self) -> &[Hit] {
        self.all.get(1..).unwrap_or_default()
    }

    /// Tools in which nothing was found.
    fn missed(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.slots).filter(|(_, slot)| **slot == 0).map(|(tool, _)| tool)
    }
}

/// Tools with their scores, best first.
pub(crate) struct Scores {
    pub(crate) tools: Vec<(u32, f32)>,
    pub(crate) weak: bool,
}

/// The best tools so far, best first.
struct Best<'a> {
    tools: Vec<(u32, f32)>,
    limit: usize,
    /// What a tool must reach to come in.
    floor: f32,
    index: &'a Index,
}

impl<'a> Best<'a> {
    fn new(limit: usize, index: &'a Index) -> Self {
        let tools = Vec::with_capacity(limit.min(index.tools.len()) + 1);
        Self { tools, limit, floor: f32::NEG_INFINITY, index }
    }

    fn add(&mut self, tool: u32, score: f32) {
        let entry = (tool, score);
        if score < self.floor || self.limit == 0 {
            return;
        }
        let is_full = self.tools.len() >= self.limit;
        if is_full && self.tools.last().is_none_or(|last| self.order(last, &entry).is_le()) {
            return;
        }
        let at = self.tools.partition_point(|other| self.order(other, &entry).is_lt());
        self.tools.insert(at, entry);
        self.tools.truncate(self.limit);
        if let Some(last) = self.tools.get(self.limit - 1) {
            self.floor = last.1;
        }
    }

    fn order(&self, a: &(u32, f32), b: &(u32, f32)) -> Ordering {
        let length = |tool: u32| self.index.name(tool).map_or(0, str::len);
        b.1.total_cmp(&a.1).then_with(|| length(a.0).cmp(&length(b.0))).then(a.0.cmp(&b.0))
    }
}

/// What is the same for all tools of a query.
struct Weigh {
    /// What all its words tell together.
    total: f32,
    /// What a tool with all of them in its name scores, about.
    full: f32,
    /// Words that name no backend.
    asked: f32,
    inside: bool,
    /// What a perfect cosine adds. Long queries name so much that their sum says little.
    vectors: f32,
    /// What a cosine adds at most: none is above 1, but for what rounding adds.
    most_vectors: f32,
    /// What naming backends multiplies a score by at most.
    most_factor: f32,
}

impl Weigh {
    fn new(query: &Query, inside: bool, has_vectors: bool) -> Self {
        let total = query.words.iter().map(|word| word.idf).sum::<f32>().max(f32::MIN_POSITIVE);
        let asked = query.words.iter().filter(|word| !word.names_backend).count() as f32;
        let vectors = VECTOR_SHARE * (FEW_WORDS / query.words.len().max(1) as f32).min(1.0);
        let most_vectors = if has_vectors { vectors * 1.05 } else { 0.0 };
        let most_factor = if inside { IN_BACKEND } else { 1.0 };
        let full = FULL_SCORE * total;
        Self { total, full, asked, inside, vectors, most_vectors, most_factor }
    }

    /// What the words of a tool must score lest it is neither the best by them nor comes in, which
    /// it does not at all without a factor.
    fn bar(&self, top: f32, floor: f32, factor: Option<f32>) -> f32 {
        let to_come_in = |factor: f32| (floor / factor - self.most_vectors) * self.full;
        factor.map_or(top, |factor| top.min(to_come_in(factor))) / MOST_FACTORS
    }
}

impl Index {
    /// The best tools, at most `limit`.
    pub(crate) fn score(&self, query: &Query, limit: usize) -> Scores {
        thread_local! {
            static HITS: RefCell<Hits> = RefCell::default();
        }
        HITS.with_borrow_mut(|hits| {
            hits.clear(self.tools.len());
            self.score_with(query, limit, hits)
        })
    }

    fn score_with(&self, query: &Query, limit: usize, hits: &mut Hits) -> Scores {
        for (number, word) in (1..).zip(&query.words) {
            self.collect(number, word, query.variants(word), hits);
        }
        let rows = self.vectors.as_ref().map(|vectors| &vectors.tools).zip(query.row.as_ref());
        let weigh = Weigh::new(query, self.inside(query, hits), rows.is_some());
        let mut best = Best::new(limit, self);
        let (mut top, mut bar) = (0.0_f32, f32::NEG_INFINITY);
        // The likely ones first: what they score spares a closer look at most others.
        let likely = hits.found().iter().map(Hit::score).fold(0.0, f32::max) * LIKELY;
        for is_likely in [true, false] {
            for hit in hits.found() {
                let score = hit.score();
                if score < bar || (score >= likely) != is_likely {
                    continue;
                }
                let factor = self.factor(query, hit.tool, &weigh);
                if weigh.inside && score < weigh.bar(top, best.floor, factor) {
                    continue;
                }
                let lexical = self.total(query, hit, &weigh);
                top = top.max(lexical);
                if let Some(factor) = factor {
                    add(hit.tool, lexical / weigh.full, factor, rows, &weigh, &mut best);
                }
                bar = weigh.bar(top, best.floor, Some(weigh.most_factor));
            }
        }
        if let Some((rows, row)) = rows {
            self.add_near(query, rows, row, &weigh, hits, &mut best);
        }
        let weak = best.tools.is_empty() || top < WEAK * idf(self.tools.len(), 1);
        Scores { tools: best.tools, weak }
    }

    /// Puts tools among the best that have none of the words but mean the same.
    fn add_near(
        &self,
        query: &Query,
        rows: &Rows,
        row: &Wide,
        weigh: &Weigh,
        hits: &Hits,
        best: &mut Best<'_>,
    ) {
        if weigh.most_vectors * weigh.most_factor < best.floor {
            return;
        }
        for tool in hits.missed() {
            let near = rows.dot(tool as usize, row);
            if weigh.vectors * near * weigh.most_factor < best.floor || near <= NEAR_ENOUGH {
                continue;
            }
            let factor = self.factor(query, tool, weigh);
            factor.into_iter().for_each(|factor| best.add(tool, weigh.vectors * near * factor));
        }
    }

    /// What the query's naming of backends multiplies a tool's score by; `None` keeps it out.
    fn factor(&self, query: &Query, tool: u32, weigh: &Weigh) -> Option<f32> {
        match weigh.inside {
            true if self.is_inside(query, tool) => Some(IN_BACKEND),
            true if query.only_backends => None,
            _ => Some(1.0),
        }
    }

    /// Adds one query word to the tools that have a variant of it.
    fn collect(&self, number: u16, word: &QueryWord, variants: &[Scored], hits: &mut Hits) {
        for variant in variants {
            let Some(found) = self.word_at(variant.word) else { continue };
            let covered = word.idf * variant.weight;
            let can_be_named = variant.weight > 0.0 && !word.names_backend;
            for posting in self.postings(found) {
                let Some(hit) = hits.get_mut(posting.tool) else { continue };
                if hit.word != number {
                    hit.begin(number, covered);
                }
                let worth = variant.worth * posting.impact;
                if worth > hit.best {
                    hit.best = worth;
                }
                if posting.place > 0 && hit.named_word != number && can_be_named {
                    hit.book(posting.place, variant.weight);
                }
            }
        }
    }

    /// Whether the query names backends and the rest of it finds something in them.
    fn inside(&self, query: &Query, hits: &Hits) -> bool {
        let sum = |of_backend: bool| -> f32 {
            query.words.iter().filter(|w| w.names_backend == of_backend).map(|w| w.idf).sum()
        };
        let (named, rest) = (sum(true), sum(false));
        let mut tools = query.backends.iter().filter_map(|&at| self.backends.get(at as usize));
        rest > 0.0
            && tools.any(|backend| {
                let more = |&tool: &u32| hits.get(tool).is_some_and(|h| h.covered > named);
                backend.tools.iter().any(more)
            })
    }

    fn is_inside(&self, query: &Query, tool: u32) -> bool {
        let backend = self.tools.get(tool as usize).and_then(|entry| entry.backend);
        backend.is_some_and(|backend| query.backends.contains(&backend))
    }

    fn total(&self, query: &Query, hit: &Hit, weigh: &Weigh) -> f32 {
        let Some(entry) = self.tools.get(hit.tool as usize) else { return 0.0 };
        let covered = (hit.covered / weigh.total).min(1.0);
        let mut score =
            hit.score() * (COVERAGE_FLOOR + (1.0 - COVERAGE_FLOOR) * covered * covered.sqrt());
        if hit.named > 0.0 && weigh.asked > 0.0 && entry.words > 0 {
            let precision = hit.places.count_ones() as f32 / entry.words as f32;
            let recall = hit.named / weigh.asked;
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

/// Puts a tool that has some of the words among the best.
fn add(
    tool: u32,
    lexical: f32,
    factor: f32,
    rows: Option<(&Rows, &Wide)>,
    weigh: &Weigh,
    best: &mut Best<'_>,
) {
    let Some((rows, row)) = rows else { return best.add(tool, lexical * factor) };
    if (lexical + weigh.most_vectors) * factor < best.floor {
        return;
    }
    let near = rows.dot(tool as usize, row);
    if lexical > 0.0 || near > NEAR_ENOUGH {
        best.add(tool, (lexical + weigh.vectors * near) * factor);
    }
}
