//! In: the options of another codebase's sampling, by its own names. Out: rules that give its indices.
//! One file for each codebase, with the published formulas; arithmetic follows the original, float for float.
//! Never: improves on what it reproduces.
