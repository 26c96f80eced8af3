//! Counting tokens: by a tokenizer where one is asked for, else bytes / 4.
//!
//! Invariant: every count says by what it was made. Of a listing that was sent only the size is
//! known; its count is that size times the tokens per byte of the catalog.
//! Deliberately absent: the tokenizers of other makers, which are not public.

use clap::ValueEnum;
use mws_catalog::Catalog;
use tiktoken_rs::CoreBPE;

const ESTIMATE: f64 = 0.25;

/// What counts tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Tokenizer {
    /// Bytes / 4, an estimate.
    #[default]
    Bytes,
    /// `o200k_base`, of OpenAI's models since GPT-4o.
    O200k,
    /// `cl100k_base`, of GPT-4.
    Cl100k,
}

/// A counter of tokens.
pub(crate) struct Tokens {
    pub(crate) by: &'static str,
    encoder: Option<&'static CoreBPE>,
    per_byte: f64,
}

impl Tokens {
    pub(crate) fn new(tokenizer: Tokenizer, catalog: Option<&Catalog>) -> Self {
        let (by, encoder) = match tokenizer {
            Tokenizer::Bytes => ("bytes / 4", None),
            Tokenizer::O200k => ("o200k_base", Some(tiktoken_rs::o200k_base_singleton())),
            Tokenizer::Cl100k => ("cl100k_base", Some(tiktoken_rs::cl100k_base_singleton())),
        };
        let mut tokens = Self { by, encoder, per_byte: ESTIMATE };
        let texts = || catalog.into_iter().flat_map(|catalog| catalog.tools()).map(|t| t.raw());
        let bytes: usize = texts().map(str::len).sum();
        if encoder.is_some() && bytes > 0 {
            tokens.per_byte = texts().map(|t| tokens.of_text(t)).sum::<u64>() as f64 / bytes as f64;
        }
        tokens
    }

    pub(crate) fn of_text(&self, text: &str) -> u64 {
        let estimate = || self.of_bytes(text.len() as u64);
        self.encoder.map_or_else(estimate, |encoder| encoder.encode_ordinary(text).len() as u64)
    }

    pub(crate) fn of_bytes(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.per_byte) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tokenizer_counts_text_and_scales_sizes() {
        let raw = br#"{"tools":[{"name":"mail_send","description":"Send an e-mail message."}]}"#;
        let (catalog, _) = Catalog::parse(raw).expect("a catalog");
        let estimate = Tokens::new(Tokenizer::Bytes, Some(&catalog));
        assert_eq!((estimate.of_bytes(4_003), estimate.of_text("four")), (1_000, 1));
        let exact = Tokens::new(Tokenizer::Cl100k, Some(&catalog));
        // As published with the encoding: "hello world" is two tokens.
        assert_eq!(exact.of_text("hello world"), 2);
        let tool = catalog.tools()[0].raw();
        assert_eq!(exact.of_bytes(10 * tool.len() as u64), 10 * exact.of_text(tool));
    }
}
