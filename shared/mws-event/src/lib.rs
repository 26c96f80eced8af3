//! Event types of the log: one flat JSON object a line.
