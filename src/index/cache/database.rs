//! Stores entries by number in an SQLite file that processes share. Values are not trusted, see
//! `record`. SQLite's locks belong to the process: other code in it (such as Python's sqlite3) must
//! not open and close the file meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Result, TransactionBehavior};

/// How long a reader waits for a writer before the entry counts as missing: building most indices
/// takes less time.
const READ_TIMEOUT: Duration = Duration::from_millis(250);
/// How long a writer waits for other processes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

/// Permitted use of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// Read entries only; the database must exist.
    Read,
    /// Read and write entries; the database is created if it does not exist.
    Write,
}

/// Opens a connection for reading.
pub(super) fn reader(file: &Path, access: AccessMode) -> Result<Connection> {
    // Opened for writing if permitted: a reader may have to roll back the transaction of a killed
    // writer.
    let flags = match access {
        AccessMode::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        AccessMode::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    let connection = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(READ_TIMEOUT)?;
    guard(&connection)?;
    Ok(connection)
}

/// Opens a connection for writing; creates the file and the table.
pub(super) fn writer(file: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    if connection.is_readonly("main")? {
        // SQLite falls back to read-only access and would report it only at the first insertion.
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY),
            None,
        ));
    }
    connection.busy_timeout(WRITE_TIMEOUT)?;
    guard(&connection)?;
    create_schema(&connection)?;
    Ok(connection)
}

/// Sets options that limit what a damaged or malicious file can do.
fn guard(connection: &Connection) -> Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.pragma_update(None, "cell_size_check", true)
}

fn create_schema(connection: &Connection) -> Result<()> {
    connection.pragma_update(None, "page_size", 4096)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // A rollback journal instead of a write-ahead log: the latter needs shared memory in a mapped
    // file, which network file systems do not support and which crashes the process if the file is
    // truncated. A reader holds its lock only for microseconds.
    connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    // Numbers of entries are hashes. Values are in a table of their own, where new ones are
    // appended: in a table ordered by the hashes, each new value would change another page, which
    // is written twice.
    let known = "SELECT count(*) FROM sqlite_schema WHERE name IN ('record', 'lookup')";
    if connection.query_row(known, [], |row| row.get::<_, i64>(0))? == 2 {
        return Ok(());
    }
    // One transaction, whose lock is taken at the start: another process may create the tables now.
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS record (number INTEGER PRIMARY KEY, id INTEGER NOT NULL, value BLOB NOT NULL);
         CREATE TABLE IF NOT EXISTS lookup (id INTEGER PRIMARY KEY, number INTEGER NOT NULL, day INTEGER NOT NULL)",
    )?;
    transaction.commit()
}

/// Looks up an entry and passes it to `visit` with the day of its last recorded use.
pub(super) fn get<T>(
    connection: &Connection,
    id: i64,
    visit: impl FnOnce(&[u8], i64) -> T,
) -> Result<Option<T>> {
    let mut statement = connection.prepare_cached(
        "SELECT value, day FROM lookup JOIN record USING (number) WHERE lookup.id = ?1",
    )?;
    statement
        .query_row([id], |row| {
            Ok(visit(row.get_ref(0)?.as_blob()?, row.get(1)?))
        })
        .optional()
}

/// Passes all entries to `visit` until it returns `false`.
pub(super) fn each(
    connection: &Connection,
    mut visit: impl FnMut(i64, &[u8]) -> bool,
) -> Result<()> {
    let mut statement = connection.prepare("SELECT id, value FROM record")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if !visit(row.get(0)?, row.get_ref(1)?.as_blob()?) {
            break;
        }
    }
    Ok(())
}

/// Inserts or replaces entries that are used on day `today`, all of them or none. A damaged B-tree
/// may store them where lookups do not find them, so each one is read back.
pub(super) fn put(
    connection: &mut Connection,
    entries: &BTreeMap<i64, Vec<u8>>,
    today: i64,
) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut old = transaction.prepare_cached(DELETE_RECORD)?;
        let mut record =
            transaction.prepare_cached("INSERT INTO record (id, value) VALUES (?1, ?2)")?;
        let mut lookup =
            transaction.prepare_cached("INSERT OR REPLACE INTO lookup VALUES (?1, ?2, ?3)")?;
        for (id, value) in entries {
            old.execute([id])?;
            record.execute((id, value))?;
            lookup.execute((id, transaction.last_insert_rowid(), today))?;
        }
    }
    for (id, value) in entries {
        if get(&transaction, *id, |found, _| found == &value[..])? != Some(true) {
            return Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
                None,
            ));
        }
    }
    transaction.commit()
}

const DELETE_RECORD: &str =
    "DELETE FROM record WHERE number = (SELECT number FROM lookup WHERE lookup.id = ?1)";

/// Removes entries.
pub(super) fn remove(connection: &mut Connection, ids: &[i64]) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for id in ids {
        transaction.prepare_cached(DELETE_RECORD)?.execute([id])?;
        transaction
            .prepare_cached("DELETE FROM lookup WHERE id = ?1")?
            .execute([id])?;
    }
    transaction.commit()
}

/// Records that entries were used on day `today`.
pub(super) fn touch(connection: &mut Connection, ids: &BTreeSet<i64>, today: i64) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for id in ids {
        transaction
            .prepare_cached("UPDATE lookup SET day = ?1 WHERE id = ?2")?
            .execute((today, id))?;
    }
    transaction.commit()
}

/// Removes the entries that have not been used for the longest time, until the rest has at most
/// `max_bytes`.
pub(super) fn remove_least_recently_used(
    connection: &mut Connection,
    max_bytes: u64,
) -> Result<u64> {
    let mut removed = 0;
    while used_bytes(connection)? > max_bytes {
        let count = summary(connection)?.0;
        let at_once = i64::try_from(count / 16)
            .unwrap_or(i64::MAX)
            .clamp(1, 20_000);
        let ids = {
            let mut statement = connection.prepare_cached(
                "SELECT id FROM lookup WHERE day = (SELECT min(day) FROM lookup) ORDER BY number LIMIT ?1",
            )?;

            statement
                .query_map([at_once], |row| row.get(0))?
                .collect::<Result<Vec<i64>>>()?
        };
        if ids.is_empty() {
            break; // the rest is the schema
        }
        remove(connection, &ids)?;
        removed += ids.len() as u64;
    }
    Ok(removed)
}

/// Bytes of the pages in use. Pages of removed entries stay in the file for new ones.
pub(super) fn used_bytes(connection: &Connection) -> Result<u64> {
    let value = |name| {
        connection.pragma_query_value(None, name, |row| Ok(row.get::<_, i64>(0)?.unsigned_abs()))
    };
    Ok(value("page_count")?.saturating_sub(value("freelist_count")?) * value("page_size")?)
}

/// Number of entries, and the first day on which one of them was used last.
pub(super) fn summary(connection: &Connection) -> Result<(u64, Option<i64>)> {
    connection.query_row("SELECT count(*), min(day) FROM lookup", [], |row| {
        Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?))
    })
}

/// Empties a damaged database in place under SQLite's own locks, so that other processes that have
/// it open see an empty one. Does nothing if the database is valid, because another process was
/// first. Returns whether it was emptied.
pub(super) fn reset(file: &Path) -> Result<bool> {
    let connection = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(WRITE_TIMEOUT)?;
    guard(&connection)?;
    if is_valid(&connection) {
        return Ok(false);
    }
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true)?;
    connection.execute_batch("VACUUM")?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false)?;
    create_schema(&connection)?;
    Ok(true)
}

fn is_valid(connection: &Connection) -> bool {
    let check = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    connection
        .query_row("PRAGMA quick_check(1)", [], check)
        .is_ok_and(|said| said == "ok")
        && get(connection, 0, |_, _| ()).is_ok()
}

/// Whether an error means that the file is damaged, rather than a failure of the machine, a lock or
/// a permission.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::SystemIoFailure => {
                failure.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ
            }
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::InternalMalfunction
            | ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::TooBig
            | ErrorCode::Unknown => true,
            _ => false,
        },
        // The table does not have the expected columns.
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::InvalidColumnIndex(_)
        | rusqlite::Error::SqlInputError { .. }
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::ExecuteReturnedResults => true,
        _ => false,
    }
}

/// Whether an error means that this process lacks write permission.
pub(super) fn is_denied(error: &rusqlite::Error) -> bool {
    use ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
    matches!(
        error.sqlite_error_code(),
        Some(ReadOnly | CannotOpen | PermissionDenied)
    )
}

/// Whether an error only means that other connections were busy for too long.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}
