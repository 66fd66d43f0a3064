//! Reads the user's profile from the files of the AWS tools: `~/.aws/credentials` and
//! `~/.aws/config`. object_store does not read them, and the SDK of AWS would add a second HTTP
//! client. Roles and single sign-on are left to the AWS tools, which `credential_process` can call.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::environment::variable;

/// Maximum number of bytes that are read of a file.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum number of profiles that a message lists.
const MAX_LISTED_PROFILES: usize = 20;
/// Settings of profiles whose credentials only the AWS tools can obtain.
const UNSUPPORTED_SETTINGS: [&str; 5] = [
    "role_arn",
    "sso_session",
    "sso_start_url",
    "login_session",
    "web_identity_token_file",
];

/// Settings of a profile in one file.
type Settings = HashMap<String, String>;

/// The user's profile. It has no `Debug`, since it contains secrets.
pub(super) struct AwsProfile {
    name: String,
    /// Whether the user chose the profile, rather than having it by default.
    is_chosen: bool,
    credentials: Settings,
    config: Settings,
}

/// How a profile provides credentials.
pub(super) enum ProfileCredentials {
    Keys {
        key_id: String,
        secret_key: String,
        token: Option<String>,
    },
    /// A command that prints keys.
    Process(String),
}

struct ProfileFile {
    path: PathBuf,
    profiles: BTreeMap<String, Settings>,
}

impl AwsProfile {
    /// Reads the profile that `AWS_PROFILE` names, otherwise the default one, which may be empty.
    ///
    /// # Errors
    /// The reason if the chosen profile does not exist, or a chosen file cannot be read.
    pub(super) fn load() -> Result<Self, String> {
        let chosen = variable("AWS_PROFILE").or_else(|| variable("AWS_DEFAULT_PROFILE"));
        let mut credentials = ProfileFile::read(
            "AWS_SHARED_CREDENTIALS_FILE",
            "credentials",
            chosen.is_some(),
        )?;
        let mut config = ProfileFile::read("AWS_CONFIG_FILE", "config", chosen.is_some())?;
        let name = chosen.clone().unwrap_or_else(|| "default".into());
        let found = (
            credentials.profiles.remove(&name),
            config.profiles.remove(&name),
        );
        if let (Some(_), (None, None)) = (&chosen, &found) {
            return Err(unknown_profile(&name, &credentials, &config));
        }
        let (credentials, config) = (found.0.unwrap_or_default(), found.1.unwrap_or_default());
        Ok(Self {
            name,
            is_chosen: chosen.is_some(),
            credentials,
            config,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn region(&self) -> Option<&str> {
        self.get("region")
    }

    pub(crate) fn endpoint_url(&self) -> Option<&str> {
        self.get("endpoint_url")
    }

    /// How the profile provides credentials; `None` if it has none.
    ///
    /// # Errors
    /// The reason for half a key, and for a chosen profile whose credentials only the AWS tools can
    /// obtain.
    pub(crate) fn credentials(&self) -> Result<Option<ProfileCredentials>, String> {
        // Key and token belong together: a token of the other file would be of another key.
        for settings in [&self.credentials, &self.config] {
            let get = |name: &str| settings.get(name).cloned();
            match (get("aws_access_key_id"), get("aws_secret_access_key")) {
                (Some(key_id), Some(secret_key)) => {
                    let token = get("aws_session_token").or_else(|| get("aws_security_token"));
                    return Ok(Some(ProfileCredentials::Keys {
                        key_id,
                        secret_key,
                        token,
                    }));
                }
                (None, None) => {}
                (key_id, _) => {
                    let missing = if key_id.is_some() {
                        "aws_secret_access_key"
                    } else {
                        "aws_access_key_id"
                    };
                    return Err(format!(
                        "the AWS profile {:?} has half a key: {missing} is missing; add it",
                        self.name
                    ));
                }
            }
        }
        if let Some(command) = self.get("credential_process") {
            return Ok(Some(ProfileCredentials::Process(command.to_owned())));
        }
        match UNSUPPORTED_SETTINGS
            .iter()
            .find(|name| self.get(name).is_some())
        {
            Some(setting) if self.is_chosen => Err(format!(
                "the AWS profile {0:?} has no keys but {setting}, which is not supported; set the variables that \
                 `aws configure export-credentials --profile {0} --format env` prints, or choose a profile \
                 with `credential_process = aws configure export-credentials --profile {0}`",
                self.name
            )),
            _ => Ok(None),
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.credentials
            .get(name)
            .or_else(|| self.config.get(name))
            .map(String::as_str)
    }
}

impl ProfileFile {
    /// Reads a file, if it exists. Other failures matter only if the user chose the file or a
    /// profile: without a profile, requests are anonymous.
    fn read(path_variable: &str, default_name: &str, is_chosen: bool) -> Result<Self, String> {
        let path = variable(path_variable);
        let is_chosen = is_chosen || path.is_some();
        let home = || variable("HOME").map(PathBuf::from);
        let path = match path {
            Some(path) => match path.strip_prefix("~/") {
                Some(below) => home().unwrap_or_default().join(below),
                None => path.into(),
            },
            None => match home() {
                Some(home) => home.join(".aws").join(default_name),
                None => {
                    return Ok(Self {
                        path: PathBuf::new(),
                        profiles: BTreeMap::new(),
                    });
                }
            },
        };
        let text = match read_text(&path) {
            Ok(text) => text,
            Err(error) if is_chosen && error.kind() != std::io::ErrorKind::NotFound => {
                let path = path.display();
                return Err(format!(
                    "{path}: {error}; make it readable, or set {path_variable} to another file"
                ));
            }
            Err(_) => String::new(),
        };
        Ok(Self {
            profiles: parse(&text, default_name == "config"),
            path,
        })
    }
}

fn read_text(path: &Path) -> std::io::Result<String> {
    // Opening a pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Profiles by name. Sections of other kinds, nested settings and comments are ignored.
fn parse(text: &str, is_config: bool) -> BTreeMap<String, Settings> {
    let mut profiles: BTreeMap<String, Settings> = BTreeMap::new();
    let mut current: Option<String> = None;
    for line in text.trim_start_matches('\u{feff}').lines() {
        if line.trim().is_empty() || line.starts_with(['#', ';', ' ', '\t']) {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            let name = header.split(']').next().unwrap_or_default().trim();
            let profile = name
                .strip_prefix("profile")
                .filter(|rest| rest.starts_with([' ', '\t']));
            let name = match is_config {
                true => profile.or((name == "default").then_some(name)),
                false => Some(name),
            };
            current = name.map(|name| name.trim().trim_matches(['"', '\'']).to_owned());
            if let Some(name) = &current {
                profiles.entry(name.clone()).or_default();
            }
        } else if let (Some(name), Some((key, value))) = (&current, line.split_once('=')) {
            let comment = [" #", " ;", "\t#", "\t;"]
                .iter()
                .filter_map(|mark| value.find(mark))
                .min();
            let value = value[..comment.unwrap_or(value.len())].trim();
            if !value.is_empty() {
                let settings = profiles.entry(name.clone()).or_default();
                settings.insert(key.trim().to_ascii_lowercase(), value.to_owned());
            }
        }
    }
    profiles
}

fn unknown_profile(name: &str, credentials: &ProfileFile, config: &ProfileFile) -> String {
    let names: BTreeSet<&str> = credentials
        .profiles
        .keys()
        .chain(config.profiles.keys())
        .map(String::as_str)
        .collect();
    let listed: Vec<&str> = names.iter().copied().take(MAX_LISTED_PROFILES).collect();
    let known = match (listed.len(), names.len()) {
        (0, _) => "there are none".to_owned(),
        (shown, all) if shown < all => format!("{} and {} more", listed.join(", "), all - shown),
        _ => listed.join(", "),
    };
    format!(
        "the AWS profile {name:?} is neither in {} nor in {} (profiles: {known}); correct AWS_PROFILE",
        credentials.path.display(),
        config.path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_of_both_kinds_of_files_are_parsed() {
        let credentials = "\u{feff}# keys\r\n[default]\r\nAWS_Access_Key_Id=a\r\naws_secret_access_key = s=1+/ # x\r\n\n; c\n[ team 1 ]\nregion=eu-1";
        let profiles = parse(credentials, false);
        assert_eq!(profiles.keys().collect::<Vec<_>>(), ["default", "team 1"]);
        assert_eq!(profiles["default"]["aws_access_key_id"], "a");
        assert_eq!(profiles["default"]["aws_secret_access_key"], "s=1+/");
        let config = "stray = 1\n[default]\nregion = us-1\ns3 =\n  endpoint_url = http://nested\n[profile \"b\"]\nendpoint_url = https://h\nregion =\n[sso-session c]\nregion = x\n[profiles]\n[d]\nregion = y\n[profile\te]\n[";
        let profiles = parse(config, true);
        assert_eq!(profiles.keys().collect::<Vec<_>>(), ["b", "default", "e"]);
        assert_eq!(
            profiles["default"],
            Settings::from([("region".into(), "us-1".into())])
        );
        assert_eq!(
            profiles["b"],
            Settings::from([("endpoint_url".into(), "https://h".into())])
        );
    }

    #[test]
    fn key_and_token_come_from_the_same_file() {
        let settings = |pairs: &[(&str, &str)]| -> Settings {
            pairs
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect()
        };
        let profile = |credentials: &[_], config: &[_], is_chosen| AwsProfile {
            name: "p".into(),
            is_chosen,
            credentials: settings(credentials),
            config: settings(config),
        };
        let key = [
            ("aws_access_key_id", "a"),
            ("aws_secret_access_key", "hush"),
        ];
        let older = [
            key[0],
            ("aws_secret_access_key", "old"),
            ("aws_session_token", "old"),
            ("region", "r"),
        ];
        let found = profile(&key, &older, true);
        assert_eq!(found.region(), Some("r"));
        match found.credentials() {
            Ok(Some(ProfileCredentials::Keys {
                secret_key,
                token: None,
                ..
            })) => {
                assert_eq!(secret_key, "hush")
            }
            _ => panic!("other keys"),
        }
        let half = profile(&key[1..], &[], false).credentials().err();
        assert!(half.is_some_and(
            |text| text.contains("aws_access_key_id is missing") && !text.contains("hush")
        ));
        let role = [("role_arn", "arn:aws:iam::1:role/r")];
        assert!(matches!(profile(&[], &role, false).credentials(), Ok(None)));
        let text = profile(&[], &role, true).credentials().err();
        assert!(
            text.is_some_and(
                |text| text.contains("role_arn") && text.contains("export-credentials")
            )
        );
        match profile(&[], &[role[0], ("credential_process", "tool")], true).credentials() {
            Ok(Some(ProfileCredentials::Process(command))) => assert_eq!(command, "tool"),
            _ => panic!("no process"),
        }
    }
}
