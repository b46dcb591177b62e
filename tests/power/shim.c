/* Preloaded below LMDB: records, in order, every call that changes what a disk may hold, and makes chosen ones fail.

   POWER_ROOT names the folder that is watched, POWER_LOG the file that the records are appended to, one write each, so
   that several processes share one order. A call is recorded before it is made and again when it has returned: what was
   written may be on disk from the first record on, and what was synced is there from the second on. A write counts as
   synced by itself where its descriptor was opened with O_DSYNC or O_SYNC. tests/power/recording.py reads the records.

   The program under test calls power_mark when something was acknowledged, and power_fail to choose failures. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 4096
enum { END = 1, DSYNC = 2, SKIPPED = 4, FOLDER = 8 };

struct record {
    uint32_t total, process;
    uint8_t kind, flags;
    uint16_t path_size;
    uint32_t data_size;
    uint64_t call;
    int64_t offset, result;
} __attribute__((packed));

struct file { char *path; int flags; };

static struct file files[FILES];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char *root;
static size_t root_size;
static int log_file = -1;
static useconds_t slow;
static uint64_t calls;
static struct { char kind; int left, times, error, done; } failing;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

static int watched(const char *path) {
    return root && !strncmp(path, root, root_size) && (path[root_size] == '/' || !path[root_size]);
}

static void start(void) {
    static int started;
    if (started) return;
    started = 1;
    const char *pause = getenv("POWER_SLOW_US"), *log = getenv("POWER_LOG");
    root = getenv("POWER_ROOT");
    slow = pause ? (useconds_t)atoi(pause) : 0;
    if (!root || !log) { root = NULL; return; }
    root_size = strlen(root);
    log_file = REAL(open)(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log_file < 0) abort();
}

__attribute__((constructor)) static void loaded(void) { start(); }

static void put(char kind, int flags, uint64_t call, const char *path, int64_t offset, int64_t result,
                const struct iovec *data, int count, size_t data_size) {
    struct record head = {0};
    struct iovec parts[IOV_MAX];
    size_t path_size = strlen(path), left = data_size;
    int used = 2;
    head.process = (uint32_t)getpid();
    head.kind = (uint8_t)kind;
    head.flags = (uint8_t)flags;
    head.path_size = (uint16_t)path_size;
    head.data_size = (uint32_t)data_size;
    head.call = call;
    head.offset = offset;
    head.result = result;
    head.total = (uint32_t)(sizeof head + path_size + data_size);
    parts[0] = (struct iovec){&head, sizeof head};
    parts[1] = (struct iovec){(void *)path, path_size};
    for (int k = 0; k < count && left; k++) {
        size_t size = data[k].iov_len < left ? data[k].iov_len : left;
        parts[used++] = (struct iovec){data[k].iov_base, size};
        left -= size;
    }
    if (REAL(writev)(log_file, parts, used) != (ssize_t)head.total) abort();
}

static uint64_t next_call(void) { return __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST); }

/* The path of a watched descriptor, copied, or an empty string. */
static int known(int fd, char *path) {
    int flags = 0;
    *path = 0;
    if (fd < 0 || fd >= FILES || !root) return 0;
    pthread_mutex_lock(&mutex);
    if (files[fd].path) {
        snprintf(path, PATH_MAX, "%s", files[fd].path);
        flags = files[fd].flags;
    }
    pthread_mutex_unlock(&mutex);
    return flags;
}

static void absolute(int folder, const char *given, char *path) {
    char at[64], base[PATH_MAX] = "";
    if (*given == '/') { snprintf(path, PATH_MAX, "%s", given); return; }
    if (folder == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) abort();
    } else {
        snprintf(at, sizeof at, "/proc/self/fd/%d", folder);
        ssize_t size = readlink(at, base, sizeof base - 1);
        base[size < 0 ? 0 : size] = 0;
    }
    if (snprintf(path, PATH_MAX, "%s/%s", base, given) >= PATH_MAX) abort();
}

/* Whether the call about to be made is to fail: 0, or the error number; -1 for a write that is cut short. */
static int chosen(char kind, const char *path) {
    size_t size = strlen(path);
    if (size < 8 || strcmp(path + size - 8, "data.mdb")) return 0;
    pthread_mutex_lock(&mutex);
    int error = 0;
    if (failing.times && failing.kind == kind && --failing.left < 0) {
        failing.times--;
        error = failing.error;
    }
    pthread_mutex_unlock(&mutex);
    return error;
}

/* From the n-th call of a kind on (0: the next), so many calls fail. Kinds: 'S' a sync, 'W' a write, 'D' a write through
   a synchronous descriptor. `done`: a write is made all the same and only reported as failed. */
void power_fail(char kind, int nth, int times, int error, int done) {
    pthread_mutex_lock(&mutex);
    failing.kind = kind; failing.left = nth; failing.times = times; failing.error = error; failing.done = done;
    pthread_mutex_unlock(&mutex);
}

void power_mark(const char *text) {
    struct iovec data = {(void *)text, strlen(text)};
    if (root) put('A', END, next_call(), "", 0, 0, &data, 1, data.iov_len);
}

/* ---- opening and closing ---- */

static int opened(int fd, int flags, int was_there, const char *path) {
    struct stat found;
    if (fd < 0) return fd;
    if (fd >= FILES || fstat(fd, &found)) abort();
    pthread_mutex_lock(&mutex);
    files[fd].path = strdup(path);
    files[fd].flags = flags & (O_DSYNC | O_SYNC) ? DSYNC : 0;
    if (S_ISDIR(found.st_mode)) files[fd].flags |= FOLDER;
    pthread_mutex_unlock(&mutex);
    if (!was_there) put('O', END, next_call(), path, 0, 0, NULL, 0, 0);
    else if (flags & O_TRUNC) put('T', END, next_call(), path, 0, 0, NULL, 0, 0);
    return fd;
}

/* A file without a name is gone with its program: after a power failure nothing of it is there. */
#define OPEN(folder, name, call)                                                          \
    start();                                                                              \
    mode_t mode = 0;                                                                      \
    char path[PATH_MAX];                                                                  \
    if (flags & (O_CREAT | __O_TMPFILE)) {                                                \
        va_list more;                                                                     \
        va_start(more, flags);                                                            \
        mode = va_arg(more, mode_t);                                                      \
        va_end(more);                                                                     \
    }                                                                                     \
    absolute(folder, name, path);                                                         \
    if (!watched(path) || (flags & O_TMPFILE) == O_TMPFILE) return call;                  \
    int was_there = !access(path, F_OK);                                                  \
    return opened(call, flags, was_there, path)

int open(const char *name, int flags, ...) { OPEN(AT_FDCWD, name, REAL(open)(name, flags, mode)); }
int open64(const char *name, int flags, ...) { OPEN(AT_FDCWD, name, REAL(open64)(name, flags, mode)); }
int openat(int at, const char *name, int flags, ...) { OPEN(at, name, REAL(openat)(at, name, flags, mode)); }
int openat64(int at, const char *name, int flags, ...) { OPEN(at, name, REAL(openat64)(at, name, flags, mode)); }

int close(int fd) {
    start();
    if (fd >= 0 && fd < FILES && root) {
        pthread_mutex_lock(&mutex);
        free(files[fd].path);
        files[fd].path = NULL;
        pthread_mutex_unlock(&mutex);
    }
    return REAL(close)(fd);
}

/* ---- writing ---- */

static ssize_t writing(int fd, const struct iovec *data, int count, off_t offset) {
    char path[PATH_MAX];
    int flags = known(fd, path), positioned = offset >= 0;
    size_t size = 0;
    if (!*path)
        return positioned ? REAL(pwritev)(fd, data, count, offset) : REAL(writev)(fd, data, count);
    for (int k = 0; k < count; k++) size += data[k].iov_len;
    if (!positioned) offset = lseek(fd, 0, SEEK_CUR);
    int error = chosen(flags & DSYNC ? 'D' : 'W', path);
    uint64_t call = next_call();
    ssize_t done = -1;
    if (error < 0) {
        size /= 2;
        struct iovec half = {data[0].iov_base, data[0].iov_len < size ? data[0].iov_len : size};
        put('W', flags, call, path, offset, 0, &half, 1, half.iov_len);
        done = REAL(pwrite)(fd, half.iov_base, half.iov_len, offset);
        put('W', flags | END, call, path, offset, done, NULL, 0, 0);
        return done;
    }
    if (error && !failing.done) {
        put('W', flags | SKIPPED, call, path, offset, 0, NULL, 0, 0);
    } else {
        put('W', flags, call, path, offset, 0, data, count, size);
        done = positioned ? REAL(pwritev)(fd, data, count, offset) : REAL(writev)(fd, data, count);
        if (done != (ssize_t)size) abort(); /* the real disk failed: this test knows nothing about that */
    }
    put('W', flags | END, call, path, offset, error ? -1 : done, NULL, 0, 0);
    if (error) { errno = error; return -1; }
    return done;
}

ssize_t write(int fd, const void *data, size_t size) {
    char path[PATH_MAX];
    start();
    known(fd, path);
    if (!*path) return REAL(write)(fd, data, size);
    struct iovec part = {(void *)data, size};
    return writing(fd, &part, 1, -1);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    struct iovec part = {(void *)data, size};
    start();
    return writing(fd, &part, 1, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) { return pwrite(fd, data, size, offset); }
ssize_t writev(int fd, const struct iovec *data, int count) { start(); return writing(fd, data, count, -1); }
ssize_t pwritev(int fd, const struct iovec *data, int count, off_t at) { start(); return writing(fd, data, count, at); }
ssize_t pwritev64(int fd, const struct iovec *data, int count, off64_t at) { return pwritev(fd, data, count, at); }

static int resized(char kind, int fd, off_t size, int result) {
    char path[PATH_MAX];
    known(fd, path);
    if (*path && !result) put(kind, END, next_call(), path, size, 0, NULL, 0, 0);
    return result;
}

int ftruncate(int fd, off_t size) { return resized('T', fd, size, REAL(ftruncate)(fd, size)); }
int ftruncate64(int fd, off64_t size) { return resized('T', fd, size, REAL(ftruncate64)(fd, size)); }
int posix_fallocate(int fd, off_t at, off_t size) {
    return resized('G', fd, at + size, REAL(posix_fallocate)(fd, at, size));
}
int posix_fallocate64(int fd, off64_t at, off64_t size) {
    return resized('G', fd, at + size, REAL(posix_fallocate64)(fd, at, size));
}

void *mmap(void *at, size_t size, int access, int flags, int fd, off_t offset) {
    char path[PATH_MAX];
    start();
    known(fd, path);
    if (*path && flags & MAP_SHARED && access & PROT_WRITE) put('X', END, next_call(), path, 0, 0, NULL, 0, 0);
    return REAL(mmap)(at, size, access, flags, fd, offset);
}

/* ---- syncing ---- */

static int syncing(int fd, int (*sync)(int)) {
    char path[PATH_MAX];
    int flags = known(fd, path);
    if (!*path) return sync(fd);
    int error = flags & FOLDER ? 0 : chosen('S', path);
    uint64_t call = next_call();
    put('S', flags & FOLDER, call, path, 0, 0, NULL, 0, 0);
    if (slow) usleep(slow);
    int result = error ? -1 : sync(fd);
    put('S', (flags & FOLDER) | END, call, path, 0, result, NULL, 0, 0);
    if (error) errno = error;
    return result;
}

int fsync(int fd) { start(); return syncing(fd, REAL(fsync)); }
int fdatasync(int fd) { start(); return syncing(fd, REAL(fdatasync)); }

/* ---- names ---- */

static int named(char kind, int at, const char *name, int to, const char *other, int result) {
    char path[PATH_MAX], second[PATH_MAX] = "";
    absolute(at, name, path);
    if (other) absolute(to, other, second);
    struct iovec data = {second, strlen(second)};
    if (!result && watched(path)) put(kind, END, next_call(), path, 0, 0, &data, 1, data.iov_len);
    return result;
}

int rename(const char *a, const char *b) { return named('R', AT_FDCWD, a, AT_FDCWD, b, REAL(rename)(a, b)); }
int renameat(int x, const char *a, int y, const char *b) { return named('R', x, a, y, b, REAL(renameat)(x, a, y, b)); }
int mkdir(const char *a, mode_t m) { return named('M', AT_FDCWD, a, 0, NULL, REAL(mkdir)(a, m)); }
int mkdirat(int x, const char *a, mode_t m) { return named('M', x, a, 0, NULL, REAL(mkdirat)(x, a, m)); }
int unlink(const char *a) { return named('U', AT_FDCWD, a, 0, NULL, REAL(unlink)(a)); }
int unlinkat(int x, const char *a, int f) { return named('U', x, a, 0, NULL, REAL(unlinkat)(x, a, f)); }
int rmdir(const char *a) { return named('U', AT_FDCWD, a, 0, NULL, REAL(rmdir)(a)); }
