// Functions that glibc 2.28 does not have, or has only as parts of each program. scripts/link_library.sh links them into the
// library, so that it does not need them from a newer glibc. Nothing outside the library calls them.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// On 64-bit machines the kernel fills the C library's struct.
int fstatat64(int folder, const char *path, struct stat64 *result, int flags) {
  return (int)syscall(SYS_newfstatat, folder, path, result, flags);
}

int stat64(const char *path, struct stat64 *result) { return fstatat64(AT_FDCWD, path, result, 0); }

int lstat64(const char *path, struct stat64 *result) { return fstatat64(AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW); }

int fstat64(int file, struct stat64 *result) { return (int)syscall(SYS_fstat, file, result); }

pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

// Rust's library refers to it for programs that are started in another folder, which this library never requests.
int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *actions, const char *path) {
  (void)actions, (void)path;
  return ENOSYS;
}
