//! Pure fold: events to usage to decisions to working set.
