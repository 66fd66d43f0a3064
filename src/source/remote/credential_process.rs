//! Runs the `credential_process` of an AWS profile, and again before its keys expire.

use std::fmt;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use tokio::sync::Mutex;

/// Time limit for the process.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The process runs again this long before its keys expire.
const RENEWAL_MARGIN: Duration = Duration::from_secs(120);

/// Keys printed by a process.
#[derive(Clone)]
pub(super) struct CredentialProcess(Arc<Process>);

struct Process {
    profile: String,
    command: String,
    /// The last keys, and when they expire.
    cached: Mutex<Option<(Arc<AwsCredential>, Option<SystemTime>)>>,
}

impl fmt::Debug for CredentialProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CredentialProcess({:?})", self.0.profile)
    }
}

impl CredentialProcess {
    pub(super) fn new(profile: &str, command: String) -> Self {
        Self(Arc::new(Process {
            profile: profile.to_owned(),
            command,
            cached: Mutex::default(),
        }))
    }

    async fn renewed(self) -> Result<Arc<AwsCredential>, String> {
        let mut cached = self.0.cached.lock().await;
        if let Some((credential, expires)) = &*cached
            && expires.is_none_or(|expires| expires > SystemTime::now() + RENEWAL_MARGIN)
        {
            return Ok(credential.clone());
        }
        let process = self.0.clone();
        let output = tokio::task::spawn_blocking(move || run(&process.command, TIME_LIMIT)).await;
        let parsed = output
            .unwrap_or_else(|_| Err("was canceled".into()))
            .and_then(|output| parse(&output));
        let (credential, expires) = parsed.map_err(|reason| {
            format!(
                "the credential_process of the AWS profile {:?} {reason}; run it in a shell to see why",
                self.0.profile
            )
        })?;
        let credential = Arc::new(credential);
        *cached = Some((credential.clone(), expires));
        Ok(credential)
    }
}

#[async_trait]
impl CredentialProvider for CredentialProcess {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        // A task of its own: its keys are kept even if the request that needs them runs into its
        // time limit.
        let outcome = tokio::spawn(self.clone().renewed()).await;
        outcome
            .unwrap_or_else(|_| Err("a task for credentials was canceled".into()))
            .map_err(|reason| object_store::Error::Unauthenticated {
                path: String::new(),
                source: reason.into(),
            })
    }
}

/// Runs a command in a shell, as the AWS tools do, and returns what it prints.
fn run(command: &str, time_limit: Duration) -> Result<Vec<u8>, String> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot be started: {error}"))?;
    let begun = Instant::now();
    // The output fits into the buffer of a pipe.
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < time_limit => {
                std::thread::sleep(Duration::from_millis(20))
            }
            other => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(match other {
                    Err(error) => format!("failed: {error}"),
                    Ok(_) => format!("did not end within {} s", time_limit.as_secs()),
                });
            }
        }
    };
    if !status.success() {
        return Err(format!("failed ({status})"));
    }
    let mut output = Vec::new();
    let read = child
        .stdout
        .take()
        .map(|mut stdout| stdout.read_to_end(&mut output));
    match read {
        Some(Err(error)) => Err(format!("failed: {error}")),
        _ => Ok(output),
    }
}

/// The keys in a process's output, and when they expire. Messages repeat nothing of the output.
fn parse(output: &[u8]) -> Result<(AwsCredential, Option<SystemTime>), String> {
    let fields: serde_json::Value =
        serde_json::from_slice(output).map_err(|_| "did not print a JSON object".to_owned())?;
    let text = |name: &str| {
        fields
            .get(name)
            .and_then(|value| value.as_str())
            .map(str::to_owned)
    };
    if fields.get("Version").and_then(serde_json::Value::as_u64) != Some(1) {
        return Err("did not print \"Version\": 1".into());
    }
    let needed = |name: &str| text(name).ok_or_else(|| format!("printed no {name}"));
    let credential = AwsCredential {
        key_id: needed("AccessKeyId")?,
        secret_key: needed("SecretAccessKey")?,
        token: text("SessionToken"),
    };
    let expires = match text("Expiration") {
        None => None,
        Some(time) => Some(
            chrono::DateTime::parse_from_rfc3339(&time)
                .map_err(|_| "printed an Expiration that is no time".to_owned())?
                .into(),
        ),
    };
    Ok((credential, expires))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_parsed_and_never_shown() {
        let output = br#"{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "hush", "SessionToken": "t", "Expiration": "1970-01-01T01:00:10+01:00"}"#;
        let (credential, expires) = parse(output).unwrap();
        assert_eq!(
            (&*credential.key_id, &*credential.secret_key),
            ("a", "hush")
        );
        assert_eq!(credential.token.as_deref(), Some("t"));
        assert_eq!(
            expires,
            Some(SystemTime::UNIX_EPOCH + Duration::from_secs(10))
        );
        let (credential, expires) =
            parse(br#"{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "s"}"#).unwrap();
        assert!(credential.token.is_none() && expires.is_none());
        for wrong in [
            "hush",
            "[]",
            r#"{"Version": 2, "AccessKeyId": "a", "SecretAccessKey": "hush"}"#,
            r#"{"Version": 1, "SecretAccessKey": "hush"}"#,
            r#"{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": ["hush"]}"#,
            r#"{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "hush", "Expiration": "hush"}"#,
        ] {
            let reason = parse(wrong.as_bytes()).err().unwrap();
            assert!(!reason.contains("hush"), "{reason}");
        }
    }

    #[test]
    fn failing_and_endless_processes_are_errors() {
        assert_eq!(run("echo ' a  b'", Duration::MAX).unwrap(), b" a  b\n");
        assert!(
            run("echo hush; exit 3", Duration::MAX)
                .unwrap_err()
                .contains("status: 3")
        );
        assert!(
            run("exec tail -f /dev/null", Duration::ZERO)
                .unwrap_err()
                .contains("did not end")
        );
    }

    #[test]
    fn keys_are_renewed_when_they_expire() {
        let folder =
            std::env::temp_dir().join(format!("framespool-credentials-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        for (year, runs) in [(2000, 3), (2999, 1)] {
            let log = folder.join(year.to_string());
            let command = format!(
                r#"echo x >> '{}'; echo '{{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "s", "Expiration": "{year}-01-01T00:00:00Z"}}'"#,
                log.display()
            );
            let process = CredentialProcess::new("p", command);
            for _ in 0..3 {
                assert_eq!(
                    runtime.block_on(process.get_credential()).unwrap().key_id,
                    "a"
                );
            }
            assert_eq!(std::fs::read_to_string(log).unwrap().lines().count(), runs);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
