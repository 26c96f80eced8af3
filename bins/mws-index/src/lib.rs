//! Builds the search index snapshot from the catalog.
