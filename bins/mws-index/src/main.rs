//! Entry point of `mws-index`; see the library.
fn main() {}
