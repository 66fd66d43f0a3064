//! Reads the environment variables with the user's settings for the stores of clouds.

use xxhash_rust::xxh3::Xxh3;

/// Prefixes of the environment variables that a store depends on.
const SETTINGS: [&str; 8] = [
    "AWS_",
    "AZURE_",
    "AZURITE_",
    "GOOGLE_",
    "HOME",
    "IDENTITY_",
    "MSI_",
    "SERVICE_ACCOUNT",
];

/// The value of an environment variable that is set and not empty.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The first of these variables that is set and not empty, with its value.
pub(super) fn first_variable<'a>(names: &[&'a str]) -> Option<(&'a str, String)> {
    names
        .iter()
        .find_map(|name| variable(name).map(|value| (*name, value)))
}

/// A hash of the environment variables on which stores depend.
pub(super) fn settings_hash() -> u64 {
    let mut hash = Xxh3::new();
    for (name, value) in std::env::vars_os() {
        let name = name.as_encoded_bytes();
        if SETTINGS
            .iter()
            .any(|prefix| name.starts_with(prefix.as_bytes()))
        {
            for part in [name, value.as_encoded_bytes()] {
                hash.update(&part.len().to_le_bytes());
                hash.update(part);
            }
        }
    }
    hash.digest()
}
