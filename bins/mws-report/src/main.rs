//! Entry point of `mws-report`; see the library.
fn main() {}
