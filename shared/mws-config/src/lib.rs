//! The one JSON configuration file.
