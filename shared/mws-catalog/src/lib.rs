//! Tool definitions kept as raw JSON.
//!
//! Invariant: the text of a tool is never re-serialised; what is read from it is read beside it, and
//! [`Tool::listed`] changes only the places it names. Deliberately absent: a typed tool or schema
//! model (it would lose keys, key order and number text), and any I/O.

mod backends;
mod catalog;
pub mod json;
mod listing;
mod slim;
mod tool;

pub use backends::{Backend, Backends, is_verb};
pub use catalog::{Catalog, CatalogError, Rejected};
pub use listing::{ListingOptions, META_TOOLS, client_problem};
pub use slim::slim;
pub use tool::Tool;
