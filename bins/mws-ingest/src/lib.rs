//! Reads client transcripts and appends their tool calls to the event log.
