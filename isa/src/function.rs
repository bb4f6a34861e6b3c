//! Walking a function: boundaries and targets (being written).
