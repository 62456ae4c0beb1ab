//! What each tensor of a model becomes, by rules in TOML.
