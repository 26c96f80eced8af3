//! Entry point of `mws-promote`; see the library.
fn main() {}
