//! Entry point of `mws-ingest`; see the library.
fn main() {}
