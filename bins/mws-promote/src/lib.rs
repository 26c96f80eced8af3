//! Folds the event log into working-set.json.
