//! In: entries by number. Out: the same from an SQLite file that many processes share.
//! A rollback journal, not a write-ahead log: the latter needs memory shared by mapping a file, which network file systems do
//! not have, and which ends the process if the file is cut short. A reader takes a lock for some microseconds.
//! SQLite's locks are the process's: nothing else in it (Python's sqlite3, say) may open and close the file meanwhile.
//! Never: believes what it reads; values are sealed, see `entry`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Result, TransactionBehavior};

/// How long a reader waits for a writer before it goes without: building most indices takes less.
const READ_PATIENCE: Duration = Duration::from_millis(250);
/// How long a writer waits for others.
const WRITE_PATIENCE: Duration = Duration::from_secs(20);

/// What may be done with a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Look up only; the database must exist.
    Read,
    /// Look up and keep what is new; the database is made if need be.
    Write,
}

/// A connection that looks up.
pub fn reader(file: &Path, access: Access) -> Result<Connection> {
    // With leave to write, since it may be a reader who finds, and undoes, what a killed writer left half done.
    let flags = match access {
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    let connection = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(READ_PATIENCE)?;
    guard(&connection)?;
    Ok(connection)
}

/// A connection that writes; makes the file and the table.
pub fn writer(file: &Path) -> Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    if connection.is_readonly("main")? {
        // SQLite opens for reading what it may not write, and would say so only when the first entry is put in.
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY),
            None,
        ));
    }
    connection.busy_timeout(WRITE_PATIENCE)?;
    guard(&connection)?;
    lay_out(&connection)?;
    Ok(connection)
}

/// What a damaged file could ask for is refused.
fn guard(connection: &Connection) -> Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.pragma_update(None, "cell_size_check", true)
}

fn lay_out(connection: &Connection) -> Result<()> {
    connection.pragma_update(None, "page_size", 4096)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    connection.execute_batch("CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY, value BLOB NOT NULL)")
}

/// Looks an entry up and shows it to `visit`.
pub fn get<T>(connection: &Connection, id: i64, visit: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
    let mut statement = connection.prepare_cached("SELECT value FROM entry WHERE id = ?1")?;
    statement.query_row([id], |row| Ok(visit(row.get_ref(0)?.as_blob()?))).optional()
}

/// Shows all entries to `visit`, which may end it by `false`.
pub fn each(connection: &Connection, mut visit: impl FnMut(i64, &[u8]) -> bool) -> Result<()> {
    let mut statement = connection.prepare("SELECT id, value FROM entry")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if !visit(row.get(0)?, row.get_ref(1)?.as_blob()?) {
            break;
        }
    }
    Ok(())
}

/// Puts entries in, in place of those of the same numbers: all of them or none. In a damaged tree they may go to a place
/// where nobody looks for them: that is found out, too.
pub fn put(connection: &mut Connection, entries: &BTreeMap<i64, Vec<u8>>) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut statement = transaction.prepare_cached("INSERT OR REPLACE INTO entry VALUES (?1, ?2)")?;
        for (id, value) in entries {
            statement.execute((id, value))?;
        }
    }
    for (id, value) in entries {
        if get(&transaction, *id, |found| found == &value[..])? != Some(true) {
            return Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
                None,
            ));
        }
    }
    transaction.commit()
}

/// Takes entries out.
pub fn remove(connection: &mut Connection, ids: &[i64]) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for id in ids {
        transaction.execute("DELETE FROM entry WHERE id = ?1", [id])?;
    }
    transaction.commit()
}

/// Empties a damaged database in place, under SQLite's own locks, so that others who have it open see an empty one. Nothing
/// happens if it turns out to be sound: another process was here first. Returns whether it was emptied.
pub fn reset(file: &Path) -> Result<bool> {
    let connection = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(WRITE_PATIENCE)?;
    guard(&connection)?;
    if is_sound(&connection) {
        return Ok(false);
    }
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true)?;
    connection.execute_batch("VACUUM")?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false)?;
    lay_out(&connection)?;
    Ok(true)
}

fn is_sound(connection: &Connection) -> bool {
    let check = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    connection.query_row("PRAGMA quick_check(1)", [], check).is_ok_and(|said| said == "ok")
        && get(connection, 0, |_| ()).is_ok()
}

/// Whether an error says that the file is damaged, rather than that the machine, a lock or a permission is in the way.
pub fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::SystemIoFailure => failure.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ,
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::InternalMalfunction
            | ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::TooBig
            | ErrorCode::Unknown => true,
            _ => false,
        },
        // The table is not as it was laid out.
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::InvalidColumnIndex(_)
        | rusqlite::Error::SqlInputError { .. }
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::ExecuteReturnedResults => true,
        _ => false,
    }
}

/// Whether an error says that this process may not write.
pub fn is_denied(error: &rusqlite::Error) -> bool {
    use ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
    matches!(error.sqlite_error_code(), Some(ReadOnly | CannotOpen | PermissionDenied))
}

/// Whether an error only says that others were busy for too long.
pub fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
