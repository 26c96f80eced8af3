//! Entry point of `mws-proxy`; see the library.
fn main() {}
