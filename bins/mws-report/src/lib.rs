//! Reports what the working set saved.
