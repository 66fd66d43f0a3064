//! Creates object stores for buckets of S3, Google Cloud Storage and Azure, with the user's
//! settings from environment variables and, for S3, the AWS profile. Without credentials, requests
//! are anonymous.

use std::path::Path;
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AwsCredential};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ObjectStore, RetryConfig, StaticCredentialProvider};

use super::address::Cloud;
use super::aws_profile::{AwsProfile, ProfileCredentials};
use super::credential_process::CredentialProcess;
use super::environment::{first_variable, variable};
use super::http_service::{Connector, root_cause};

/// Variables with credentials that have priority over the AWS profile.
const AWS_CREDENTIALS: [&str; 2] = ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"];
/// Variables that name a server with credentials, after the AWS profile.
const AWS_CONTAINER_CREDENTIALS: [&str; 2] = [
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];
const AWS_ENDPOINTS: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
const AWS_REGIONS: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];
/// Credentials of `gcloud auth application-default login`, below the home folder.
const GOOGLE_DEFAULT_CREDENTIALS: &str = ".config/gcloud/application_default_credentials.json";

impl Cloud {
    /// What to do if the service refuses access.
    pub(crate) fn credentials_hint(self) -> &'static str {
        match self {
            Self::S3 => {
                "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary ones, AWS_SESSION_TOKEN \
                 (`aws configure export-credentials --format env` writes them), AWS_PROFILE for keys in \
                 ~/.aws/credentials, or AWS_EC2_METADATA_DISABLED=false for the role of the machine; without \
                 credentials, only public buckets can be read"
            }
            Self::Google => {
                "set GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT to a file with credentials, run \
                 `gcloud auth application-default login`, or set GOOGLE_SKIP_SIGNATURE=false for the service \
                 account of the machine; without credentials, only public buckets can be read"
            }
            Self::Azure => {
                "set AZURE_STORAGE_ACCOUNT_NAME and one of AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN \
                 and AZURE_STORAGE_TOKEN, or AZURE_SKIP_SIGNATURE=false for the managed identity of the \
                 machine; without credentials, only public containers can be read"
            }
        }
    }

    /// Creates the store of a bucket, without a request.
    ///
    /// # Errors
    /// The reason if the settings are invalid, and what to do.
    pub(super) fn open(
        self,
        bucket: &str,
        connector: Connector,
        retries: RetryConfig,
    ) -> Result<Arc<dyn ObjectStore>, String> {
        match self {
            Self::S3 => open_s3(bucket, connector, retries),
            Self::Google => open_google(bucket, connector, retries),
            Self::Azure => open_azure(bucket, connector, retries),
        }
    }
}

fn open_s3(
    bucket: &str,
    connector: Connector,
    retries: RetryConfig,
) -> Result<Arc<dyn ObjectStore>, String> {
    let profile = AwsProfile::load()?;
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_http_connector(connector)
        .with_retry(retries);
    match first_variable(&AWS_ENDPOINTS) {
        Some((name, url)) => check_endpoint(name, &url, "AWS_ALLOW_HTTP")?,
        None => {
            if let Some(url) = profile.endpoint_url() {
                check_endpoint("endpoint_url of the AWS profile", url, "AWS_ALLOW_HTTP")?;
                builder = builder.with_endpoint(url);
            }
        }
    }
    if let (None, Some(region)) = (first_variable(&AWS_REGIONS), profile.region()) {
        builder = builder.with_region(region);
    }
    let uses_instance_role = variable("AWS_EC2_METADATA_DISABLED")
        .is_some_and(|value| value.eq_ignore_ascii_case("false"));
    if first_variable(&AWS_CREDENTIALS).is_none() {
        builder = match profile.credentials()? {
            Some(ProfileCredentials::Keys {
                key_id,
                secret_key,
                token,
            }) => {
                let credential = AwsCredential {
                    key_id,
                    secret_key,
                    token,
                };
                builder.with_credentials(Arc::new(StaticCredentialProvider::new(credential)))
            }
            Some(ProfileCredentials::Process(command)) => {
                builder.with_credentials(Arc::new(CredentialProcess::new(profile.name(), command)))
            }
            None if uses_instance_role || first_variable(&AWS_CONTAINER_CREDENTIALS).is_some() => {
                builder
            }
            None => builder.with_skip_signature(true),
        };
    }
    Ok(Arc::new(builder.build().map_err(|error| describe(&error))?))
}

fn open_google(
    bucket: &str,
    connector: Connector,
    retries: RetryConfig,
) -> Result<Arc<dyn ObjectStore>, String> {
    if let Some((name, url)) = first_variable(&["GOOGLE_BASE_URL"]) {
        check_endpoint(name, &url, "GOOGLE_ALLOW_HTTP")?;
    }
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(bucket)
        .with_http_connector(connector)
        .with_retry(retries);
    let keys = [
        GoogleConfigKey::ServiceAccount,
        GoogleConfigKey::ServiceAccountKey,
        GoogleConfigKey::ApplicationCredentials,
        GoogleConfigKey::BearerToken,
        // `false` selects the service account of the machine.
        GoogleConfigKey::SkipSignature,
    ];
    let is_set = keys
        .iter()
        .any(|key| is_set(builder.get_config_value(key), key.as_ref()));
    let has_login = || {
        variable("HOME")
            .is_some_and(|home| Path::new(&home).join(GOOGLE_DEFAULT_CREDENTIALS).exists())
    };
    if !is_set && !has_login() {
        builder = builder.with_skip_signature(true);
    }
    Ok(Arc::new(builder.build().map_err(|error| describe(&error))?))
}

fn open_azure(
    container: &str,
    connector: Connector,
    retries: RetryConfig,
) -> Result<Arc<dyn ObjectStore>, String> {
    if let Some((name, url)) = first_variable(&["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"]) {
        check_endpoint(name, &url, "AZURE_ALLOW_HTTP")?;
    }
    let mut builder = MicrosoftAzureBuilder::from_env()
        // Either a container, or container@account.dfs.core.windows.net.
        .with_url(format!("abfss://{container}"))
        .with_http_connector(connector)
        .with_retry(retries);
    let value = |key: &AzureConfigKey| builder.get_config_value(key);
    let is_true = |key| value(key).is_some_and(|value| value == "true");
    let keys = [
        AzureConfigKey::AccessKey,
        AzureConfigKey::SasKey,
        AzureConfigKey::Token,
        AzureConfigKey::ClientSecret,
        AzureConfigKey::FederatedTokenFile,
        AzureConfigKey::FabricSessionToken,
        // `false` selects the managed identity of the machine.
        AzureConfigKey::SkipSignature,
    ];
    let is_emulator = is_true(&AzureConfigKey::UseEmulator);
    let is_set = keys.iter().any(|key| is_set(value(key), key.as_ref()));
    if value(&AzureConfigKey::AccountName).is_none() && !container.contains('@') && !is_emulator {
        return Err(
            "the storage account is unknown; set AZURE_STORAGE_ACCOUNT_NAME, or write \
                    abfss://container@account.dfs.core.windows.net/blob"
                .into(),
        );
    }
    if !is_set && !is_emulator && !is_true(&AzureConfigKey::UseAzureCli) {
        builder = builder.with_skip_signature(true);
    }
    Ok(Arc::new(builder.build().map_err(|error| describe(&error))?))
}

/// Whether a setting is set; one that is true or false always has a value, so its variable is
/// looked up.
fn is_set(value: Option<String>, key: &str) -> bool {
    match value.as_deref() {
        Some("true" | "false") => variable(&key.to_ascii_uppercase()).is_some(),
        value => value.is_some(),
    }
}

/// Plain http must be allowed explicitly: credentials protect requests, but not responses.
fn check_endpoint(name: &str, url: &str, allow_variable: &str) -> Result<(), String> {
    let allowed = || {
        variable(allow_variable)
            .is_some_and(|v| ["1", "true", "yes", "on"].contains(&&*v.to_lowercase()))
    };
    match url
        .split_once("://")
        .map(|(scheme, _)| scheme.to_ascii_lowercase())
        .as_deref()
    {
        Some("https") => Ok(()),
        Some("http") if allowed() => Ok(()),
        Some("http") => Err(format!(
            "{name} is an http:// URL, which is not encrypted; set {allow_variable}=true to allow it, or give \
             a https:// URL"
        )),
        _ => Err(format!("{name} is no https:// URL; correct it")),
    }
}

/// The reason of an error, without content of files with keys.
fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    match causes.find_map(|cause| cause.downcast_ref::<serde_json::Error>()) {
        Some(json) => format!(
            "the file or variable with credentials cannot be used (line {}, column {}); supported are keys of \
             service accounts and the credentials of `gcloud auth application-default login`",
            json.line(),
            json.column()
        ),
        None => format!("{}; correct it", root_cause(error)),
    }
}
