//! Tool definitions kept as raw JSON.
