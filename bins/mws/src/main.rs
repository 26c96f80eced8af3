//! Entry point of `mws`; see the library.
fn main() {}
