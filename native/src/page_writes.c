/* Pages of a commit, copied into a second, shared mapping of the data file instead of written by a call of the system.
 *
 * A copy that the file system cannot keep ends the process (SIGBUS), where a write answers an error. So a page is copied
 * only where it was written before by this environment: it has its place on the disk. That is true where a file system
 * writes in place (those of `WRITE_IN_PLACE`); all others write as LMDB does. See docs/design/native.md.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

enum { METAS = 2, LEAST_MAPPED = 1 << 20 };

/* The commit that this thread makes; NULL while it makes none. */
static _Thread_local PageWrites *committing;

#ifdef __linux__
/* ext2, ext3 and ext4; tmpfs (linux/magic.h). */
static const long WRITE_IN_PLACE[] = {0xEF53, 0x01021994};

static int writes_in_place(int file) {
    struct statfs found;
    if (fstatfs(file, &found)) return 0;
    for (size_t i = 0; i < sizeof WRITE_IN_PLACE / sizeof *WRITE_IN_PLACE; i++)
        if ((long)found.f_type == WRITE_IN_PLACE[i]) return 1;
    return 0;
}
#else
#define MADV_DONTFORK MADV_NORMAL
static int writes_in_place(int file) {
    (void)file;
    return 0;
}
#endif

void page_writes_open(PageWrites *self, MDB_env *env) {
    MDB_stat stat;
    self->copies = !mdb_env_get_fd(env, &self->file) && !mdb_env_stat(env, &stat) && writes_in_place(self->file);
    if (self->copies) self->page = stat.ms_psize;
}

void page_writes_close(PageWrites *self) {
    if (self->map) munmap(self->map, self->mapped);
    free(self->written);
    *self = (PageWrites){0};
}

/* Maps a file that has grown, with room for more. A child of a fork has no copy of the mapping. */
static void map_again(PageWrites *self, size_t size) {
    size_t mapped = LEAST_MAPPED;
    while (mapped < size) mapped *= 2;
    unsigned char *written = calloc(mapped / self->page, 1);
    char *map = written ? mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, self->file, 0) : MAP_FAILED;
    if (map == MAP_FAILED || madvise(map, mapped, MADV_DONTFORK)) {
        if (map != MAP_FAILED) munmap(map, mapped);
        free(written);
        self->copies = 0;
        return;
    }
    if (self->map) {
        memcpy(written, self->written, self->mapped / self->page);
        munmap(self->map, self->mapped);
        free(self->written);
    }
    self->map = map;
    self->mapped = mapped;
    self->written = written;
}

/* Looks whether the file has grown, or was cut: what lies behind its end must not be copied. */
static void look(PageWrites *self) {
    struct stat found;
    size_t size = fstat(self->file, &found) ? 0 : (size_t)found.st_size;
    if (size < self->size) memset(self->written, 0, self->mapped / self->page); /* nothing has a place for sure */
    if (size > self->mapped) map_again(self, size);
    self->size = size;
    self->tried = 0;
}

int page_writes_commit(PageWrites *self, MDB_txn *txn) {
    if (!self->copies) return mdb_txn_commit(txn);
    look(self);
    committing = self;
    int code = mdb_txn_commit(txn);
    committing = NULL;
    return code;
}

/* Whether these are whole pages of the commit that this thread makes, and no meta page. */
static int are_pages(const PageWrites *self, int file, size_t size, off_t at) {
    return self && self->copies && file == self->file && size && !(size % self->page) && !((size_t)at % self->page) &&
           (size_t)at >= METAS * self->page;
}

/* Whether pages were written before. The first ones of a commit are written always: where the file system takes no writes
 * any more, that says so. */
static int may_be_copied(PageWrites *self, size_t size, off_t at) {
    size_t first = (size_t)at / self->page, end = first + size / self->page;
    if (!self->tried || (size_t)at + size > self->mapped) return 0;
    for (size_t page = first; page < end; page++)
        if (!self->written[page]) return 0;
    return 1;
}

/* After a write that answered `done`. Returns it. */
static ssize_t note(PageWrites *self, ssize_t done, size_t size, off_t at) {
    if (done != (ssize_t)size) return done;
    self->tried = 1;
    if ((size_t)at + size <= self->mapped) memset(self->written + (size_t)at / self->page, 1, size / self->page);
    return done;
}

ssize_t oneread_pwrite(int file, const void *bytes, size_t size, off_t at) {
    PageWrites *self = committing;
    if (!are_pages(self, file, size, at)) return pwrite(file, bytes, size, at);
    if (!may_be_copied(self, size, at)) return note(self, pwrite(file, bytes, size, at), size, at);
    memcpy(self->map + at, bytes, size);
    self->copied += size / self->page;
    return (ssize_t)size;
}

off_t oneread_lseek(int file, off_t at, int whence) {
    PageWrites *self = committing;
    if (!self || file != self->file || whence != SEEK_SET) return lseek(file, at, whence);
    return self->at = at;
}

ssize_t oneread_writev(int file, const struct iovec *parts, int count) {
    PageWrites *self = committing;
    size_t size = 0;
    if (!self || file != self->file) return writev(file, parts, count);
    const off_t at = self->at;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    if (!are_pages(self, file, size, at)) return pwritev(file, parts, count, at);
    if (!may_be_copied(self, size, at)) return note(self, pwritev(file, parts, count, at), size, at);
    char *to = self->map + at;
    for (int i = 0; i < count; to += parts[i].iov_len, i++) memcpy(to, parts[i].iov_base, parts[i].iov_len);
    self->copied += size / self->page;
    return (ssize_t)size;
}
